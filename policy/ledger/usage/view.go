package usage

import (
	"context"
	"slices"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// View is a snapshot of the store, with charges that are not applied yet: those of this gateway, and those in the logs of others.
type View struct {
	*store.Snapshot

	Own, Others []*chargelog.Entry

	projects map[policy.Account]string // of these entries' keys; nil until a report reads them
}

// Open begins the transaction, and removes the entries that the store has.
func (v *View) Open(ctx context.Context, reads *store.Readers) (err error) {
	if v.Snapshot, err = reads.Start(ctx); err != nil {
		return err
	}
	for _, entries := range []*[]*chargelog.Entry{&v.Own, &v.Others} {
		if *entries, err = v.missing(ctx, *entries); err != nil {
			v.Close()
			return err
		}
	}
	return nil
}

// missing returns the entries whose requests the store does not have, each once.
func (v *View) missing(ctx context.Context, entries []*chargelog.Entry) ([]*chargelog.Entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.Charge.RequestID)
	}
	stored, err := store.ReadAll(ctx, v, store.Text, `SELECT id FROM request WHERE id `+v.InList, v.StringList(ids))
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool, len(stored))
	for _, id := range stored {
		out[id] = true
	}
	return slices.DeleteFunc(entries, func(e *chargelog.Entry) bool {
		id := e.Charge.RequestID
		seen := out[id]
		out[id] = true
		return seen
	}), nil
}

// Unapplied returns all entries that the store does not have.
func (v *View) Unapplied() []*chargelog.Entry { return append(slices.Clone(v.Own), v.Others...) }
