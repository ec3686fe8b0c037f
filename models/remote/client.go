// Package remote runs the local models in another process of this machine: a server beside the models, and a client in a process that cannot load
// them, over a Unix socket. Both are as safe for callers as the models themselves: a process that is down, slow or full is an error. The package does
// not know which processes these are.
package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
)

// Limits of a client.
const (
	MaxText        = 2 << 20         // bytes of a text
	maxCalls       = 64              // concurrent calls
	defaultTimeout = 5 * time.Second // timeout of a call without a deadline
	maxAnswer      = 1 << 20         // bytes
)

// errDown is the error of a call without a server.
var errDown = fmt.Errorf("%w: the process that runs it does not answer", models.ErrOff)

// errLong is the error of a text longer than MaxText.
var errLong = fmt.Errorf("a text for a local model has more than %d bytes", MaxText)

// Client uses the models of another process. It connects at the first call, and again after a lost connection. Safe for concurrent use.
type Client struct {
	http  http.Client
	calls atomic.Int64 // in flight
	about map[manifest.Kind]models.About
}

// NewClient returns the client of a socket, with the descriptions of the models there. Kinds without one are off.
func NewClient(socket string, about map[manifest.Kind]models.About) *Client {
	c := &Client{about: about}
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, DisableCompression: true,
	}
	return c
}

// About describes the model of a kind.
func (c *Client) About(kind manifest.Kind) models.About {
	a, ok := c.about[kind]
	if !ok {
		a.Threshold = models.None.Threshold()
	}
	return a
}

// Embedder returns the other process's embedder.
func (c *Client) Embedder() models.Embedder { return c.embedder() }

// Measurer returns the other process's embedder as a Measurer.
func (c *Client) Measurer() models.Measurer { return c.embedder() }

func (c *Client) embedder() *embedder {
	return &embedder{model{c: c, path: pathEmbed, About: c.About(manifest.Embedding)}}
}

// Classifier returns the other process's classifier.
func (c *Client) Classifier() models.Classifier {
	return &classifier{model{c: c, path: pathScore, About: c.About(manifest.Injection)}}
}

// Recognizer returns the other process's recognizer.
func (c *Client) Recognizer() models.Recognizer {
	return &recognizer{model{c: c, path: pathNames, About: c.About(manifest.Entities)}}
}

// Status returns the states of the models. The error means that the process is down.
func (c *Client) Status(ctx context.Context) (all []models.Status, err error) {
	a, err := c.ask(ctx, http.MethodGet, pathStatus, "")
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(a.body, &all)
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// model is one model of another process.
type model struct {
	models.About
	c    *Client
	path string
	tag  atomic.Pointer[string] // of the last answer
}

// Threshold implements models.Embedder and models.Classifier.
func (m *model) Threshold() float64 { return m.About.Threshold }

// Tag implements models.Embedder and models.Classifier.
func (m *model) Tag() string {
	if tag := m.tag.Load(); tag != nil {
		return *tag
	}
	return ""
}

// run runs the model on a text. The answer's body is not empty.
func (m *model) run(ctx context.Context, text string) (answer, error) {
	if m.Name == "" {
		return answer{}, fmt.Errorf("%w: none is chosen", models.ErrOff)
	}
	a, err := m.c.ask(ctx, http.MethodPost, m.path, text)
	if err != nil {
		return a, err
	}
	if was := m.tag.Load(); was == nil || *was != a.tag {
		m.tag.Store(&a.tag)
	}
	return a, nil
}

type embedder struct{ model }

var (
	_ models.Embedder = (*embedder)(nil)
	_ models.Measurer = (*embedder)(nil)
)

// Dims implements models.Embedder.
func (e *embedder) Dims() int { return e.Dimensions }

// Embed implements models.Embedder.
func (e *embedder) Embed(ctx context.Context, text string) ([]float32, error) {
	v, err := e.Measure(ctx, text)
	return v.Values, err
}

// Measure implements models.Measurer.
func (e *embedder) Measure(ctx context.Context, text string) (models.Vector, error) {
	a, err := e.run(ctx, text)
	if err != nil {
		return models.Vector{}, err
	}
	return vector(&a, e.Dimensions)
}

// vector decodes a vector of a number of dimensions.
func vector(a *answer, dims int) (models.Vector, error) {
	if len(a.body) != 4*dims {
		return models.Vector{}, fmt.Errorf("the vector of a local model has %d bytes, expected %d", len(a.body), 4*dims)
	}
	v := models.Vector{Values: make([]float32, dims), Tokens: a.tokens, Cut: a.cut}
	for i := range v.Values {
		v.Values[i] = math.Float32frombits(binary.LittleEndian.Uint32(a.body[4*i:]))
	}
	return v, nil
}

type classifier struct{ model }

var _ models.Classifier = (*classifier)(nil)

// Score implements models.Classifier.
func (c *classifier) Score(ctx context.Context, text string) (float64, error) {
	a, err := c.run(ctx, text)
	if err != nil {
		return 0, err
	}
	if len(a.body) != 8 {
		return 0, fmt.Errorf("the score of a local model has %d bytes, expected 8", len(a.body))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(a.body)), nil
}

type recognizer struct{ model }

var _ models.Recognizer = (*recognizer)(nil)

// Entities implements models.Recognizer.
func (r *recognizer) Entities(ctx context.Context, text string) (all []models.Entity, err error) {
	a, err := r.run(ctx, text)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(a.body, &all); err != nil {
		return nil, fmt.Errorf("the names of a local model: %w", err)
	}
	for _, e := range all {
		if e.Start < 0 || e.End <= e.Start || e.End > len(text) {
			return nil, errors.New("the names of a local model are not in the text")
		}
	}
	return all, nil
}

// answer is a server's answer.
type answer struct {
	body   []byte
	tag    string
	tokens int
	cut    bool
}

// ask sends a text. The error wraps ErrBusy or ErrOff of package models or ctx's error, or is the server's.
func (c *Client) ask(ctx context.Context, method, path, text string) (answer, error) {
	if len(text) > MaxText {
		return answer{}, errLong
	}
	if c.calls.Add(1) > maxCalls {
		c.calls.Add(-1)
		return answer{}, models.ErrBusy
	}
	defer c.calls.Add(-1)
	if _, ok := ctx.Deadline(); !ok {
		limited, cancel := context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
		ctx = limited
	}
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	req, err := newRequest(ctx, method, path, text)
	if err != nil {
		return answer{}, err
	}
	resp, err := c.http.Do(req) //nolint:gosec // to a Unix socket
	if err != nil {
		return answer{}, callError(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, callError(ctx, err)
	}
	return read(resp, body)
}

func newRequest(ctx context.Context, method, path, text string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://models"+path, bytes.NewReader([]byte(text))) //nolint:gosec // path is a constant
	if err != nil {
		return nil, err
	}
	until, _ := ctx.Deadline()
	req.Header.Set(headerWithin, strconv.FormatInt(time.Until(until).Microseconds(), 10))
	req.Header["Idempotency-Key"] = nil // a nil value is not sent, and lets the client retry on a new connection if the server closed an idle one
	return req, nil
}

// callError converts the error of a call without an answer.
func callError(ctx context.Context, err error) error {
	if why := ctx.Err(); why != nil {
		return fmt.Errorf("a local model: %w", why)
	}
	return errors.Join(errDown, err)
}

// read returns the answer, or the server's error.
func read(resp *http.Response, body []byte) (a answer, err error) {
	if resp.StatusCode == http.StatusOK {
		a = answer{body: body, tag: resp.Header.Get(headerTag), cut: resp.Header.Get(headerCut) != ""}
		a.tokens, _ = strconv.Atoi(resp.Header.Get(headerTokens)) // a score has none
		return a, nil
	}
	why := string(body)
	switch resp.StatusCode {
	case statusBusy:
		return a, fmt.Errorf("%w: %s", models.ErrBusy, why)
	case statusOff:
		return a, offError(why)
	case statusLate:
		return a, fmt.Errorf("a local model: %w", context.DeadlineExceeded)
	}
	return a, fmt.Errorf("a local model: %s", why)
}

// offError is the server's reason for ErrOff, which it wraps.
type offError string

// Error implements error.
func (e offError) Error() string { return string(e) }

// Unwrap returns models.ErrOff.
func (offError) Unwrap() error { return models.ErrOff }
