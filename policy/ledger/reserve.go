package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/commit"
)

// InsufficientError means that a key cannot pay: its balance is too low, or it is blocked until a deposit because an earlier request cost more
// than its balance.
type InsufficientError struct {
	Account   policy.Account
	Needed    policy.Micro
	Available policy.Micro // neither spent nor reserved, including credit
	Blocked   bool
}

// Error is for logs.
func (e *InsufficientError) Error() string {
	if e.Blocked {
		return fmt.Sprintf("key %s is blocked until a deposit: available %s USD", e.Account, e.Available)
	}
	return fmt.Sprintf("key %s needs %s USD and has %s USD available", e.Account, e.Needed, e.Available)
}

// A block is an eighth of the available balance, within these limits. There is no minimum if other gateways have blocks of the key; for shortTime after one of
// them was short of money, all take only the amount that they need.
const (
	blockMin  = policy.USD / 4
	blockMax  = 10 * policy.USD
	shortTime = 2 * time.Second
)

// Reserve holds an amount of a prepaid key's money for a request. Usually the key's block has enough, and nothing is
// written. If not, the balance in the store is used, which includes deposits by other processes. If other gateways hold the
// missing money, Reserve waits up to Options.ReserveWait until they return what they do not use. The error is an *InsufficientError,
// ErrUnknownKey, ErrMetered, ErrAmount, ErrClosed, the context's while it waits for others, an *UnwritableError, or the store's.
func (l *Ledger) Reserve(ctx context.Context, acct policy.Account, requestID string, amount policy.Micro) (*Hold, error) {
	if !l.o.Gateway {
		return nil, ErrNotGateway
	}
	if amount < 0 || amount > maxAmount {
		return nil, fmt.Errorf("reserve for request %s: %w: %s USD", requestID, ErrAmount, amount)
	}
	h := &Hold{account: l.account(acct), request: requestID}
	err := l.Writable()
	if err == nil || amount == 0 {
		err = l.grow(ctx, h, amount, true)
	}
	if commit.IsUnwritable(err) && amount == 0 { // free requests are served during an outage
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("reserve for request %s: %w", requestID, err)
	}
	h.account.mu.Lock()
	h.account.openHolds++
	h.account.mu.Unlock()
	return h, nil
}

// ReserveNow is Reserve without waiting: ok is false if the key's block in memory lacks the amount, or no charge can be written at the moment.
func (l *Ledger) ReserveNow(acct policy.Account, requestID string, amount policy.Micro) (h *Hold, ok bool) {
	if !l.o.Gateway || amount < 0 || amount > maxAmount || l.Writable() != nil {
		return nil, false
	}
	h = &Hold{account: l.account(acct), request: requestID}
	if !l.reserveInMemory(h, amount) {
		return nil, false
	}
	h.account.mu.Lock()
	h.account.openHolds++
	h.account.mu.Unlock()
	return h, true
}

// Extend adds an amount to an open hold, or changes nothing and returns an error, as Reserve does.
func (l *Ledger) Extend(ctx context.Context, h *Hold, more policy.Micro) error {
	if more < 0 || more > maxAmount-h.Amount() {
		return fmt.Errorf("extend the hold of request %s: %w: %s USD more", h.request, ErrAmount, more)
	}
	if !h.isOpen() {
		return fmt.Errorf("extend the hold of request %s: it has ended", h.request)
	}
	err := l.Writable()
	if err == nil {
		err = l.grow(ctx, h, more, true)
	}
	if err != nil {
		return fmt.Errorf("extend the hold of request %s: %w", h.request, err)
	}
	return nil
}

// reserveInMemory reserves from the block in memory, if it has enough and the lease has not ended: after that others may have returned the block.
func (l *Ledger) reserveInMemory(h *Hold, amount policy.Micro) bool {
	return !l.lease.IsExpiring() && h.account.reserve(h, amount, l.o.Now())
}

// Immediate reports whether a prepaid key's block has free money in memory, and charges do not wait for the disk.
func (l *Ledger) Immediate(acct policy.Account) bool {
	return !l.durable.Load() && !l.lease.IsExpiring() && l.account(acct).hasFree()
}

// Holds is the number of open holds of this handle and their sum.
func (l *Ledger) Holds() (open int, held policy.Micro) {
	l.mu.Lock()
	accounts := slices.Collect(maps.Values(l.accounts))
	l.mu.Unlock()
	for _, a := range accounts {
		a.mu.Lock()
		open, held = open+a.openHolds, held+a.held
		a.mu.Unlock()
	}
	return open, held
}

// Release ends a hold without a charge. Nothing is written. It has no effect on nil or an ended hold.
func (l *Ledger) Release(h *Hold) {
	if h == nil {
		return
	}
	a := h.account
	now := l.o.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastUsed = now
	h.released = true
	h.freeIfReleased()
}

// shortfall is the amount that a hold lacks.
type shortfall struct {
	amount policy.Micro
	all    bool      // the whole amount or an error; otherwise as much as possible
	since  time.Time // a gateway that has answered after this time cannot return more
}

// retryInterval is the interval of checking whether other gateways have returned money.
const retryInterval = 20 * time.Millisecond

// grow adds to a hold: from memory, else from the store, else from unused money of other gateways. With all, it adds the whole amount or
// returns an error; otherwise it adds as much as possible.
func (l *Ledger) grow(ctx context.Context, h *Hold, more policy.Micro, all bool) error {
	w := shortfall{amount: more, all: all, since: l.o.Now()}
	asked, err := l.growOnce(ctx, h, &w)
	if !asked {
		return err
	}
	timeout := time.NewTimer(l.o.ReserveWait)
	defer timeout.Stop()
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	for asked {
		select {
		case <-retry.C:
			asked, err = l.growOnce(ctx, h, &w)
		case <-timeout.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// growOnce is grow without waiting for other gateways: asked is true if they were asked for money, so that a retry may succeed.
func (l *Ledger) growOnce(ctx context.Context, h *Hold, w *shortfall) (asked bool, err error) {
	a := h.account
	if l.reserveInMemory(h, w.amount) {
		return false, nil
	}
	select {
	case a.blockLock <- struct{}{}:
		defer func() { <-a.blockLock }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if l.reserveInMemory(h, w.amount) { // the last owner of the lock may have added enough
		return false, nil
	}
	return l.refill(h, w)
}

// refill moves money from the balance to the block and to the hold. The caller has the account's blockLock.
func (l *Ledger) refill(h *Hold, w *shortfall) (asked bool, err error) {
	a := h.account
	aside := a.takeFree(w.amount)
	var g blockGrant
	var short *InsufficientError
	returned := false // aside is in the block again
	take := func(b *book) (err error) { g, err = b.takeBlock(a.name, w, w.amount-aside, l.o.Now()); return err }
	err = l.do(take, func(err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.free += aside
		returned = true
		if err != nil {
			return
		}
		a.row, a.ready, a.stored = g.account, !g.blocked, g.micro
		a.free += g.amount
		if w.all && (g.blocked || a.free < w.amount) {
			short = &InsufficientError{Account: a.name, Needed: w.amount, Available: g.available() - g.amount + a.free, Blocked: g.blocked}
			return
		}
		moved := min(a.free, w.amount)
		a.move(h, moved)
		w.amount -= moved
	})
	if !returned { // the change did not run
		a.restoreFree(aside, err)
	}
	if err == nil && short != nil {
		err = short
	}
	return g.asked, err
}

// blockGrant is the result of taking money into a block.
type blockGrant struct {
	balance              // the row before
	amount  policy.Micro // added to the block
	asked   bool         // other gateways were asked for unused money and have not all answered
}

// takeBlock moves money from a balance to the gateway's block: the needed amount and more, for the next requests. If there is too little and all
// is needed, nothing is moved.
func (b *book) takeBlock(acct policy.Account, w *shortfall, need policy.Micro, now time.Time) (g blockGrant, err error) {
	if g.balance, err = b.prepaidBalance(acct); err != nil {
		return blockGrant{}, err
	}
	others, unasked, err := b.othersHold(g.account, w.since)
	if err != nil {
		return blockGrant{}, err
	}
	short := now.UnixMicro()-g.shortAt < shortTime.Microseconds()
	size := blockSize(need, g.available(), others > 0, short)
	lacks := need - size
	if lacks > 0 && unasked > 0 && (!w.all || unasked >= lacks && !g.blocked) {
		g.asked = true
		if err := b.ask(g.balance, w.since, now); err != nil {
			return blockGrant{}, err
		}
	}
	if size == 0 || w.all && (g.blocked || lacks > 0) {
		return g, nil
	}
	g.amount = size
	if _, err := b.Exec(`UPDATE balance SET held = held + ?, short_at = CASE WHEN ? <> 0 THEN short_at ELSE 0 END WHERE account = ?`, size, short, g.account); err != nil {
		return blockGrant{}, err
	}
	_, err = b.Exec(`INSERT INTO block (account, instance, micro, at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (account, instance) DO UPDATE SET micro = block.micro + ?3, at = ?4`, g.account, b.Instance, size, now.UnixMicro())
	return g, err
}

// othersHold is the sum of other gateways' blocks of a key, and the part of it whose gateways have not answered since a time.
func (b *book) othersHold(account int64, since time.Time) (all, unasked policy.Micro, err error) {
	err = b.Row(`SELECT coalesce(sum(micro), 0), coalesce(sum(micro) FILTER (WHERE answered < ?), 0) FROM block
WHERE account = ? AND instance <> ?`, since.UnixMicro(), account, b.Instance).Scan(&all, &unasked)
	return all, unasked, err
}

// ask asks the other gateways to return unused money of a key, unless they were asked since a time.
func (b *book) ask(row balance, since, now time.Time) error {
	if row.shortAt >= since.UnixMicro() {
		return nil
	}
	at := max(now.UnixMicro(), row.shortAt+1)
	if _, err := b.Exec(`UPDATE balance SET short_at = ? WHERE account = ?`, at, row.account); err != nil {
		return err
	}
	_, err := b.Exec(`UPDATE block SET answered = ? WHERE account = ? AND instance = ?`, at, row.account, b.Instance)
	return err
}

// blockSize is the amount to move into a block if need is needed.
func blockSize(need, available policy.Micro, shared, short bool) policy.Micro {
	if need == 0 {
		return 0
	}
	size := need
	if !short {
		least := blockMin
		if shared {
			least = 0
		}
		size = max(need, min(max(available/8, least), blockMax))
	}
	return max(0, min(size, available))
}

// returnFree returns a part of a block to its balance. If the block does not exist, others considered this gateway dead and have returned it.
func (b *book) returnFree(account int64, amount policy.Micro) error {
	n, err := b.Exec(`UPDATE block SET micro = micro - ?1 WHERE account = ?2 AND instance = ?3 AND micro >= ?1`, amount, account, b.Instance)
	if err != nil || n == 0 {
		return err
	}
	if _, err := b.Exec(`DELETE FROM block WHERE account = ? AND instance = ? AND micro = 0`, account, b.Instance); err != nil {
		return err
	}
	return b.releaseHeld(account, amount)
}
