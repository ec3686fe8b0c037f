package ledger

import (
	"errors"
	"io/fs"
	"slices"

	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/lock"
	"bardo.money/gateway/policy/ledger/store"
)

// orphanLog is the charge log of a dead gateway, which this process has adopted.
type orphanLog struct {
	*chargelog.Adopted
	instance int64
	prefix   string
	entries  []*chargelog.Entry
}

// orphanLogs adopts the logs of dead gateways. taken are the instances whose logs another process has adopted.
func orphanLogs(store string) (left []orphanLog, taken []int64, err error) {
	logs, err := chargelog.List(store)
	if err != nil {
		return nil, nil, err
	}
	for id, prefix := range logs {
		if alive, _, err := lock.IsTaken(lockOf(store, id)); err != nil || alive {
			if err != nil {
				return left, taken, err
			}
			continue
		}
		a, err := chargelog.Adopt(prefix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, chargelog.ErrTaken):
			taken = append(taken, id)
			continue
		case err != nil:
			return left, append(taken, id), err
		}
		left = append(left, orphanLog{a, id, prefix, a.Unapplied()})
	}
	slices.SortFunc(left, func(a, b orphanLog) int { return int(a.instance - b.instance) })
	return left, taken, nil
}

// applyEntry applies an entry of another gateway's log. One that was applied before changes nothing.
func (b *book) applyEntry(e *chargelog.Entry, instance int64) error {
	if err := b.storeResources(e); err != nil || e.Charge == nil {
		return err
	}
	if !e.Prepaid {
		_, err := b.record(e.Charge)
		return err
	}
	account, err := b.accountOf(e.Charge.Account)
	if err != nil {
		return err
	}
	if charged, err := b.isJournaled(e.Charge.RequestID); charged || err != nil {
		return err // its request may be pruned: it is older than the retention
	}
	_, err = b.capture(e, source{account, instance})
	return err
}

// isJournaled reports whether a request was charged, however long ago.
func (b *book) isJournaled(request string) (is bool, err error) {
	err = b.Row(`SELECT EXISTS (SELECT 1 FROM journal WHERE idem = 'request:' || ?)`, request).Scan(&is)
	return is, err
}

// applyOrphans applies the logs of dead gateways, against their blocks. It returns the entries that the store refuses, with their errors.
func (b *book) applyOrphans(left []orphanLog) (refused map[*chargelog.Entry]error, err error) {
	refused = map[*chargelog.Entry]error{}
	for _, f := range left {
		for _, e := range f.entries {
			failed, err := b.InSavepoint(func() error { return b.applyEntry(e, f.instance) })
			if err != nil {
				return nil, err
			}
			if _, outage := store.Outage(failed); outage {
				return nil, failed
			}
			if failed != nil {
				refused[e] = failed
			}
		}
	}
	return refused, nil
}

// recoverDead applies the charge logs of dead gateways, and then returns their blocks. All their captured charges are in the store or in
// their logs, so no block is needed afterwards. Blocks of running gateways are not touched, nor those of a dead one whose log another process is
// applying.
func (l *Ledger) recoverDead(write func(func(*book) error) error) (c instances, err error) {
	left, taken, err := orphanLogs(l.path)
	defer func() {
		for _, f := range left {
			err = errors.Join(err, f.Close())
		}
	}()
	if err != nil {
		return instances{}, err
	}
	if c, err = l.otherInstances(); err != nil {
		return instances{}, err
	}
	c.dead = slices.DeleteFunc(c.dead, func(id int64) bool { return slices.Contains(taken, id) })
	if len(c.dead)+len(left) == 0 {
		return c, nil
	}
	var refused map[*chargelog.Entry]error
	err = write(func(b *book) (err error) {
		if refused, err = b.applyOrphans(left); err != nil {
			return err
		}
		return b.removeDead(c.dead)
	})
	if err != nil {
		return c, err
	}
	return c, l.removeOrphans(left, refused)
}

// removeOrphans removes logs that were applied. Refused entries are written to a file beside the store, for the operator.
func (l *Ledger) removeOrphans(left []orphanLog, refused map[*chargelog.Entry]error) error {
	for _, f := range left {
		if len(f.entries) > 0 {
			l.o.Log.Warn("ledger: applied the charges that a gateway had not before it ended", "changes", len(f.entries), "log", f.prefix)
		}
		if f.Damaged > 0 {
			l.o.Log.Error("ledger: the charge log of a gateway is damaged, as after a power failure: what stood there is not charged", "bytes", f.Damaged, "log", f.prefix)
		}
		for _, e := range f.entries {
			if err := l.saveRefused(f.prefix, e, refused[e]); err != nil {
				return err
			}
		}
		if err := f.Remove(); err != nil {
			return err
		}
	}
	return nil
}

// saveRefused logs an entry that the store refuses and appends it to a file; nothing if why is nil.
func (l *Ledger) saveRefused(prefix string, e *chargelog.Entry, why error) error {
	if why == nil {
		return nil
	}
	l.o.Log.Error("ledger: the store refuses a charge of the charge log", "error", why, "kept_in", prefix+chargelog.RefusedSuffix)
	return chargelog.AppendRefused(prefix, e, why)
}

// saveOwnRefused is saveRefused for an entry of this gateway.
func (l *Ledger) saveOwnRefused(e *chargelog.Entry, why error) {
	if err := l.saveRefused(chargelog.PrefixOf(l.path, l.instance.Load()), e, why); err != nil {
		l.o.Log.Error("ledger: a refused charge could not be kept", "error", err)
	}
}
