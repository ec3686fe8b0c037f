package usage

import (
	"context"
	"fmt"

	"bardo.money/gateway/policy/ledger/store"
)

// EachRequest yields the requests of a filter's account and times, one at a time, in the order in which they came into the store, and then those that it lacks.
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

// Micros are the first and last time of a filter, in microseconds since 1970.
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
