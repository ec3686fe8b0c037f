package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"bardo.money/gateway/internal/fault"
)

// Local is a client of a handler in this process, for commands while no gateway runs.
func Local(h http.Handler) *http.Client { return &http.Client{Transport: local{h}} }

type local struct{ handler http.Handler }

// RoundTrip serves the request concurrently. The body streams what the handler writes; closing it makes the handler's writes fail.
func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	body, to := io.Pipe()
	answer := &recorder{header: http.Header{}, body: to, started: make(chan struct{})}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	go answer.serve(l.handler, r)
	<-answer.started
	return &http.Response{StatusCode: answer.status, Status: http.StatusText(answer.status), Header: answer.header, Body: body, ContentLength: -1, Request: r}, nil
}

// recorder streams a handler's answer through a pipe.
type recorder struct {
	header  http.Header
	status  int
	started chan struct{} // closed once status and headers are set
	body    *io.PipeWriter
}

// serve runs the handler. If the handler aborts, the reader gets io.ErrUnexpectedEOF.
func (r *recorder) serve(h http.Handler, req *http.Request) {
	cause := io.ErrUnexpectedEOF
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // the value itself is panicked
			panic(v) //nolint:forbidigo // re-panics
		}
		r.WriteHeader(http.StatusOK)
		_ = r.body.CloseWithError(cause) // never fails
	}()
	h.ServeHTTP(r, req)
	cause = nil
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
		close(r.started)
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// Call sends a request to the API and decodes the answer; in is the body, nil for none. An error answer is returned as a fault.
func Call[T any](ctx context.Context, c *http.Client, method, path string, in any) (out T, err error) {
	var body io.Reader = http.NoBody
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return out, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://admin"+Prefix+path, body)
	if err != nil {
		return out, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return out, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return out, refusal(resp, answer)
	}
	return out, json.Unmarshal(answer, &out)
}

// refusal converts an error answer to an error.
func refusal(resp *http.Response, answer []byte) error {
	var p Problem
	if err := json.Unmarshal(answer, &p); err != nil || p.Error.Code == "" {
		return fmt.Errorf("the gateway answered %s", resp.Status)
	}
	f := fault.New(fault.Kind(p.Error.Code), p.Error.Message, nil)
	f.Param = p.Error.Param
	return f
}

// List returns the first page of a list.
func List[T any](ctx context.Context, c *http.Client, path string) ([]T, error) {
	page, err := Call[list[T]](ctx, c, http.MethodGet, path, nil)
	return page.Data, err
}

// All returns all pages of a list; id returns an item's id.
func All[T any](ctx context.Context, c *http.Client, path string, id func(*T) string) (all []T, err error) {
	for after := ""; ; {
		page, err := Call[list[T]](ctx, c, http.MethodGet, path+"?limit=1000"+after, nil)
		if err != nil {
			return nil, err
		}
		if all = append(all, page.Data...); !page.More || len(page.Data) == 0 {
			return all, nil
		}
		after = "&after=" + id(&all[len(all)-1])
	}
}
