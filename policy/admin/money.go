package admin

import (
	"context"
	"strings"
	"unicode"

	"bardo.money/gateway/policy"
)

// Balance is a key's money. The amounts of a metered key are null.
type Balance struct {
	ID        policy.Account `json:"id"`
	Balance   *policy.Micro  `json:"balance_usd"`
	Held      *policy.Micro  `json:"held_usd"`
	Available *policy.Micro  `json:"available_usd"`
	Blocked   bool           `json:"blocked"` // until a deposit, because an answer cost more than there was
}

// Balance is the balance of a key.
func (s *Service) Balance(ctx context.Context, id policy.Account) (Balance, error) {
	if _, err := s.row(ctx, id); err != nil {
		return Balance{}, err
	}
	b, err := s.Books.Balance(ctx, id)
	if err != nil {
		return Balance{}, faultOf(err)
	}
	if !b.Prepaid {
		return Balance{ID: id}, nil
	}
	return Balance{ID: id, Balance: &b.Amount, Held: &b.Held, Available: &b.Available, Blocked: b.Blocked}, nil
}

// Deposit is money for a prepaid key. A reference counts once per key.
type Deposit struct {
	Amount Field[policy.Micro] `json:"amount_usd,omitzero"`
	Ref    Field[string]       `json:"ref,omitzero"`
}

// Receipt is what a deposit has done.
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
	if _, err := s.row(ctx, id); err != nil {
		return Receipt{}, err
	}
	before, err := s.Books.Deposited(ctx, id, ref)
	if err != nil {
		return Receipt{}, faultOf(err)
	}
	balance, err := s.Books.Deposit(ctx, id, amount, ref)
	if err != nil {
		return Receipt{}, faultOf(err)
	}
	return Receipt{ID: id, Ref: ref, Amount: amount, Repeated: before != 0, Balance: balance}, nil
}
