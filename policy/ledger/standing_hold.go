package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/store"
)

// A deferred request holds its money for hours, and over restarts: its hold becomes a standing hold, which is a row of the store and
// belongs to no gateway's block. When the request is charged, the money is moved into the block of the gateway that charges it.

// ConvertToStandingHold converts a hold into a standing hold of an owner, the component that stores the request, and returns once it is on disk. The hold h ends; if its amount
// is zero, there is no standing hold. After an error h is unchanged.
func (l *Ledger) ConvertToStandingHold(ctx context.Context, h *Hold, owner string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	amount := h.Amount()
	if amount == 0 {
		l.Release(h)
		return nil
	}
	h.captures.Lock()
	defer h.captures.Unlock()
	h.beginCapture(l.o.Now())
	a := h.account
	err := l.do(func(b *book) error { return b.convertToStandingHold(h, amount, owner, l.o.Now().UnixMicro()) }, func(err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		h.capturing--
		if err == nil {
			a.held -= amount
			h.amount -= amount
			h.released = true
		}
		h.freeIfReleased()
	})
	if err != nil {
		return fmt.Errorf("standing hold of request %s: %w", h.request, err)
	}
	return nil
}

// ReserveStandingHold reserves an amount for a request as a standing hold. The error is as Reserve's.
func (l *Ledger) ReserveStandingHold(ctx context.Context, acct policy.Account, requestID string, amount policy.Micro, owner string) error {
	h, err := l.Reserve(ctx, acct, requestID, amount)
	if err != nil {
		return err
	}
	if err := l.ConvertToStandingHold(ctx, h, owner); err != nil {
		l.Release(h)
		return err
	}
	return nil
}

// convertToStandingHold moves money from the gateway's block to a standing hold. If others considered the gateway dead and returned its block, the money is taken from the
// part of the balance that no block holds.
func (b *book) convertToStandingHold(h *Hold, amount policy.Micro, owner string, at int64) error {
	account, err := b.numberOf(h.account)
	if err != nil {
		return err
	}
	n, err := b.Exec(`UPDATE block SET micro = micro - ?1 WHERE account = ?2 AND instance = ?3 AND micro >= ?1`, amount, account, b.Instance)
	if err == nil && n == 0 {
		n, err = b.Exec(`UPDATE balance SET held = held + ?1 WHERE account = ?2 AND micro - held + credit >= ?1`, amount, account)
	}
	if err != nil {
		return err
	}
	if n == 0 {
		return &InsufficientError{Account: h.account.name, Needed: amount}
	}
	_, err = b.Exec(`INSERT INTO standing (request, account, owner, micro, at) VALUES (?, ?, ?, ?, ?)`, h.request, account, owner, amount, at)
	return err
}

// TakeStandingHold converts a request's standing hold into a hold of this gateway, to be captured or released. If there is none, the hold's amount is zero.
// The error is as Reserve's.
func (l *Ledger) TakeStandingHold(ctx context.Context, acct policy.Account, requestID string) (*Hold, error) {
	h, err := l.Reserve(ctx, acct, requestID, 0)
	if err != nil {
		return nil, err
	}
	a := h.account
	var amount policy.Micro
	err = l.do(func(b *book) (err error) { amount, err = b.takeStandingHold(h, l.o.Now().UnixMicro()); return err }, func(err error) {
		if err != nil {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.free += amount
		a.move(h, amount)
	})
	if err != nil {
		l.Release(h)
		return nil, fmt.Errorf("take the standing hold of request %s: %w", requestID, err)
	}
	return h, nil
}

// takeStandingHold moves money from a standing hold to the gateway's block.
func (b *book) takeStandingHold(h *Hold, at int64) (amount policy.Micro, err error) {
	account, amount, err := b.deleteStandingHold(h.request)
	if err != nil || amount == 0 {
		return 0, err
	}
	_, err = b.Exec(`INSERT INTO block (account, instance, micro, at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (account, instance) DO UPDATE SET micro = block.micro + ?3, at = ?4`, account, b.Instance, amount, at)
	return amount, err
}

// deleteStandingHold deletes a standing hold and returns its amount; zero if there is none.
func (b *book) deleteStandingHold(request string) (account int64, amount policy.Micro, err error) {
	err = b.Row(`DELETE FROM standing WHERE request = ? RETURNING account, micro`, request).Scan(&account, &amount)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, nil
	}
	return account, amount, err
}

// ReleaseStandingHold returns a standing hold to the balance. It has no effect if there is none.
func (l *Ledger) ReleaseStandingHold(ctx context.Context, requestID string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := l.write(func(b *book) error {
		account, amount, err := b.deleteStandingHold(requestID)
		if err != nil || amount == 0 {
			return err
		}
		return b.releaseHeld(account, amount)
	})
	if err != nil {
		return fmt.Errorf("release the standing hold of request %s: %w", requestID, err)
	}
	return nil
}

// maxStandingHoldAge is longer than any request waits. An older standing hold has lost its request, for instance because only the ledger was restored from a backup.
const maxStandingHoldAge = 48 * time.Hour

// releaseStaleStandingHolds releases the standing holds of requests that are not stored any more.
func (l *Ledger) releaseStaleStandingHolds() {
	if !l.o.Gateway || l.StoreFailure() != nil {
		return
	}
	before := l.o.Now().Add(-maxStandingHoldAge).UnixMicro()
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	stale, err := store.ReadAll(ctx, l.reads, store.Text, `SELECT request FROM standing WHERE at < ? AND owner <> ?`, before, ownerPayments)
	for _, request := range stale {
		if err == nil {
			err = l.ReleaseStandingHold(context.Background(), request)
		}
	}
	if err != nil && !commit.IsUnwritable(err) {
		l.o.Log.Error("ledger: old standing holds were not released", "error", err)
	}
}

// RequestsWithStandingHold returns the requests of an owner that have a standing hold.
func (l *Ledger) RequestsWithStandingHold(ctx context.Context, owner string) (requests []string, err error) {
	defer asUnavailable(&err)
	requests, err = store.ReadAll(ctx, l.reads, store.Text, `SELECT request FROM standing WHERE owner = ?`, owner)
	if err != nil {
		return nil, fmt.Errorf("standing holds: %w", err)
	}
	return requests, nil
}

// Charged reports whether a request was charged or recorded already.
func (l *Ledger) Charged(ctx context.Context, acct policy.Account, requestID string) (bool, error) {
	_, err := l.Request(ctx, acct, requestID)
	if errors.Is(err, ErrUnknownRequest) {
		return false, nil
	}
	return err == nil, err
}
