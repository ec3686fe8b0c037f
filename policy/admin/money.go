package admin

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Balance is a key's balance, whose amounts are null for a metered key, and what it has spent of its own limits.
type Balance struct {
	ID         policy.Account `json:"id"`
	Balance    *policy.Micro  `json:"balance_usd"`
	Held       *policy.Micro  `json:"held_usd"`
	Available  *policy.Micro  `json:"available_usd"`
	Blocked    bool           `json:"blocked"`  // until a deposit, because an answer cost more than the balance, or a payment never arrived
	Owed       *policy.Micro  `json:"owed_usd"` // for payments that never arrived; deducted from the next deposits
	Day        policy.Micro   `json:"spent_usd_day"`
	Month      policy.Micro   `json:"spent_usd_month"`
	SpendDay   *policy.Micro  `json:"limit_usd_day"` // null: no limit
	SpendMonth *policy.Micro  `json:"limit_usd_month"`
	Project    string         `json:"project,omitempty"` // its budgets apply, too
}

// Balance returns the balance of a key.
func (s *Service) Balance(ctx context.Context, id policy.Account) (Balance, error) {
	row, err := s.row(ctx, id)
	if err != nil {
		return Balance{}, err
	}
	b, err := s.Books.Balance(ctx, id)
	if err != nil {
		return Balance{}, faultOf(err)
	}
	out := Balance{ID: id, SpendDay: limitOrNull(row.SpendDay), SpendMonth: limitOrNull(row.SpendMonth), Project: row.Project}
	if out.Day, out.Month, err = s.spentOf(ctx, policy.Budget{Holder: policy.OfKey, ID: string(id)}); err != nil || !b.Prepaid {
		return out, err
	}
	out.Balance, out.Held, out.Available, out.Blocked, out.Owed = &b.Amount, &b.Held, &b.Available, b.Blocked, &b.Owed
	return out, nil
}

// spentOf returns what a budget's holder was charged on the current day and in the current month.
func (s *Service) spentOf(ctx context.Context, of policy.Budget) (day, month policy.Micro, err error) {
	at := now()
	day, ofDay := s.Books.SpentOf(ctx, of, at)
	month, ofMonth := s.Books.SpentOf(ctx, of, time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC))
	return day, month, faultOf(errors.Join(ofDay, ofMonth))
}

// Deposit is money for a prepaid key. A reference counts once per key.
type Deposit struct {
	Amount Field[policy.Micro] `json:"amount_usd,omitzero"`
	Ref    Field[string]       `json:"ref,omitzero"`
}

// Receipt is the result of a deposit.
type Receipt struct {
	ID       policy.Account `json:"id"`
	Ref      string         `json:"ref"`
	Amount   policy.Micro   `json:"amount_usd"`
	Repeated bool           `json:"repeated"` // the reference was used before, and nothing changed
	Balance  policy.Micro   `json:"balance_usd"`
}

const maxRef = 200 // bytes

// Deposit adds to a balance. Repeating it changes nothing; with another amount it is a Conflict.
func (s *Service) Deposit(ctx context.Context, id policy.Account, d *Deposit) (Receipt, error) {
	ref := d.Ref.Value
	switch {
	case d.Amount.Value == 0:
		return Receipt{}, invalid("amount_usd", ": a deposit of nothing")
	case strings.TrimSpace(ref) == "":
		return Receipt{}, invalid("ref", " is empty: it makes a repeated deposit count once")
	case len(ref) > maxRef || strings.ContainsFunc(ref, func(r rune) bool { return !unicode.IsPrint(r) }):
		return Receipt{}, invalid("ref", " is longer than %d bytes, or holds a character that cannot be printed", maxRef)
	}
	amount, err := parseAmount("amount_usd", d.Amount.Value)
	if err != nil {
		return Receipt{}, err
	}
	row, err := s.row(ctx, id)
	if err != nil {
		return Receipt{}, err
	}
	before, err := s.Books.Deposited(ctx, id, ref)
	if err != nil {
		return Receipt{}, faultOf(err)
	}
	if before == 0 && !row.RevokedAt.IsZero() {
		return Receipt{}, fault.Newf(fault.Conflict, "deposit to key %s: the key was revoked, which is for good: nothing could spend it", id)
	}
	balance, err := s.Books.Deposit(ctx, id, amount, ref)
	if err != nil {
		return Receipt{}, faultOf(err)
	}
	return Receipt{ID: id, Ref: ref, Amount: amount, Repeated: before != 0, Balance: balance}, nil
}
