package passthrough

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
)

// answer passes an answer on: unchanged, except for lists, which are reduced to the caller's own resources.
func (c *call) answer(ctx context.Context, d stream.Client, resp *http.Response) error {
	h := c.headers(resp)
	if c.Head.Method == http.MethodHead {
		c.ended(record.OK, resp.StatusCode, nil)
		return d.Reply(stream.Reply{Status: resp.StatusCode, Header: h})
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return c.refused(d, resp, h)
	}
	if c.isList() || isJSON(resp.Header.Get("Content-Type")) && !c.isContent() {
		return c.whole(ctx, d, resp, h)
	}
	return c.stream(ctx, d, resp, h)
}

// refused passes on a provider's error about the caller's request, without credentials.
func (c *call) refused(d stream.Client, resp *http.Response, h header.List) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, stream.MaxPiece))
	if err != nil {
		return c.refuse(&upstream.Failure{Provider: c.id, Kind: upstream.Reset, Cause: err})
	}
	c.ended(record.OK, resp.StatusCode, nil)
	return d.Reply(stream.Reply{Status: resp.StatusCode, Header: h, Body: c.Redactor.Bytes(body)})
}

// isContent reports whether the request is for a resource's content, rather than its metadata.
func (c *call) isContent() bool { return c.path.rest == "content" || c.path.rest == "results" }

// headers returns the answer's headers for the client.
func (c *call) headers(resp *http.Response) header.List {
	h := append(slices.Clone(c.Header),
		header.Field{Name: "x-bardo-provider", Value: string(c.id)},
		header.Field{Name: "x-bardo-attempts", Value: "1"},
		header.Field{Name: "x-bardo-cost", Value: CostDirect},
	)
	for _, name := range []string{"content-type", "content-disposition"} {
		if v := resp.Header.Get(name); v != "" {
			h = append(h, header.Field{Name: name, Value: c.Redactor.String(v)})
		}
	}
	return h
}

// whole passes on a JSON answer, after its resources' owners were checked.
func (c *call) whole(ctx context.Context, d stream.Client, resp *http.Response, h header.List) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.MaxAnswer+1))
	switch {
	case err != nil:
		return c.refuse(&upstream.Failure{Provider: c.id, Kind: upstream.Reset, Cause: err})
	case int64(len(body)) > c.MaxAnswer:
		return c.refuse(&upstream.Failure{Provider: c.id, Kind: upstream.Reset, Cause: upstream.ErrTooLong})
	}
	if body, err = c.settle(context.WithoutCancel(ctx), body); err != nil {
		return err
	}
	body = c.Redactor.Bytes(body) // a failed batch or response contains an error
	c.ended(record.OK, resp.StatusCode, nil)
	if len(body) <= stream.MaxPiece {
		return d.Reply(stream.Reply{Status: resp.StatusCode, Header: h, Body: body})
	}
	if err := d.StreamHead(resp.StatusCode, h); err != nil {
		return err
	}
	return d.StreamBody(body, true)
}

// stream passes on a file's content or a batch's results as they arrive. An answer that is too long for a client that does not read is broken off, so
// that a part is not taken for the whole.
func (c *call) stream(ctx context.Context, d stream.Client, resp *http.Response, h header.List) error {
	if resp.ContentLength > c.MaxAnswer {
		return c.refuse(&upstream.Failure{Provider: c.id, Kind: upstream.Reset, Cause: upstream.ErrTooLong})
	}
	if err := d.StreamHead(resp.StatusCode, h); err != nil {
		return err
	}
	buf := make([]byte, stream.MaxPiece)
	var sent int64
	for {
		n, err := resp.Body.Read(buf)
		end := errors.Is(err, io.EOF)
		if sent += int64(n); sent > c.MaxAnswer {
			err = upstream.ErrTooLong
		}
		switch {
		case end:
			c.ended(record.OK, resp.StatusCode, nil)
		case errors.Is(context.Cause(ctx), context.Canceled): // the client disconnected
			c.ended(record.Cancelled, resp.StatusCode, nil)
			return context.Cause(ctx)
		case err != nil:
			c.ended(record.Cut, resp.StatusCode, nil)
			return errors.Join(stream.ErrTruncated, err)
		}
		if err := d.StreamBody(buf[:n], end); err != nil || end {
			if err != nil && !end {
				c.ended(record.Cancelled, resp.StatusCode, nil)
			}
			return err
		}
	}
}

func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), header.JSON)
}
