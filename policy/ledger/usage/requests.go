package usage

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// RequestFilter selects requests. The zero value selects all.
type RequestFilter struct {
	Account  policy.Account    // "" means every account
	Model    policy.ModelID    // that answered or was requested
	Provider policy.ProviderID // that answered or was attempted
	Status   string            // how it ended (ok, failed, …), its HTTP status, a class of them (5xx), or the code of its error
	Since    time.Time         // zero means from the beginning
	Until    time.Time         // zero means to the end
	Limit    int               // maximum number of requests; 0 means 100
}

// Requests reads the selected requests, latest first. Requests older than the retention are deleted, and refusals are only stored as counters.
func (v *View) Requests(ctx context.Context, f RequestFilter) ([]Request, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	since, until := f.Micros()
	from, more, err := v.requests()
	if err != nil {
		return nil, fmt.Errorf("requests: %w", err)
	}
	low, high := statusClass(f.Status)
	rows, err := store.ReadAll(ctx, v, scanRequest, `SELECT `+store.RequestColumns+`
FROM `+from+`
WHERE (?1 = '' OR account = ?1)`+v.RequestMatches+`
	AND at BETWEEN ?7 AND ?8
ORDER BY at DESC, rowid DESC LIMIT ?9`, append([]any{f.Account, f.Model, f.Provider, f.Status, low, high, since, until, limit}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("requests: %w", err)
	}
	return rows, nil
}

// requests is the FROM clause for requests, including those that are not in the store yet, and its parameter.
func (v *View) requests() (from string, more []any, err error) {
	var rows [][]any
	for _, e := range v.Unapplied() {
		c, t := e.Charge, &e.Charge.Tokens
		var record any
		if c.Record != nil {
			record = string(c.Record)
		}
		rows = append(rows, []any{
			c.RequestID, c.Account, c.At.UnixMicro(), c.Provider, c.Model, c.Subsystem, c.Status,
			t.Input, t.Cached, t.CacheWrite, t.Output, t.Reasoning, int64(c.Amount), int64(e.Expected()), int64(c.ProviderCost), record, formatSavings(c.Savings), c.Agent,
		})
	}
	if len(rows) == 0 {
		return "request", nil, nil
	}
	list, err := json.Marshal(rows)
	return v.WithPending, []any{string(list)}, err
}

// statusClass is the range of HTTP statuses that a string selects: 503, or 500 to 599 for 5xx. The range is empty for any other string.
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

// Find reads a request in the store; ok is false if it is not there.
func Find(ctx context.Context, reads *store.Readers, id string) (r Request, ok bool, err error) {
	return found(scanRequest(reads.QueryRowContext(ctx, selectRequest, id)))
}

// Find reads a request; ok is false if there is none, or it is older than the retention.
func (v *View) Find(ctx context.Context, id string) (r Request, ok bool, err error) {
	for _, e := range v.Unapplied() {
		if e.Charge.RequestID == id {
			return RequestOf(e), true, nil
		}
	}
	return found(scanRequest(v.QueryRowContext(ctx, selectRequest, id)))
}

const selectRequest = `SELECT ` + store.RequestColumns + ` FROM request WHERE id = ?`

func found(r Request, err error) (Request, bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return Request{}, false, nil
	}
	return r, err == nil, err
}

// RequestOf is the request of an entry. Charged is the expected amount, because the actual one is not known before the entry is applied.
func RequestOf(e *chargelog.Entry) Request { return Request{Charge: *e.Charge, Charged: e.Expected()} }

// InsertRequest is completed by rows.
const InsertRequest = `INSERT INTO request (id, account, journal, at, provider, model, subsystem, status,
	input, cached, cache_write, output, reasoning, amount, charged, provider_cost, record, savings, agent) VALUES `

// AppendRequest appends the values of a request's row.
func AppendRequest(row []any, c *chargelog.Charge, journal any, charged policy.Micro) []any {
	t := &c.Tokens
	return append(row, c.RequestID, string(c.Account), journal, c.At.UnixMicro(), string(c.Provider), string(c.Model), c.Subsystem, c.Status,
		t.Input, t.Cached, t.CacheWrite, t.Output, t.Reasoning, int64(c.Amount), int64(charged), int64(c.ProviderCost), c.Record, formatSavings(c.Savings), c.Agent)
}

// PruneLimit is the maximum number of rows that one step of pruning removes.
const PruneLimit = 500

// Prune removes up to PruneLimit of the oldest requests from before a time, in microseconds since 1970. Rows are in insertion order, so no index is needed.
func Prune(b *store.Book, before int64) (int64, error) {
	return b.Exec(`DELETE FROM request WHERE at < ? AND rowid IN (SELECT rowid FROM request ORDER BY rowid LIMIT ?)`,
		before, PruneLimit)
}

func scanRequest(row store.Scanner) (r Request, err error) {
	var at int64
	var saved string
	t := &r.Tokens
	err = row.Scan(&r.RequestID, &r.Account, &at, &r.Provider, &r.Model, &r.Subsystem, &r.Status,
		&t.Input, &t.Cached, &t.CacheWrite, &t.Output, &t.Reasoning, &r.Amount, &r.Charged, &r.ProviderCost, &r.Record, &saved, &r.Agent)
	if err != nil {
		return r, err
	}
	r.At = time.UnixMicro(at)
	r.Savings, err = parseSavings(saved)
	return r, err
}
