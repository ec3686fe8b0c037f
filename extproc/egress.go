package extproc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// egressRequest is an attempt's HTTP request to Envoy's egress listener.
func (x *exchange) egressRequest(ctx context.Context, t *try) (*http.Request, error) {
	to := t.to
	c, err := x.write(nil, t)
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(c.call.Path, "?")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://egress"+path, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = query
	req.Host = c.authority
	set, _ := c.headers(nil)
	for _, f := range set {
		if f.Name[0] != ':' && f.Name != "content-length" {
			req.Header.Set(f.Name, f.Value)
		}
	}
	req.Header.Set("User-Agent", x.head.Header.Get("user-agent"))
	req.Header.Set(state.HeaderCluster, state.Cluster(x.rt.Providers[to.Provider].Cluster))
	for _, f := range x.affinityHeader() {
		req.Header.Set(f.Name, f.Value)
	}
	req.Header.Set(state.HeaderExchange, x.rt.EgressSecret+"."+x.ID)
	return req, nil
}

// NewEgressClient makes the HTTP client of the driven path: every connection goes to Envoy's egress socket.
func NewEgressClient(socket string) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			},
			DisableCompression:  true,
			MaxIdleConns:        1024,
			MaxIdleConnsPerHost: 1024, // all providers share one host here
			IdleConnTimeout:     60 * time.Second,
			ReadBufferSize:      16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// chunk is a piece of an upstream's body. The last one has end set, and err when the body broke off.
type chunk struct {
	b   []byte
	end bool
	err error
}

// reader reads a body in its own goroutine, so that silence can be waited for. A chunk is valid until the next is received.
type reader struct {
	chunks chan chunk
	body   io.ReadCloser
	done   chan struct{}
	caught func(any) error // what a panic is to the client
}

// A stream's pieces are small; one whose pieces fill a buffer gets larger ones.
const (
	firstReadSize = 4 << 10
	readSize      = 16 << 10
)

func newReader(body io.ReadCloser, caught func(any) error) *reader {
	r := &reader{chunks: make(chan chunk), body: body, done: make(chan struct{}), caught: caught}
	go r.run()
	return r
}

func (r *reader) run() {
	defer func() {
		if p := recover(); p != nil {
			r.give(chunk{end: true, err: brokenError{r.caught(p)}})
		}
	}()
	var bufs [2][]byte
	size := firstReadSize
	for i := 0; ; i++ {
		if len(bufs[i%2]) < size {
			bufs[i%2] = make([]byte, size)
		}
		b := bufs[i%2]
		n, err := r.body.Read(b)
		if n == size {
			size = readSize
		}
		c := chunk{b: b[:n], end: err != nil}
		if err != nil && !errors.Is(err, io.EOF) {
			c.err = err
		}
		if !r.give(c) || err != nil {
			return
		}
	}
}

// give hands a piece over; false if nobody wants it any more.
func (r *reader) give(c chunk) bool {
	select {
	case r.chunks <- c:
		return true
	case <-r.done:
		return false
	}
}

// finishTime is how long the end of a body may lag behind its last event.
const finishTime = 250 * time.Millisecond

// finish reads to the end of a body whose answer is complete: a connection that is left in the middle is lost, to Envoy and to the
// provider.
func (r *reader) finish() {
	late := time.NewTimer(finishTime)
	defer late.Stop()
	for {
		select {
		case c := <-r.chunks:
			if c.end {
				return
			}
		case <-late.C:
			return
		}
	}
}

// close stops reading and closes the connection.
func (r *reader) close() {
	close(r.done)
	_ = r.body.Close() // nothing is lost: the answer is complete, or given up
}

func closeBody(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}

// fromHTTP is net/http's header map in our form.
func fromHTTP(h http.Header) header.List {
	out := make(header.List, 0, len(h))
	for k, vs := range h {
		for _, v := range vs {
			out = append(out, header.Field{Name: strings.ToLower(k), Value: v})
		}
	}
	return out
}
