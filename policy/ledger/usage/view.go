package usage

import (
	"context"
	"slices"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// View is a snapshot of the store, with the charges that it lacks: those of this gateway that are not applied yet, and those in the logs of others.
type View struct {
	*store.Snapshot

	Own, Others []*chargelog.Entry

	projects map[policy.Account]string // of the keys of these entries, once a report has needed them
}

// Open begins the transaction and leaves out what the store has.
func (v *View) Open(ctx context.Context, reads *store.Readers) (err error) {
	if v.Snapshot, err = reads.Start(ctx); err != nil {
		return err
	}
	for _, entries := range []*[]*chargelog.Entry{&v.Own, &v.Others} {
		if *entries, err = v.lacking(ctx, *entries); err != nil {
			v.Close()
			return err
		}
	}
	return nil
}

// lacking are the entries whose requests the store does not have, each once.
func (v *View) lacking(ctx context.Context, entries []*chargelog.Entry) ([]*chargelog.Entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.Charge.RequestID)
	}
	stored, err := store.ReadAll(ctx, v, store.Text, `SELECT id FROM request WHERE id `+v.Among, v.Texts(ids))
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

// Unapplied are all entries that the store lacks.
func (v *View) Unapplied() []*chargelog.Entry { return append(slices.Clone(v.Own), v.Others...) }
