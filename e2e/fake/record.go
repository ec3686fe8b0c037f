package fake

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request is what reached the fake, and what became of it.
type Request struct {
	Method   string
	Path     string
	RawQuery string
	Host     string
	Proto    string
	Header   http.Header
	Body     []byte
	Time     time.Time
	Model    string // as the body names it

	Status      int       // that it was answered with; 0: none was sent
	Sent        int64     // body bytes written
	Done        bool      // the answer is over, whichever way
	Cancelled   bool      // the caller went away before the answer was complete
	CancelledAt time.Time // when that was seen
}

// IsGeneration reports whether the request asks a model for something: a completion, or embeddings.
func (r *Request) IsGeneration() bool {
	return r.Method == http.MethodPost &&
		(strings.HasSuffix(r.Path, "/messages") || strings.HasSuffix(r.Path, "/responses") ||
			strings.HasSuffix(r.Path, "/embeddings") || strings.HasSuffix(r.Path, "/completions") ||
			strings.HasSuffix(r.Path, ":generateContent") || strings.HasSuffix(r.Path, ":streamGenerateContent"))
}

// Key is the credential that the request carries, in whichever header.
func (r *Request) Key() string {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if key == "" {
			key = r.Header.Get(name)
		}
	}
	return key
}

// log holds the requests. Changed is closed and replaced at each change, which is what waiting is built on.
type log struct {
	mu      sync.Mutex
	list    []*Request
	changed chan struct{}
}

func newLog() *log { return &log{changed: make(chan struct{})} }

func (l *log) add(r *Request) {
	l.update(func() { l.list = append(l.list, r) })
}

func (l *log) update(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

// snapshot returns copies of the requests that match, and a channel that is closed at the next change.
func (l *log) snapshot(match func(*Request) bool) ([]Request, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rs []Request
	for _, r := range l.list {
		if match(r) {
			rs = append(rs, *r)
		}
	}
	return rs, l.changed
}

// wait returns once n requests match, or an error that says how many did when ctx ended.
func (l *log) wait(ctx context.Context, n int, what string, match func(*Request) bool) ([]Request, error) {
	for {
		rs, changed := l.snapshot(match)
		if len(rs) >= n {
			return rs, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return rs, fmt.Errorf("%d of %d requests %s: %w", len(rs), n, what, ctx.Err())
		}
	}
}

// Requests returns everything that reached the fake, probes included, in the order of arrival.
func (s *Server) Requests() []Request {
	rs, _ := s.log.snapshot(func(*Request) bool { return true })
	return rs
}

// Calls returns what somebody asked for: everything but the gateway's own probes and readings of the list of models.
func (s *Server) Calls() []Request {
	rs, _ := s.log.snapshot(func(r *Request) bool { return r.Method != http.MethodGet || !strings.HasSuffix(r.Path, "/models") })
	return rs
}

// Generations returns the requests for a completion, in the order of arrival.
func (s *Server) Generations() []Request {
	rs, _ := s.log.snapshot((*Request).IsGeneration)
	return rs
}

// Last returns the newest request for a completion; ok is false when there was none.
func (s *Server) Last() (r Request, ok bool) {
	rs := s.Generations()
	if len(rs) == 0 {
		return Request{}, false
	}
	return rs[len(rs)-1], true
}

// Forget empties the record. Requests in progress finish unrecorded.
func (s *Server) Forget() { s.log.update(func() { s.log.list = nil }) }

// WaitGenerations waits until n requests for a completion have arrived.
func (s *Server) WaitGenerations(ctx context.Context, n int) ([]Request, error) {
	return s.log.wait(ctx, n, "arrived", (*Request).IsGeneration)
}

// WaitCancelled waits until the callers of n requests for a completion have gone away in the middle.
func (s *Server) WaitCancelled(ctx context.Context, n int) ([]Request, error) {
	return s.log.wait(ctx, n, "were cancelled", func(r *Request) bool { return r.IsGeneration() && r.Cancelled })
}

// WaitLeft is WaitCancelled for the requests of one model.
func (s *Server) WaitLeft(ctx context.Context, model string, n int) ([]Request, error) {
	return s.log.wait(ctx, n, "for "+model+" were cancelled", func(r *Request) bool { return r.Model == model && r.Cancelled })
}

// WaitDone waits until the answers of n requests for a completion are over, complete or not.
func (s *Server) WaitDone(ctx context.Context, n int) ([]Request, error) {
	return s.log.wait(ctx, n, "ended", func(r *Request) bool { return r.IsGeneration() && r.Done })
}

// Saw reports whether text is anywhere in what reached the fake: a path, a query, a header or a body.
func (s *Server) Saw(text string) bool {
	return slices.ContainsFunc(s.Requests(), func(r Request) bool { return r.contains(text) })
}

// Times is how many requests held a text.
func (s *Server) Times(text string) (n int) {
	for _, r := range s.Requests() {
		if r.contains(text) {
			n++
		}
	}
	return n
}

func (r *Request) contains(text string) bool {
	if strings.Contains(r.Path+"?"+r.RawQuery, text) || strings.Contains(string(r.Body), text) {
		return true
	}
	for _, vs := range r.Header {
		if strings.Contains(strings.Join(vs, "\n"), text) {
			return true
		}
	}
	return false
}
