package ledger

import (
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/usage"
)

// runJanitor returns the blocks of idle keys and removes old rows, until the ledger closes.
func (l *Ledger) runJanitor() {
	idle := time.NewTicker(max(l.o.IdleReturn/2, time.Millisecond))
	defer idle.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	old := time.NewTicker(time.Hour)
	defer old.Stop()
	l.prune()
	l.pruneSpending()
	l.releaseStaleStandingHolds()
	l.sealReasons()
	for {
		select {
		case <-l.stop:
			return
		case <-idle.C:
			l.returnIdle()
		case <-second.C:
			l.writeRefusals()
			if l.o.Gateway {
				l.heartbeat()
			}
		case <-old.C:
			l.prune()
			l.pruneSpending()
			l.releaseStaleStandingHolds()
			l.sealReasons()
		}
	}
}

// idleBlock is the free part of an idle key's block that is being returned. Its owner has the account's blockLock.
type idleBlock struct {
	account *account
	amount  policy.Micro
}

// returnIdle returns the free part of idle keys' blocks.
func (l *Ledger) returnIdle() {
	if l.StoreFailure() != nil {
		return
	}
	quiet := l.takeIdleBlocks(l.o.Now().Add(-l.o.IdleReturn))
	if len(quiet) == 0 {
		return
	}
	err := l.do(func(b *book) error { return b.returnIdleBlocks(quiet) }, nil)
	for _, s := range quiet {
		s.end(err)
	}
	if err != nil && !commit.IsUnwritable(err) {
		l.o.Log.Error("ledger: idle money was not given back", "error", err)
	}
}

func (l *Ledger) takeIdleBlocks(since time.Time) []idleBlock {
	l.mu.Lock()
	defer l.mu.Unlock()
	var quiet []idleBlock
	for _, a := range l.accounts {
		if amount := a.takeIdle(since); amount > 0 {
			quiet = append(quiet, idleBlock{a, amount})
		}
	}
	return quiet
}

// takeIdle takes the free part and the account's blockLock, if the account was not used since a time. It returns zero if there is nothing to return.
func (a *account) takeIdle(since time.Time) policy.Micro {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.free == 0 || a.lastUsed.After(since) {
		return 0
	}
	select {
	case a.blockLock <- struct{}{}:
	default: // the lock is taken
		return 0
	}
	amount := a.free
	a.free = 0
	return amount
}

// end releases the blockLock, and restores the money if it could not be returned.
func (s idleBlock) end(err error) {
	a := s.account
	if err != nil {
		a.mu.Lock()
		a.free += s.amount
		a.mu.Unlock()
	}
	<-a.blockLock
}

func (b *book) returnIdleBlocks(quiet []idleBlock) error {
	for _, s := range quiet {
		if err := b.returnFree(s.account.row, s.amount); err != nil {
			return err
		}
	}
	return nil
}

// prune removes requests and counts of refusals older than the retention. Usage totals and journals are kept.
func (l *Ledger) prune() {
	if l.o.Retention < 0 {
		return
	}
	limit := l.o.Now().Add(-l.o.Retention)
	l.removeOld("requests", func(b *book) (int64, error) { return usage.Prune(b.Book, limit.UnixMicro()) })
	l.removeOld("feedback", func(b *book) (int64, error) { return usage.PruneFeedback(b.Book, limit.UnixMicro()) })
	l.removeOld("sums of refusals", func(b *book) (int64, error) { return usage.PruneRefusals(b.Book, limit) })
}

// removeOld is inSteps for the removal of old rows.
func (l *Ledger) removeOld(what string, remove func(*book) (int64, error)) {
	l.inSteps("removal of old "+what, remove)
}

// inSteps changes rows until there are none left, up to usage.PruneLimit in a commit, so that charges are not delayed. The description what is logged with an error.
func (l *Ledger) inSteps(what string, change func(*book) (int64, error)) {
	changed := int64(usage.PruneLimit)
	for changed == usage.PruneLimit && !l.stopping() && l.StoreFailure() == nil {
		err := l.do(func(b *book) (err error) { changed, err = change(b); return err }, nil)
		if commit.IsUnwritable(err) {
			return
		}
		if err != nil {
			l.o.Log.Error("ledger: a step of its upkeep failed", "step", what, "error", err)
			return
		}
	}
}

func (l *Ledger) stopping() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// pruneSpending removes the sums of agents' spending before yesterday.
func (l *Ledger) pruneSpending() {
	before := usage.DayOf(l.o.Now()) - 1
	l.removeOld("sums of what agents spent", func(b *book) (int64, error) { return usage.PruneSpending(b.Book, before) })
}
