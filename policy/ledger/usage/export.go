package usage

import (
	"context"
	"fmt"

	"bardo.money/gateway/policy/ledger/store"
)

// EachRequest yields the requests of a filter's account and period, one at a time, in insertion order, and then those that are not in the store yet.
// Requests older than the retention are deleted. It stops at the first error that yield returns.
func (v *View) EachRequest(ctx context.Context, f RequestFilter, yield func(*Request) error) error {
	since, until := f.Micros()
	err := store.Each(ctx, v, scanRequest, yield, `SELECT `+store.RequestColumns+`
FROM request WHERE (?1 = '' OR account = ?1) AND at BETWEEN ?2 AND ?3 ORDER BY rowid`, f.Account, since, until)
	if err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	for _, e := range v.Unapplied() {
		if at := e.Charge.At.UnixMicro(); !e.IsOf(f.Account) || at < since || at > until {
			continue
		}
		r := RequestOf(e)
		if err := yield(&r); err != nil {
			return err
		}
	}
	return nil
}

// Mark is a position in the insertion order of requests: after one of them. The zero value is before all.
type Mark struct {
	Row int64  `json:"row"`
	ID  string `json:"request_id"` // of the request; it detects that the store assigned the row number again
}

// LastMark is the position of the last request. In PostgreSQL, transactions that are still open may add requests before it.
func LastMark(ctx context.Context, r store.Queryer) (Mark, error) {
	return mark(ctx, r, `SELECT rowid, id FROM request ORDER BY rowid DESC LIMIT 1`)
}

// After returns up to limit requests after a mark and up to another, in insertion order, and the mark of the last one. If the mark's request was
// removed, or has another row number, they begin with the first one: none is skipped, and some may be returned again.
func After(ctx context.Context, r store.Queryer, m, last Mark, limit int) (list []Request, next Mark, err error) {
	at, err := mark(ctx, r, `SELECT rowid, id FROM request WHERE rowid = ?`, m.Row)
	if err != nil {
		return nil, m, err
	}
	if at != m {
		m = Mark{}
	}
	list, err = store.ReadAll(ctx, r, scanRequest, `SELECT `+store.RequestColumns+` FROM request WHERE rowid > ? AND rowid <= ? ORDER BY rowid LIMIT ?`, m.Row, last.Row, limit)
	if err != nil || len(list) == 0 {
		return nil, m, err
	}
	next, err = mark(ctx, r, `SELECT rowid, id FROM request WHERE id = ?`, list[len(list)-1].RequestID)
	return list, next, err
}

// mark reads a mark; the zero value if there is none.
func mark(ctx context.Context, r store.Queryer, query string, args ...any) (Mark, error) {
	found, err := store.ReadAll(ctx, r, func(row store.Scanner) (m Mark, err error) {
		err = row.Scan(&m.Row, &m.ID)
		return m, err
	}, query, args...)
	if err != nil || len(found) == 0 {
		return Mark{}, err
	}
	return found[0], nil
}

// Micros is the period of a filter, in microseconds since 1970.
func (f *RequestFilter) Micros() (since, until int64) {
	until = int64(1) << 62
	if !f.Since.IsZero() {
		since = f.Since.UnixMicro()
	}
	if !f.Until.IsZero() {
		until = f.Until.UnixMicro()
	}
	return since, until
}
