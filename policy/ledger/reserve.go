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

// A block is an eighth of what is available, but within these bounds.
const (
	blockMin = policy.USD / 4
	blockMax = 10 * policy.USD
)

// Reserve holds an amount of a prepaid key's money for a request. Most often the key's block has enough, and nothing is
// written. If not, the store is asked: a deposit of another process counts at once. The error is an *InsufficientError,
// ErrUnknownKey, ErrMetered, ErrAmount, ErrClosed, the context's while others of the key are served first, or the store's.
func (l *Ledger) Reserve(ctx context.Context, acct policy.Account, requestID string, amount policy.Micro) (*Hold, error) {
	if !l.o.Exclusive {
		return nil, ErrNotExclusive
	}
	if amount < 0 || amount > maxAmount {
		return nil, fmt.Errorf("reserve for request %s: %w: %s USD", requestID, ErrAmount, amount)
	}
	h := &Hold{account: l.account(acct), request: requestID}
	err := l.grow(ctx, h, amount, true)
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

// grow adds more to a hold: out of memory if it has enough, else out of the store. With all, it is everything or an
// error; without, as much as there is.
func (l *Ledger) grow(ctx context.Context, h *Hold, more policy.Micro, all bool) error {
	a := h.account
	if a.reserve(h, more, l.o.Now()) {
		return nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if a.reserve(h, more, l.o.Now()) { // whoever had the turn before may have brought enough
		return nil
	}
	return l.refill(h, more, all)
}

// refill brings money from the balance into the block, and from there into the hold. The caller has the account's turn.
func (l *Ledger) refill(h *Hold, more policy.Micro, all bool) error {
	a := h.account
	aside := a.setAside(more)
	var b balance
	var granted policy.Micro
	var short *InsufficientError
	take := func(bk *book) (err error) {
		b, granted, err = bk.takeBlock(a.name, more-aside, all, l.o.Now())
		return err
	}
	err := l.writer.do(take, func(err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.free += aside
		if err != nil {
			return
		}
		a.row, a.ready = b.account, !b.blocked
		a.free += granted
		if all && (b.blocked || a.free < more) {
			short = &InsufficientError{Account: a.name, Needed: more, Available: b.available() - granted + a.free, Blocked: b.blocked}
			return
		}
		a.move(h, min(a.free, more))
	})
	if err != nil {
		return err
	}
	if short != nil {
		return short
	}
	return nil
}

// takeBlock moves money from a balance into the key's block: what is needed and some more, so that the next requests
// find it there. It returns the row as it was before. When there is too little and all is needed, nothing is moved.
func (b *book) takeBlock(acct policy.Account, need policy.Micro, all bool, now time.Time) (balance, policy.Micro, error) {
	row, err := b.prepaidBalance(acct)
	if err != nil {
		return balance{}, 0, err
	}
	grant := blockSize(need, row.available())
	if all && (row.blocked || grant < need) {
		return row, 0, nil
	}
	if grant == 0 {
		return row, 0, nil
	}
	if _, err := b.exec(`UPDATE balance SET held = held + ? WHERE account = ?`, grant, row.account); err != nil {
		return balance{}, 0, err
	}
	_, err = b.exec(`INSERT INTO block (account, micro, at) VALUES (?1, ?2, ?3)
ON CONFLICT (account) DO UPDATE SET micro = micro + ?2, at = ?3`, row.account, grant, now.UnixMicro())
	return row, grant, err
}

// blockSize is how much of what is available goes into a block when some is needed.
func blockSize(need, available policy.Micro) policy.Micro {
	if need == 0 {
		return 0
	}
	size := max(need, min(max(available/8, blockMin), blockMax))
	return max(0, min(size, available))
}

// returnFree gives a part of a block back to its balance.
func (b *book) returnFree(account int64, amount policy.Micro) error {
	if _, err := b.exec(`UPDATE block SET micro = micro - ? WHERE account = ?`, amount, account); err != nil {
		return err
	}
	if _, err := b.exec(`DELETE FROM block WHERE account = ? AND micro = 0`, account); err != nil {
		return err
	}
	_, err := b.exec(`UPDATE balance SET held = held - ? WHERE account = ?`, amount, account)
	return err
}

// returnBlocks gives every block back. One that its balance does not hold is left for an audit to find.
func (b *book) returnBlocks() error {
	blocks, err := readAll(context.Background(), b.conn, scanEntry,
		`SELECT k.account, k.micro FROM block k JOIN balance b ON b.account = k.account WHERE b.held = k.micro`)
	if err != nil {
		return err
	}
	for _, k := range blocks {
		if err := b.returnFree(k.account, k.amount); err != nil {
			return err
		}
	}
	return nil
}

func scanEntry(row scanner) (e entry, err error) {
	err = row.Scan(&e.account, &e.amount)
	return e, err
}
