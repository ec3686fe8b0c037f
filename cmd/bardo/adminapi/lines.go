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

// Lines is the content type of answers that are one JSON value a line, sent as they are read.
const Lines = "application/x-ndjson"

// patient is a reader of lines that is cut when it takes nothing for a while: what is read for it holds a snapshot of the ledger.
type patient struct {
	w   http.ResponseWriter
	out *http.ResponseController
}

// Write implements io.Writer.
func (p patient) Write(b []byte) (int, error) {
	_ = p.out.SetWriteDeadline(time.Now().Add(streamPatience)) // a writer without a connection has none
	return p.w.Write(b)
}

// sendLines answers with what an operation yields. An error after the first bytes breaks the answer off, so that it does not look complete.
func (a *api) sendLines(w http.ResponseWriter, r *http.Request, op *operation) {
	begun := false
	begin := func() {
		if !begun {
			w.Header().Set("Content-Type", Lines)
			begun = true
		}
	}
	buffer := bufio.NewWriterSize(patient{w, http.NewResponseController(w)}, 64<<10)
	lines := json.NewEncoder(buffer)
	err := op.lines(a, r, func(row any) error {
		begin()
		return lines.Encode(row)
	})
	if err != nil && !begun {
		a.fail(w, err)
		return
	}
	if begin(); err == nil {
		err = buffer.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler) //nolint:forbidigo // so net/http breaks an answer off
	}
}

func (a *api) exportRequests(r *http.Request, yield func(any) error) error {
	q, err := query(r, "key", "since", "until", "records")
	if err != nil {
		return err
	}
	f := ledger.RequestFilter{Account: policy.Account(q.Get("key"))}
	if f.Since, f.Until, err = span(q); err != nil {
		return err
	}
	records, err := flag(q, "records")
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
	if f.Since, f.Until, err = span(q); err != nil {
		return err
	}
	return a.Books.ExportJournal(r.Context(), f, func(p *admin.ExportedPosting) error { return yield(p) })
}

// EachLine asks the API for lines, and yields each as it comes. A refusal is a fault; an answer that broke off is an error.
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
