package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"bardo.money/gateway/policy"
)

// InsufficientError says that a key cannot pay: it lacks the money, or is blocked until a deposit because an earlier
// answer cost more than it had.
type InsufficientError struct {
	Account   policy.Account
	Needed    policy.Micro
	Available policy.Micro // what is neither spent nor reserved, credit included
	Blocked   bool
}

// Error is for logs.
func (e *InsufficientError) Error() string {
	if e.Blocked {
		return fmt.Sprintf("key %s is blocked until a deposit: available %s USD", e.Account, e.Available)
	}
	return fmt.Sprintf("key %s needs %s USD and has %s USD available", e.Account, e.Needed, e.Available)
}

// A block is an eighth of what is available, but within these bounds. There is no least size where other gateways have
// blocks of the key too, and after one of them was short everybody takes only what is needed for a while.
const (
	blockMin  = policy.USD / 4
	blockMax  = 10 * policy.USD
	shortTime = 2 * time.Second
)

// Reserve holds an amount of a prepaid key's money for a request. Most often the key's block has enough, and nothing is
// written. If not, the store is asked: a deposit of another process counts at once. Where other gateways hold what is
// missing, they are given Options.Patience to give back what they do not use. The error is an *InsufficientError,
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
	if isUnwritable(err) && amount == 0 { // what costs nothing is served nevertheless
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("reserve for request %s: %w", requestID, err)
	}
	h.account.mu.Lock()
	h.account.open++
	h.account.mu.Unlock()
	return h, nil
}

// Holds counts the open holds of this handle and what they hold together.
func (l *Ledger) Holds() (open int, held policy.Micro) {
	l.mu.Lock()
	accounts := slices.Collect(maps.Values(l.accounts))
	l.mu.Unlock()
	for _, a := range accounts {
		a.mu.Lock()
		open, held = open+a.open, held+a.held
		a.mu.Unlock()
	}
	return open, held
}

// Release ends a hold without a charge. Nothing is written. A nil hold and one that has ended are left alone.
func (l *Ledger) Release(h *Hold) {
	if h == nil {
		return
	}
	a := h.account
	now := l.o.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.touched = now
	h.released = true
	h.freeIfReleased()
}

// want is what a hold lacks.
type want struct {
	amount policy.Micro
	all    bool      // everything or an error; else as much as there is
	since  time.Time // what other gateways give back after that is all that they can
}

// retryTime is how often a request looks whether other gateways gave something back.
const retryTime = 20 * time.Millisecond

// grow adds more to a hold: out of memory if it has enough, else out of the store, else out of what other gateways hold
// and do not use. With all, it is everything or an error; without, as much as there is.
func (l *Ledger) grow(ctx context.Context, h *Hold, more policy.Micro, all bool) error {
	w := want{amount: more, all: all, since: l.o.Now()}
	asked, err := l.growOnce(ctx, h, &w)
	if !asked {
		return err
	}
	patience := time.NewTimer(l.o.Patience)
	defer patience.Stop()
	retry := time.NewTicker(retryTime)
	defer retry.Stop()
	for asked {
		select {
		case <-retry.C:
			asked, err = l.growOnce(ctx, h, &w)
		case <-patience.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// growOnce does not wait for other gateways: asked says that they were asked, and that it may come to another result
// when they have answered.
func (l *Ledger) growOnce(ctx context.Context, h *Hold, w *want) (asked bool, err error) {
	a := h.account
	if a.reserve(h, w.amount, l.o.Now()) {
		return false, nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if a.reserve(h, w.amount, l.o.Now()) { // whoever had the turn before may have brought enough
		return false, nil
	}
	return l.refill(h, w)
}

// refill brings money from the balance into the block, and from there into the hold. The caller has the account's turn.
func (l *Ledger) refill(h *Hold, w *want) (asked bool, err error) {
	a := h.account
	aside := a.setAside(w.amount)
	var g grant
	var short *InsufficientError
	take := func(b *book) (err error) { g, err = b.takeBlock(a.name, w, w.amount-aside, l.o.Now()); return err }
	err = l.writer.do(take, func(err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.free += aside
		if err != nil {
			return
		}
		a.row, a.ready, a.balance = g.account, !g.blocked, g.micro
		a.free += g.amount
		if w.all && (g.blocked || a.free < w.amount) {
			short = &InsufficientError{Account: a.name, Needed: w.amount, Available: g.available() - g.amount + a.free, Blocked: g.blocked}
			return
		}
		moved := min(a.free, w.amount)
		a.move(h, moved)
		w.amount -= moved
	})
	if err == nil && short != nil {
		err = short
	}
	return g.asked, err
}

// grant is what came of a wish for money.
type grant struct {
	balance              // the row as it was before
	amount  policy.Micro // what the block got
	asked   bool         // other gateways were asked to give back what they do not use, and have not all answered yet
}

// takeBlock moves money from a balance into the gateway's block: what is needed and some more, so that the next requests
// find it there. When there is too little and all is needed, nothing is moved.
func (b *book) takeBlock(acct policy.Account, w *want, need policy.Micro, now time.Time) (g grant, err error) {
	if g.balance, err = b.prepaidBalance(acct); err != nil {
		return grant{}, err
	}
	others, unasked, err := b.othersHold(g.account, w.since)
	if err != nil {
		return grant{}, err
	}
	short := now.UnixMicro()-g.shortAt < shortTime.Microseconds()
	size := blockSize(need, g.available(), others > 0, short)
	lacks := need - size
	if lacks > 0 && unasked > 0 && (!w.all || unasked >= lacks && !g.blocked) {
		g.asked = true
		if err := b.ask(g.balance, w.since, now); err != nil {
			return grant{}, err
		}
	}
	if size == 0 || w.all && (g.blocked || lacks > 0) {
		return g, nil
	}
	g.amount = size
	if _, err := b.exec(`UPDATE balance SET held = held + ?, short_at = iif(?, short_at, 0) WHERE account = ?`, size, short, g.account); err != nil {
		return grant{}, err
	}
	_, err = b.exec(`INSERT INTO block (account, instance, micro, at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (account, instance) DO UPDATE SET micro = micro + ?3, at = ?4`, g.account, b.instance, size, now.UnixMicro())
	return g, err
}

// othersHold is what the blocks of other gateways hold of a key, and how much of it is in blocks whose gateways were not
// asked since, or have not answered.
func (b *book) othersHold(account int64, since time.Time) (all, unasked policy.Micro, err error) {
	err = b.row(`SELECT coalesce(sum(micro), 0), coalesce(sum(micro) FILTER (WHERE answered < ?), 0) FROM block
WHERE account = ? AND instance <> ?`, since.UnixMicro(), account, b.instance).Scan(&all, &unasked)
	return all, unasked, err
}

// ask lets the other gateways know that what they hold of a key and do not use is needed, unless they were told since.
func (b *book) ask(row balance, since, now time.Time) error {
	if row.shortAt >= since.UnixMicro() {
		return nil
	}
	at := max(now.UnixMicro(), row.shortAt+1)
	if _, err := b.exec(`UPDATE balance SET short_at = ? WHERE account = ?`, at, row.account); err != nil {
		return err
	}
	_, err := b.exec(`UPDATE block SET answered = ? WHERE account = ? AND instance = ?`, at, row.account, b.instance)
	return err
}

// blockSize is how much of what is available goes into a block when some is needed.
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

// returnFree gives a part of a block back to its balance. When there is no such block any more, because others took this
// gateway for dead, they have given it back.
func (b *book) returnFree(account int64, amount policy.Micro) error {
	n, err := b.exec(`UPDATE block SET micro = micro - ?1 WHERE account = ?2 AND instance = ?3 AND micro >= ?1`, amount, account, b.instance)
	if err != nil || n == 0 {
		return err
	}
	if _, err := b.exec(`DELETE FROM block WHERE account = ? AND instance = ? AND micro = 0`, account, b.instance); err != nil {
		return err
	}
	_, err = b.exec(`UPDATE balance SET held = held - ? WHERE account = ?`, amount, account)
	return err
}
