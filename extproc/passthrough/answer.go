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

// answer passes an answer on: as it is, but for lists, which hold only what the caller made.
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

// refused passes on what a provider says of the caller's own mistake, without credentials.
func (c *call) refused(d stream.Client, resp *http.Response, h header.List) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, stream.MaxPiece))
	if err != nil {
		return c.refuse(&upstream.Failure{Provider: c.id, Kind: upstream.Reset, Cause: err})
	}
	c.ended(record.OK, resp.StatusCode, nil)
	return d.Reply(stream.Reply{Status: resp.StatusCode, Header: h, Body: c.Redactor.Bytes(body)})
}

// isContent reports whether the request is for what a thing holds, rather than for what is known of it.
func (c *call) isContent() bool { return c.path.rest == "content" || c.path.rest == "results" }

// headers are those of the answer that the client gets to see.
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

// whole passes on a JSON answer, once it is known whose the things in it are.
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
	body = c.Redactor.Bytes(body) // a batch or a response says in it why it failed
	c.ended(record.OK, resp.StatusCode, nil)
	if len(body) <= stream.MaxPiece {
		return d.Reply(stream.Reply{Status: resp.StatusCode, Header: h, Body: body})
	}
	if err := d.StreamHead(resp.StatusCode, h); err != nil {
		return err
	}
	return d.StreamBody(body, true)
}

// stream passes on a file's content or a batch's results as they come. An answer that is too long for a client that does not read is
// broken off, so that nobody takes a part of it for the whole.
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
