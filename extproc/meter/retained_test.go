package meter

import (
	"context"
	"errors"
	"testing"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// balances are books whose balance differs from call to call.
type balances struct {
	books

	next   []ledger.Balance
	unread error // of the last balance
	short  error // of reservations
}

func (p *balances) Balance(context.Context, policy.Account) (ledger.Balance, error) {
	if len(p.next) == 0 {
		return ledger.Balance{}, p.unread
	}
	b := p.next[0]
	p.next = p.next[1:]
	return b, nil
}

func (p *balances) Reserve(ctx context.Context, account policy.Account, id string, amount policy.Micro) (*ledger.Hold, error) {
	if p.short != nil {
		return nil, p.short
	}
	return p.books.Reserve(ctx, account, id, amount)
}

func available(amounts ...policy.Micro) (all []ledger.Balance) {
	for _, m := range amounts {
		all = append(all, ledger.Balance{Prepaid: true, Available: m})
	}
	return all
}

// TestD55APartOfABalanceIsNotReserved: a request that would use it is refused, and holds nothing.
func TestD55APartOfABalanceIsNotReserved(t *testing.T) {
	errStore := errors.New("unreadable")
	for _, row := range []struct {
		name     string
		amount   policy.Micro
		retained policy.Micro
		balances []ledger.Balance // after the reservation, read twice
		err      error            // of the balance
		short    error            // of the reservation
		want     error
		refused  bool
		released int
	}{
		{name: "all the rest is retained", amount: 5, retained: 20, balances: available(20, 20)},
		{name: "the retained part is used", amount: 5, retained: 20, balances: available(19, 19), want: errRetained, refused: true, released: 1},
		{name: "nothing is retained", amount: 5},
		{name: "the request costs nothing", retained: 20},
		{name: "a charge between the two readings counts twice", amount: 5, retained: 20, want: errRetained, refused: true, released: 1, balances: []ledger.Balance{{Available: 19, Held: 5}, {Available: 20}}},
		{name: "a reservation between them counts", amount: 5, retained: 20, balances: []ledger.Balance{{Available: 25}, {Available: 15, Held: 5}}},
		{name: "no balance can be read", amount: 5, retained: 20, err: errStore, want: errStore, released: 1},
		{name: "the second one cannot be read", amount: 5, retained: 20, balances: available(20), err: errStore, want: errStore, released: 1},
		{name: "the balance is too low", amount: 5, short: &ledger.InsufficientError{Needed: 5}, want: &ledger.InsufficientError{}, refused: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			store := &balances{next: row.balances, unread: row.err, short: row.short}
			p := &prepaid{books: store, account: "ada", retained: row.retained}
			err := p.Reserve(t.Context(), "r", row.amount)
			if _, ok := errors.AsType[*ledger.InsufficientError](err); (err != nil) != (row.want != nil) || !errors.Is(err, row.want) && !ok {
				t.Errorf("%v, want %v", err, row.want)
			}
			if row.refused && fault.From(err).Kind != fault.InsufficientFunds {
				t.Errorf("%v", err)
			}
			if store.released != row.released || (p.hold == nil) != (row.want != nil) {
				t.Errorf("released %d times, want %d; holds %v", store.released, row.released, p.hold)
			}
		})
	}
}

// TestAReservationIsReplacedByAnother: only one of a request is held, and one of the same amount stays.
func TestAReservationIsReplacedByAnother(t *testing.T) {
	store := &balances{}
	p := &prepaid{books: store, account: "ada"}
	for _, row := range []struct {
		amount   policy.Micro
		now      bool
		released int
	}{{5, false, 0}, {5, false, 0}, {6, false, 1}, {7, true, 2}, {7, false, 2}} {
		var err error
		ok := true
		if row.now {
			ok = p.ReserveNow("r", row.amount)
		} else {
			err = p.Reserve(t.Context(), "r", row.amount)
		}
		if err != nil || !ok || store.reserved != row.amount || store.released != row.released {
			t.Errorf("%d: %v, %v, reserved %s, released %d times", row.amount, ok, err, store.reserved, store.released)
		}
	}
	p.retained = 1
	if p.ReserveNow("r", 9) || !p.ReserveNow("r", 0) {
		t.Error("a part of the balance is retained, and was not read, or a request without a cost waits for it")
	}
}

// TestARequestWithoutACallIsNotCharged of its reservation, which ends.
func TestARequestWithoutACallIsNotCharged(t *testing.T) {
	for _, row := range []struct {
		reserved, owed            bool
		amount                    policy.Micro
		short                     error // of a reservation at the end
		captured, released, known bool
	}{
		{reserved: true, owed: true, amount: 3, captured: true, known: true},
		{reserved: true, amount: 3, released: true},
		{owed: true, amount: 3, captured: true, known: true}, // a side call was made, and then the request was refused
		{owed: true, amount: 3, short: &ledger.InsufficientError{Blocked: true}, released: true, known: true},
		{owed: true, released: true, known: true}, // by the user's own key
	} {
		store := &balances{}
		p := &prepaid{books: &recording{balances: store}, account: "ada"}
		if row.reserved {
			if err := p.Reserve(t.Context(), "r", 5); err != nil {
				t.Fatal(err)
			}
		}
		store.short = row.short
		_, err := p.Settle(t.Context(), ledger.Charge{Amount: row.amount}, row.owed)
		_, known := p.Balance()
		captured := p.books.(*recording).captured //nolint:forcetypeassert // see above
		if err != nil || len(store.booked) != 1 || captured != row.captured || (store.released > 0) != row.released || known != row.known || row.reserved && store.reserved != 5 {
			t.Errorf("%+v: %v, %d booked, captured %v, released %d times, balance known %v", row, err, len(store.booked), captured, store.released, known)
		}
	}
}

// recording records that a reservation was charged.
type recording struct {
	*balances

	captured bool
}

func (p *recording) Capture(ctx context.Context, h *ledger.Hold, c ledger.Charge) (ledger.Receipt, error) {
	p.captured = true
	return p.balances.Capture(ctx, h, c)
}

// TestAFurtherReservationLeavesTheRetainedPart, and is a part of the request's from then on.
func TestAFurtherReservationLeavesTheRetainedPart(t *testing.T) {
	for _, row := range []struct {
		about string
		left  []ledger.Balance
		err   error // of the balance
		more  policy.Micro
		ok    bool
	}{
		{"all but the retained part", available(30, 30), nil, 10, true},
		{"a part of the retained", available(30, 30), nil, 11, false},
		{"a balance that cannot be read", nil, errRetained, 0, false},
		{"more than the balance", available(9*policy.USD, 9*policy.USD), nil, 5 * policy.USD, false},
	} {
		store := &balances{next: row.left, unread: row.err}
		p := &prepaid{books: store, account: "ada"}
		if err := p.Reserve(t.Context(), "r", 5); err != nil {
			t.Fatal(err)
		}
		p.retained = 20
		want := policy.Micro(5)
		if row.ok {
			want += row.more
		}
		if err := p.extend(t.Context(), row.more); (err == nil) != row.ok || p.reserved != want {
			t.Errorf("%s: %v, reserved %d, want %d", row.about, err, p.reserved, want)
		}
	}
}
