package adminapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/ledger"
)

// Lines is the content type of streamed answers: one JSON value per line.
const Lines = "application/x-ndjson"

// deadlineWriter bounds each write, since a client that does not read would keep a snapshot of the ledger open.
type deadlineWriter struct {
	w   http.ResponseWriter
	out *http.ResponseController
}

// Write implements io.Writer.
func (p deadlineWriter) Write(b []byte) (int, error) {
	_ = p.out.SetWriteDeadline(time.Now().Add(streamWriteTimeout)) // fails for a writer without a connection
	return p.w.Write(b)
}

// sendLines streams an operation's rows. An error after the first bytes aborts the connection, so that the answer does not look complete.
func (a *api) sendLines(w http.ResponseWriter, r *http.Request, op *operation) {
	started := false
	begin := func() {
		if !started {
			w.Header().Set("Content-Type", Lines)
			started = true
		}
	}
	buffer := bufio.NewWriterSize(deadlineWriter{w, http.NewResponseController(w)}, 64<<10)
	lines := json.NewEncoder(buffer)
	err := op.lines(a, r, func(row any) error {
		begin()
		return lines.Encode(row)
	})
	if err != nil && !started {
		a.fail(w, err)
		return
	}
	if begin(); err == nil {
		err = buffer.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler) //nolint:forbidigo // makes net/http abort the answer
	}
}

func (a *api) exportRequests(r *http.Request, yield func(any) error) error {
	q, err := query(r, "key", "since", "until", "records")
	if err != nil {
		return err
	}
	f := ledger.RequestFilter{Account: policy.Account(q.Get("key"))}
	if f.Since, f.Until, err = timeRange(q); err != nil {
		return err
	}
	records, err := boolParam(q, "records")
	if err != nil {
		return err
	}
	return a.Books.ExportRequests(r.Context(), f, records, func(e *admin.ExportedRequest) error { return yield(e) })
}

func (a *api) exportJournal(r *http.Request, yield func(any) error) error {
	q, err := query(r, "key", "since", "until")
	if err != nil {
		return err
	}
	f := ledger.RequestFilter{Account: policy.Account(q.Get("key"))}
	if f.Since, f.Until, err = timeRange(q); err != nil {
		return err
	}
	return a.Books.ExportJournal(r.Context(), f, func(p *admin.ExportedPosting) error { return yield(p) })
}

// EachLine requests a streamed answer and yields each line as it arrives. An error answer is returned as a fault; an aborted answer is an error.
func EachLine[T any](ctx context.Context, c *http.Client, path string, yield func(*T) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin"+Prefix+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusBadRequest {
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		return refusal(resp, answer)
	}
	for lines := json.NewDecoder(resp.Body); ; {
		var row T
		if err := lines.Decode(&row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := yield(&row); err != nil {
			return err
		}
	}
}
