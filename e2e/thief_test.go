package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/internal/seedtest"
)

// account is one of the callers in a lab of thieves, with what it has there that nobody else may see. Whatever it says or names has its mark.
type account struct {
	gateway.NewKey

	mark    string
	tick    string // the other mark, where only a number goes
	session sessionReply
	token   string            // of the stream
	cookie  string            // of the dashboard: "bardo_ui=…"
	csrf    string            // of its forms
	events  map[string]string // the id of an event of its streams, by path
	paths   []string          // of what it has; all of their ids are known to the thief
}

// thiefLab is a gateway whose accounts have one of everything.
type thiefLab struct {
	*keepers

	enclave  *enclave.Enclave
	venice   *fake.Server
	accounts []*account
}

func runThiefLab(t *testing.T, shape string) *thiefLab {
	t.Helper()
	l := &thiefLab{keepers: &keepers{openai: fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own-openai"})}, enclave: enclave.New("venice")}
	l.venice = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "venice", Vendor: fake.Venice, Enclave: l.enclave})
	plain := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "plain"})
	plain.Behave(fake.Behaviour{Thoughts: []fake.Thought{{Text: "it thinks"}}})
	l.Gateway = gateway.Run(t, gateway.Options{DataPath: shape, Home: proctest.Dir(t), Env: []string{"LATER=a long secret of the operator's"}, Config: quick + fmt.Sprintf(`
deferred: {key: env:LATER, gather: 1h, poll: 1h, fallback: 23h}
models: {embedding: "off"}
audit: {file: audit.jsonl}
providers:
  order: [plain, venice]
  venice: {base_url: %q, api_key: %s, attestation_pubkey: %q, attestation_measurements: [%q], models: [{id: sealed, price: {input: 1, output: 2}, %s}]}
  direct: {keys: [{provider: openai, api_key: %s, base_url: %q}]}
  custom: [{id: plain, endpoints: [%q], api_key: %s, models: [{id: m, price: {input: 1, output: 2}}]}]
`, l.venice.URL, l.venice.Key, l.enclave.PublicKey(), l.enclave.Measurement, enclaveModel, l.openai.Key, l.openai.URL, plain.URL, plain.Key)})
	for i, name := range []string{"alice", "bob"} {
		l.accounts = append(l.accounts, l.move(t, name, fmt.Sprintf("MARK%d%s", i, strings.ToUpper(name)), fmt.Sprintf("70350071%d", i)))
	}
	return l
}

// move makes an account, which does one of everything.
func (l *thiefLab) move(t *testing.T, name, mark, tick string) *account {
	t.Helper()
	a := &account{NewKey: l.CreateKey(t, "--name", name+mark, "--balance-usd", "5"), mark: mark, tick: tick, events: map[string]string{}}
	a.token = streamToken(t, l.Gateway, a.Key)
	readers := map[string]*gateway.Reader{"/v1/events": readEvents(t, l.Gateway, a.Key, ""), "/venice/stream": followEvents(t, l.Gateway, a.token, "")}
	must := func(status int, c gateway.Call) gateway.Answer {
		t.Helper()
		c.Key = a.Key
		got := l.Do(t, c)
		if got.Status != status {
			t.Fatalf("%s %s: %d %s", c.Method, c.Path, got.Status, got.Body)
		}
		return got
	}
	golem := "X-Bardo-Golem-Id: g-" + mark
	id := must(http.StatusOK, ask{dialect: fake.OpenAI, model: "m", say: mark, more: `"temperature":0`}.call(golem, "X-Bardo-Surface: discord", "X-Bardo-Tick: 7")).Header.Get("X-Request-Id")
	must(http.StatusOK, gateway.Call{Path: "/v1/requests/" + id + "/feedback", Body: fmt.Sprintf(`{"score":1,"reason":%q}`, mark)})
	c := trade(true)
	c.Header[len(c.Header)-1], c.Header[len(c.Header)-2] = golem, "X-Bardo-Tick: "+tick
	attested := must(http.StatusOK, c).Header.Get("X-Request-Id")
	later := must(http.StatusAccepted, ask{dialect: fake.OpenAI, model: "m", say: mark}.call(golem, "X-Bardo-Defer: 24h")).Header.Get("X-Request-Id")
	must(http.StatusCreated, gateway.Call{Path: "/v1/sessions", Body: fmt.Sprintf(`{"golem_id":"g-%s"}`, mark)}).JSON(t, &a.session)
	at := "/v1/sessions/" + a.session.ID
	must(http.StatusOK, gateway.Call{Method: http.MethodPut, Path: at + "/scratchpad/pad", Body: fmt.Sprintf(`{"x":%q}`, mark)})
	must(http.StatusOK, gateway.Call{Method: http.MethodPut, Path: at + "/memory/doc", Body: fmt.Sprintf(`{"text":%q}`, mark)})
	check := between(must(http.StatusCreated, gateway.Call{Path: at + "/checkpoints", Body: fmt.Sprintf(`{"x":%q}`, mark)}).Body, `"id":"`, `"`)
	file := l.upload(t, a.Key, []byte("a file of "+mark)).ID
	batch := between(must(http.StatusOK, gateway.Call{Path: "/v1/batches", Body: fmt.Sprintf(`{"input_file_id":%q,"metadata":{"m":%q}}`, file, mark)}).Body, `"id":"`, `"`)
	response := between(must(http.StatusOK, gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":"direct/openai/gpt-5","input":%q}`, mark)}).Body, `"id":"`, `"`)
	a.events["/v1/events"] = await(t, readers["/v1/events"], "inference.end", mark).ID
	a.events["/venice/stream"] = await(t, readers["/venice/stream"], "cognition", tick).ID
	a.cookie = strings.TrimPrefix(loggedIn(t, l.Gateway, a.Key), "cookie: ")
	a.csrf = between(l.Do(t, gateway.Call{Path: "/ui", NoKey: true, Header: []string{"cookie: " + a.cookie}}).Body, `name="csrf" value="`, `"`)
	a.paths = []string{
		"/v1/requests/" + id, "/v1/requests/" + id + "/reasoning", "/v1/requests/" + attested, "/v1/requests/" + later + "/answer", "/ui/requests/" + id,
		"/ui/playground/records/" + id, "/ui/requests?key=" + a.ID, "/ui/cache?key=" + a.ID, "/ui/keys?key=" + a.ID, "/ui?key=" + a.ID,
		at, at + "/scratchpad", at + "/scratchpad/pad", at + "/memory", at + "/memory/doc", at + "/checkpoints", at + "/checkpoints/" + check,
		"/v1/files/" + file, "/v1/files/" + file + "/content", "/v1/batches/" + batch, "/v1/responses/" + response, "/v1/responses/" + response + "/input_items",
		"/v1/files", "/v1/batches", "/v1/usage", "/v1/usage?by=golem", "/v1/usage?by=key", "/v1/cache", "/v1/balance", "/venice/status", "/venice/telemetry", "/venice/attestations",
		"/v1/events", "/venice/stream", "/ui/live/events", "/ui/live", "/ui/requests", "/ui/privacy", "/ui/cache", "/ui/keys",
	}
	return a
}

// rawCall is a request as its bytes go over the wire: what no client library would send, too.
type rawCall struct {
	method, path string
	header       []string
	body         string
	by           *account // whose credential it has, if that is a good one; nil: nobody's
	about        string
}

func (c *rawCall) String() string {
	return fmt.Sprintf("%s %s %.200q %.100q as %s", c.method, c.path, c.header, c.body, c.about)
}

// followed is how long a stream is read for.
const followed = 150 * time.Millisecond

// send writes the call, and reads its answer: all of it, or of a stream what comes in a moment. status is 0 where the connection was closed without one.
func (c *rawCall) send(t *testing.T, address string) (status int, header http.Header, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Error(err)
		return 0, nil, ""
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(callWithin))
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nhost: %s\r\nconnection: close\r\n", c.method, c.path, address)
	for _, h := range c.header {
		b.WriteString(h + "\r\n")
	}
	if c.body != "" {
		fmt.Fprintf(&b, "content-length: %d\r\n", len(c.body))
	}
	b.WriteString("\r\n" + c.body)
	_, _ = conn.Write(b.Bytes()) // the answer says what became of it
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: c.method})
	if err != nil {
		return 0, nil, ""
	}
	defer func() { _ = resp.Body.Close() }()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		_ = conn.SetReadDeadline(time.Now().Add(followed))
	}
	text, _ := io.ReadAll(resp.Body) // a stream does not end by itself
	return resp.StatusCode, resp.Header, string(text)
}

// callWithin bounds one call of a thief.
const callWithin = 30 * time.Second

// TestThievesSeeNothingOfOthers: random requests, with paths, ids, methods, headers, cookies and tokens that are mutated, mixed with the ids of somebody else's: no answer,
// record or event has anything of another account, none is an internal error, and what carries no good credential gets nothing at all.
func TestThievesSeeNothingOfOthers(t *testing.T) {
	t.Parallel()
	for _, seed := range seedtest.Seeds(20) {
		for _, shape := range []string{"extproc", "module"} {
			t.Run(fmt.Sprintf("%s/seed=%d", shape, seed), func(t *testing.T) {
				t.Parallel()
				stealAll(t, seed, shape)
			})
		}
	}
}

func stealAll(t *testing.T, seed uint64, shape string) {
	t.Helper()
	l := runThiefLab(t, shape)
	l.assertOwnersSee(t)
	at, err := url.Parse(l.URL)
	if err != nil {
		t.Fatal(err)
	}
	seen := sync.Map{}
	var wg sync.WaitGroup
	const workers, each = 6, 160
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for range each {
				c := l.randomTheft(r)
				status, header, body := c.send(t, at.Host)
				seen.Store(status, c.String())
				if why := l.stolen(c, status, header, body); why != "" {
					t.Errorf("%s: %s\n%d %v %.600s", why, c, status, header, body)
				}
			}
		})
	}
	wg.Wait()
	var statuses []int
	for k := range seen.Range {
		statuses = append(statuses, k.(int)) //nolint:forcetypeassert // they are
	}
	if slices.Sort(statuses); len(statuses) < 5 {
		t.Errorf("the answers have the statuses %v alone: nothing was tried", statuses)
	}
	l.assertOwnersSee(t)
	if log := l.Log(); strings.Contains(log, "panic") || strings.Contains(log, "MARK0") || strings.Contains(log, "MARK1") {
		t.Errorf("the log has a panic, or a mark")
	}
	l.assertLoginIsBounded(t, at.Host)
	l.AssertSound(t)
}

// assertOwnersSee: each account sees its own, so that the thefts are of something.
func (l *thiefLab) assertOwnersSee(t *testing.T) {
	t.Helper()
	for _, a := range l.accounts {
		for _, path := range a.paths {
			if strings.HasPrefix(path, "/ui") || path == "/v1/events" || path == "/venice/stream" {
				continue
			}
			if got := l.Do(t, gateway.Call{Path: path, Key: a.Key}); got.Status != http.StatusOK && got.Status != http.StatusAccepted {
				t.Errorf("%s does not see its own %s: %d %s", a.Name, path, got.Status, got.Body)
			}
		}
		for _, path := range []string{"/v1/events", "/venice/stream"} {
			c := rawCall{method: http.MethodGet, path: path, header: []string{"authorization: Bearer " + a.Key, "last-event-id: " + first(a.events[path])}}
			if status, _, body := c.send(t, strings.TrimPrefix(l.URL, "http://")); status != http.StatusOK || !strings.Contains(body, a.mark) && !strings.Contains(body, a.tick) {
				t.Errorf("%s does not see its own %s: %d %s", a.Name, path, status, body)
			}
		}
		if got := l.Do(t, gateway.Call{Path: "/ui/requests", NoKey: true, Header: []string{"cookie: " + a.cookie}}); got.Status != http.StatusOK || !strings.Contains(got.Body, a.mark) {
			t.Errorf("%s does not see its own requests: %d", a.Name, got.Status)
		}
	}
}

// first is the id of the first event in the stream of an event's id.
func first(id string) string { return id[:strings.LastIndexByte(id, '-')] + "-0" }
