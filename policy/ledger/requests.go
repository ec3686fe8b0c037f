package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"bardo.money/gateway/policy"
)

// RequestFilter selects requests. The zero value selects all.
type RequestFilter struct {
	Account  policy.Account    // "" means every account
	Model    policy.ModelID    // that answered or was requested
	Provider policy.ProviderID // that answered, or was tried
	Status   string            // how it ended (ok, failed, …), its HTTP status, a class of them (5xx), or the code of its error
	Since    time.Time         // zero means from the beginning
	Until    time.Time         // zero means to the end
	Limit    int               // most requests that are returned; 0 means 100
}

const requestColumns = `id, account, at, provider, model, subsystem, status,
	input, cached, cache_write, output, reasoning, amount, charged, provider_cost, record, savings`

// Requests are the selected requests, latest first. Requests older than the retention are deleted, and refusals are only stored as counters.
func (l *Ledger) Requests(ctx context.Context, f RequestFilter) ([]Request, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	since, until := int64(0), int64(1)<<62
	if !f.Since.IsZero() {
		since = f.Since.UnixMicro()
	}
	if !f.Until.IsZero() {
		until = f.Until.UnixMicro()
	}
	v, err := l.view(ctx)
	if err != nil {
		return nil, fmt.Errorf("requests: %w", err)
	}
	defer v.close()
	from, more, err := v.requests()
	if err != nil {
		return nil, fmt.Errorf("requests: %w", err)
	}
	low, high := statusClass(f.Status)
	rows, err := readAll(ctx, v, scanRequest, `SELECT `+requestColumns+`
FROM `+from+`
WHERE (?1 = '' OR account = ?1)`+v.lookInto+`
	AND at BETWEEN ?7 AND ?8
ORDER BY at DESC, rowid DESC LIMIT ?9`, append([]any{f.Account, f.Model, f.Provider, f.Status, low, high, since, until, limit}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("requests: %w", err)
	}
	return rows, nil
}

// requests is what to select requests from, with those that the store lacks, and the parameter for that.
func (v *view) requests() (from string, more []any, err error) {
	var rows [][]any
	for _, e := range v.unapplied() {
		c, t := e.Charge, &e.Charge.Tokens
		var record any
		if c.Record != nil {
			record = string(c.Record)
		}
		rows = append(rows, []any{
			c.RequestID, c.Account, c.At.UnixMicro(), c.Provider, c.Model, c.Subsystem, c.Status,
			t.Input, t.Cached, t.CacheWrite, t.Output, t.Reasoning, int64(c.Amount), int64(expected(e)), int64(c.ProviderCost), record, savingsText(c.Savings),
		})
	}
	if len(rows) == 0 {
		return "request", nil, nil
	}
	list, err := json.Marshal(rows)
	return v.waiting, []any{string(list)}, err
}

// statusClass is the range of HTTP statuses for a text: 503, or 500 to 599 for 5xx. The range is empty for any other text.
func statusClass(s string) (low, high int) {
	if digit, ok := strings.CutSuffix(s, "xx"); ok && len(digit) == 1 {
		low = int(digit[0]-'0') * 100
		return low, low + 99
	}
	if n, err := fmt.Sscanf(s, "%3d", &low); n != 1 || err != nil || len(s) != 3 {
		return 1, 0
	}
	return low, low
}

// AnyRequest reads one request of any account. The error is ErrUnknownRequest if there is none, or it is older than the retention. It includes
// the latest refusals of this handle.
func (l *Ledger) AnyRequest(ctx context.Context, id string) (Request, error) {
	if e, ok := l.pending.entry(id); ok {
		return requestOf(e), nil
	}
	if r, ok := l.refused.findAny(id); ok {
		return r, nil
	}
	r, err := scanRequest(l.reads.QueryRowContext(ctx, `SELECT `+requestColumns+` FROM request WHERE id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		r, err = l.findUnapplied(ctx, id)
	}
	if err != nil {
		return Request{}, fmt.Errorf("request %s: %w", id, err)
	}
	return r, nil
}

// findUnapplied finds a request that the store does not have in the logs of other gateways, or in the store, if it was applied meanwhile.
func (l *Ledger) findUnapplied(ctx context.Context, id string) (Request, error) {
	v, err := l.view(ctx)
	if err != nil {
		return Request{}, err
	}
	defer v.close()
	for _, e := range v.unapplied() {
		if e.Charge.RequestID == id {
			return requestOf(e), nil
		}
	}
	r, err := scanRequest(v.QueryRowContext(ctx, `SELECT `+requestColumns+` FROM request WHERE id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrUnknownRequest
	}
	return r, err
}

func scanRequest(row scanner) (r Request, err error) {
	var at int64
	var saved string
	t := &r.Tokens
	err = row.Scan(&r.RequestID, &r.Account, &at, &r.Provider, &r.Model, &r.Subsystem, &r.Status,
		&t.Input, &t.Cached, &t.CacheWrite, &t.Output, &t.Reasoning, &r.Amount, &r.Charged, &r.ProviderCost, &r.Record, &saved)
	if err != nil {
		return r, err
	}
	r.At = time.UnixMicro(at)
	r.Savings, err = parseSavings(saved)
	return r, err
}
