package ledger

import (
	"context"
	"database/sql"
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
	input, cached, cache_write, output, reasoning, amount, charged, provider_cost, record`

// recordText is a request's record as text, for SQLite's JSON functions.
const recordText = `CAST(coalesce(record, '{}') AS TEXT)`

// Requests are the selected requests, latest first. Requests older than the retention are deleted, and refusals are only stored as counters.
// Requests that a gateway has not written yet are missing.
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
	low, high := statusClass(f.Status)
	rows, err := readAll(ctx, l.reads, scanRequest, `SELECT `+requestColumns+`
FROM request
WHERE (?1 = '' OR account = ?1)
	AND (?2 = '' OR model = ?2 OR json_extract(`+recordText+`, '$.requested_model') = ?2)
	AND (?3 = '' OR provider = ?3 OR EXISTS (SELECT 1 FROM json_each(`+recordText+`, '$.attempt_log') AS a WHERE json_extract(a.value, '$.provider') = ?3))
	AND (?4 = '' OR status = ?4 OR json_extract(`+recordText+`, '$.error') = ?4 OR json_extract(`+recordText+`, '$.http_status') BETWEEN ?5 AND ?6)
	AND at BETWEEN ?7 AND ?8
ORDER BY at DESC, rowid DESC LIMIT ?9`, f.Account, f.Model, f.Provider, f.Status, low, high, since, until, limit)
	if err != nil {
		return nil, fmt.Errorf("requests: %w", err)
	}
	return rows, nil
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
// unwritten requests of this handle and its latest refusals.
func (l *Ledger) AnyRequest(ctx context.Context, id string) (Request, error) {
	if r, ok := l.waiting.findAny(id); ok {
		return r, nil
	}
	if r, ok := l.refused.findAny(id); ok {
		return r, nil
	}
	r, err := scanRequest(l.reads.QueryRowContext(ctx, `SELECT `+requestColumns+` FROM request WHERE id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrUnknownRequest
	}
	if err != nil {
		return Request{}, fmt.Errorf("request %s: %w", id, err)
	}
	return r, nil
}

func scanRequest(row scanner) (r Request, err error) {
	var at int64
	t := &r.Tokens
	err = row.Scan(&r.RequestID, &r.Account, &at, &r.Provider, &r.Model, &r.Subsystem, &r.Status,
		&t.Input, &t.Cached, &t.CacheWrite, &t.Output, &t.Reasoning, &r.Amount, &r.Charged, &r.ProviderCost, &r.Record)
	r.At = time.UnixMicro(at)
	return r, err
}
