// Package site serves web pages: it runs an http.Handler behind the connection of an exchange. It does not know what the pages show, nor who may see
// them.
package site

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// Serve answers a request with h, and returns the status. The output of h is sent as one answer, unless h flushes: then it is streamed. A client
// disconnect cancels the request's context, and fails the next write. The error is a fault for an invalid path, or the client's.
func Serve(ctx context.Context, d stream.Client, hd *stream.Head, body []byte, h http.Handler) (status int, err error) {
	r, err := requestOf(ctx, hd, body)
	if err != nil {
		return 0, err
	}
	w := &writer{client: d, header: http.Header{}, headOnly: hd.Method == http.MethodHead}
	h.ServeHTTP(w, r)
	return w.end()
}

// requestOf returns a request for handlers. Its address is the client's, without a port.
func requestOf(ctx context.Context, hd *stream.Head, body []byte) (*http.Request, error) {
	at, err := url.ParseRequestURI(hd.Path)
	if err != nil {
		return nil, fault.New(fault.InvalidRequest, "the path cannot be read", err)
	}
	at.RawQuery = hd.Query
	r, err := http.NewRequestWithContext(ctx, hd.Method, at.String(), io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return nil, fault.New(fault.InvalidRequest, "the request cannot be read", err)
	}
	r.Host, r.ContentLength = hd.Host, int64(len(body))
	r.RemoteAddr = netip.AddrPortFrom(hd.Peer, 0).String()
	for _, f := range hd.Header {
		r.Header.Add(f.Name, f.Value)
	}
	return r, nil
}

// writer is the http.ResponseWriter of one request.
type writer struct {
	client   stream.Client
	header   http.Header
	status   int
	body     bytes.Buffer // not sent yet
	headOnly bool
	streams  bool  // the head was sent
	err      error // the client's error, if any
}

var (
	_ http.ResponseWriter = (*writer)(nil)
	_ http.Flusher        = (*writer)(nil)
)

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Only the first status counts.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.err != nil {
		return 0, w.err
	}
	return w.body.Write(b)
}

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError sends the buffered output. The answer is streamed from then on.
func (w *writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if !w.streams && w.err == nil {
		w.streams, w.err = true, w.client.StreamHead(w.status, w.fields())
	}
	w.send(false)
	return w.err
}

// send sends the buffered output in pieces of the size that Envoy accepts.
func (w *writer) send(end bool) {
	for w.err == nil && (w.body.Len() > 0 || end) {
		piece := w.body.Next(stream.MaxPiece)
		last := end && w.body.Len() == 0
		w.err = w.client.StreamBody(piece, last)
		if last {
			return
		}
	}
}

// end completes the answer.
func (w *writer) end() (status int, err error) {
	w.WriteHeader(http.StatusOK)
	if w.streams {
		w.send(true)
		return w.status, w.err
	}
	r := stream.Reply{Status: w.status, Header: w.fields(), Body: w.body.Bytes()}
	if w.headOnly {
		r.Body = nil
	}
	if err := w.client.Reply(r); err != nil {
		return w.status, fmt.Errorf("send a page: %w", err)
	}
	return w.status, nil
}

// fields returns the headers in Envoy's form.
func (w *writer) fields() (list header.List) {
	for name, values := range w.header {
		for _, v := range values {
			list = append(list, header.Field{Name: strings.ToLower(name), Value: v})
		}
	}
	return list
}
