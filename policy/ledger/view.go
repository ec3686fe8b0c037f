package ledger

import (
	"context"
	"slices"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
)

// view is a snapshot of the store, with the charges that it lacks: those of this gateway that are not applied yet, and those in the logs of others.
type view struct {
	*snapshot

	own, others []*chargelog.Entry
}

// view takes a snapshot. Logs are read before the store: an entry that is applied in between is in both, and is left out. It must be closed.
func (l *Ledger) view(ctx context.Context) (v *view, err error) {
	v = &view{own: l.pending.all()}
	if v.others, err = l.inOtherLogs(); err != nil {
		return nil, err
	}
	return v, v.open(ctx, l.reads)
}

// open begins the transaction and leaves out what the store has.
func (v *view) open(ctx context.Context, reads *readers) (err error) {
	if v.snapshot, err = reads.start(ctx); err != nil {
		return err
	}
	for _, entries := range []*[]*chargelog.Entry{&v.own, &v.others} {
		if *entries, err = v.lacking(ctx, *entries); err != nil {
			v.close()
			return err
		}
	}
	return nil
}

// inOtherLogs are the charges of other gateways that may not be in the store.
func (l *Ledger) inOtherLogs() (all []*chargelog.Entry, err error) {
	logs, err := logsBeside(l.path)
	if err != nil {
		return nil, err
	}
	for id, prefix := range logs {
		if id == l.instance.Load() {
			continue
		}
		found, err := chargelog.Read(prefix)
		if err != nil {
			return nil, err
		}
		for _, e := range found.Unapplied() {
			if e.Charge != nil {
				all = append(all, e)
			}
		}
	}
	return all, nil
}

// lacking are the entries whose requests the store does not have, each once.
func (v *view) lacking(ctx context.Context, entries []*chargelog.Entry) ([]*chargelog.Entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.Charge.RequestID)
	}
	stored, err := readAll(ctx, v, scanSentence, `SELECT id FROM request WHERE id `+v.among, v.texts(ids))
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

// unapplied are all entries that the store lacks.
func (v *view) unapplied() []*chargelog.Entry { return append(slices.Clone(v.own), v.others...) }

// less is the balance less the charges of an account that the store lacks.
func (b balance) less(acct policy.Account, entries []*chargelog.Entry) balance {
	for _, e := range entries {
		if !e.Prepaid || !isOf(e, acct) {
			continue
		}
		paid := max(0, min(expected(e), e.Paid+b.available()))
		b.micro -= paid
		b.held -= min(e.Paid, paid)
		b.blocked = b.blocked || paid < e.Charge.Amount
	}
	return b
}
