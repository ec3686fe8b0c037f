package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Call is one HTTP request to the gateway. Path is below URL. The gateway's own key is sent unless the call has one, or
// NoKey; it goes into x-api-key if there is an anthropic-version header, else into authorization.
type Call struct {
	Method string // "": POST with a body, else GET
	Path   string
	Header []string // "name: value"
	Body   string
	Key    string
	NoKey  bool
	TLS    bool // over the TLS listener
}

// Answer is a whole HTTP answer.
type Answer struct {
	Status  int
	Header  http.Header
	Trailer http.Header
	Body    string
	Err     error // the call failed, or the body broke off
}

// newClient is a client that adds nothing of its own: no compression, no redirects followed. It takes the gateway's
// development certificate, whoever signed it.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DisableCompression: true, MaxIdleConnsPerHost: 64, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Open sends a call and returns the answer as it arrives. The caller closes its body.
func (g *Gateway) Open(ctx context.Context, c Call) (*http.Response, error) {
	req, err := g.Request(ctx, c)
	if err != nil {
		return nil, err
	}
	return g.Send(req)
}

// Send sends a request that Request made, as Open does.
func (g *Gateway) Send(req *http.Request) (*http.Response, error) { return g.client.Do(req) }

// Request is a call as it is sent.
func (g *Gateway) Request(ctx context.Context, c Call) (*http.Request, error) {
	method, url := c.Method, g.URL
	if method == "" {
		method = http.MethodGet
		if c.Body != "" {
			method = http.MethodPost
		}
	}
	if c.TLS {
		url = g.HTTPS
	}
	req, err := http.NewRequestWithContext(ctx, method, url+c.Path, strings.NewReader(c.Body))
	if err != nil {
		return nil, err
	}
	if c.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range c.Header {
		name, value, _ := strings.Cut(h, ":")
		if strings.EqualFold(name, "content-type") {
			req.Header.Del(name) // instead of JSON's
		}
		req.Header.Add(name, strings.TrimSpace(value))
	}
	key := or(c.Key, g.Key)
	switch {
	case c.NoKey || key == "":
	case req.Header.Get("Anthropic-Version") != "":
		req.Header.Set("X-Api-Key", key)
	default:
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return req, nil
}

// callWithin bounds a call, so that a gateway that hangs fails the test that found it and no other.
const callWithin = 60 * time.Second

// Do sends a call and reads the whole answer. A call that fails fails the test, and the answer has the error alone: tests wait for answers from
// goroutines, which must end (t.Fatal would end one before it hands its answer over).
func (g *Gateway) Do(t testing.TB, c Call) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callWithin)
	defer cancel()
	res, err := g.Open(ctx, c)
	if err != nil {
		t.Errorf("%s: %v", c.Path, err)
		return Answer{Header: http.Header{}, Trailer: http.Header{}, Err: err}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return Answer{Status: res.StatusCode, Header: res.Header, Trailer: res.Trailer, Body: string(body), Err: err}
}

// Chat sends an OpenAI Chat Completions request.
func (g *Gateway) Chat(t testing.TB, body string, header ...string) Answer {
	t.Helper()
	return g.Do(t, Call{Path: "/v1/chat/completions", Body: body, Header: header})
}

// Messages sends an Anthropic Messages request.
func (g *Gateway) Messages(t testing.TB, body string, header ...string) Answer {
	t.Helper()
	return g.Do(t, Call{Path: "/v1/messages", Body: body, Header: append([]string{"anthropic-version: 2023-06-01"}, header...)})
}

// JSON parses an answer's body.
func (a Answer) JSON(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.Body), into); err != nil {
		t.Fatalf("status %d, body %q: %v", a.Status, a.Body, err)
	}
}

// Event is one server-sent event, or a comment line.
type Event struct {
	ID      string
	Name    string
	Data    string
	Comment string
}

// Events splits a whole stream.
func (a Answer) Events(t testing.TB) []Event {
	t.Helper()
	r := NewReader(strings.NewReader(a.Body))
	var evs []Event
	for {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) {
			return evs
		}
		if err != nil {
			t.Fatalf("stream %q: %v", a.Body, err)
		}
		evs = append(evs, ev)
	}
}

// Reader reads server-sent events as they arrive.
type Reader struct{ s *bufio.Scanner }

// NewReader reads events of up to 16 MiB.
func NewReader(r io.Reader) *Reader {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	return &Reader{s}
}

// Next returns the next event or comment, or io.EOF at the end. An event that the end cuts off is an error.
func (r *Reader) Next() (Event, error) {
	var ev Event
	begun := false
	for r.s.Scan() {
		line := r.s.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && begun:
			return ev, nil
		case line == "":
		case name == "" && begun:
			return ev, fmt.Errorf("comment %q inside an event", value)
		case name == "":
			return Event{Comment: value}, nil
		case name == "id":
			ev.ID, begun = value, true
		case name == "event":
			ev.Name, begun = value, true
		case name == "data" && ev.Data != "":
			ev.Data += "\n" + value
		case name == "data":
			ev.Data, begun = value, true
		}
	}
	if err := r.s.Err(); err != nil {
		return ev, err
	}
	if begun {
		return ev, io.ErrUnexpectedEOF
	}
	return ev, io.EOF
}

// Metrics are the samples of the admin listener's /metrics, by name with labels as printed.
type Metrics map[string]float64

// Metrics scrapes the gateway.
func (g *Gateway) Metrics(t testing.TB) Metrics {
	t.Helper()
	body := g.admin(t, "/metrics")
	m := Metrics{}
	for line := range strings.SplitSeq(body, "\n") {
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			m[line[:i]] = v
		}
	}
	return m
}

// Sum adds the samples of a metric whose labels hold all of the given ones, e.g. Sum("bardo_requests_total", `status="200"`).
func (m Metrics) Sum(name string, labels ...string) (sum float64) {
sample:
	for k, v := range m {
		if k != name && !strings.HasPrefix(k, name+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(k, l) {
				continue sample
			}
		}
		sum += v
	}
	return sum
}

func (g *Gateway) admin(t testing.TB, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Admin+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("admin %s: %d %v", path, res.StatusCode, err)
	}
	return string(b)
}
