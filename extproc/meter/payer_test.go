package meter

import (
	"context"
	"errors"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
)

// perRequest is a payer that requires a payment first, and pays no more than that.
type perRequest struct {
	paid, charged policy.Micro
	released      int
}

var _ Payer = (*perRequest)(nil)

func (*perRequest) Admit(context.Context) error { return nil }

func (p *perRequest) Reserve(_ context.Context, requestID string, amount policy.Micro) error {
	if p.paid < amount {
		return (&Challenge{Body: []byte(`{"amount":"` + amount.String() + `"}`), Header: header.List{{Name: "www-authenticate", Value: requestID}}}).Fault()
	}
	return nil
}

func (*perRequest) Immediate() bool { return false }

func (p *perRequest) ReserveNow(_ string, amount policy.Micro) bool { return p.paid >= amount }

func (p *perRequest) Settle(_ context.Context, c ledger.Charge, _ bool) (ledger.Receipt, error) {
	p.charged += c.Amount
	return ledger.Receipt{Charged: c.Amount}, nil
}

func (*perRequest) Balance() (left policy.Micro, known bool) { return 0, false }
func (*perRequest) ReadBalance(context.Context) error        { return nil }
func (p *perRequest) Limit() (maxCost policy.Micro, ok bool) { return p.paid, true }

func (p *perRequest) Headers(h header.List) header.List {
	return append(h, header.Field{Name: "x-payment", Value: p.charged.String()})
}

func (p *perRequest) Release() { p.released++ }

// paidBy returns the bill of a request with a payer.
func paidBy(p Payer, b *books) *Bill {
	bill := &Bill{}
	bill.Open(New(quota.New(quota.Options{}), b, budget.NewMeter(budget.Options{})), &request{most: 1_000_000}, "req_1")
	bill.PaidBy(policy.Principal{Account: "ada"}, p, 0)
	return bill
}

func TestAPayerChallengesBeforeItPays(t *testing.T) {
	p := &perRequest{}
	b := paidBy(p, &books{})
	err := b.Reserve(t.Context(), 30)
	f, isFault := errors.AsType[*fault.Fault](err)
	c, isChallenge := errors.AsType[*Challenge](err)
	if !isFault || f.HTTPStatus() != 402 || !isChallenge || !strings.Contains(string(c.Body), "0.000030") || c.Header.Get("www-authenticate") != "req_1" {
		t.Fatalf("refused with %v", err)
	}
	p.paid = 30
	if err := b.Reserve(t.Context(), 30); err != nil {
		t.Error(err)
	}
}

// TestAReservationThatNeedNotWait is kept by Reserve of the same amount, replaced by Reserve of another, and released once.
func TestAReservationThatNeedNotWait(t *testing.T) {
	b, p := open(t, &request{most: 1_000_000}, 0)
	before := p.released
	for _, c := range []struct {
		sentence           string
		now, then          policy.Micro
		reserved, released int
	}{
		{"the same amount", 40, 40, 40, 1}, // the bill had a reservation before
		{"less", 40, 30, 30, 2},
		{"nothing", 40, 0, 0, 2},
	} {
		p.released = before
		if !b.ReserveNow(c.now) || p.reserved != c.now {
			t.Fatalf("%s: reserved %d", c.sentence, p.reserved)
		}
		if err := b.Reserve(t.Context(), c.then); err != nil || p.reserved != policy.Micro(c.reserved) || p.released-before != c.released {
			t.Errorf("%s: %v, reserved %d, released %d times", c.sentence, err, p.reserved, p.released-before)
		}
	}
	if p.waits = true; b.ReserveNow(1) || b.Immediate(&quota.Request{}) {
		t.Error("a reservation that has to wait")
	}
	if p.waits = false; !b.Immediate(&quota.Request{}) || !b.Reserved(0) || b.Reserved(1) {
		t.Error("a bill that has nothing reserved")
	}
	if b.SetPriority(false, 5); b.ReserveNow(1) || !b.ReserveNow(0) {
		t.Error("what is kept of a balance is not looked at")
	}
}

func TestAPayerStopsAGenerationAtARunningCost(t *testing.T) {
	p := &perRequest{paid: 30}
	b := paidBy(p, &books{})
	used := func(output int64) func() chat.Usage { return func() chat.Usage { return chat.Usage{Output: output} } }
	if b.Exceeds(&small, used(3)) || !b.Exceeds(&small, used(4)) { // 10 each
		t.Error("the running cost of one call")
	}
	b.Add(&small, chat.Usage{Output: 2, Final: true})
	if b.Exceeds(&small, used(1)) || !b.Exceeds(&small, used(2)) {
		t.Error("the running cost with a call before it")
	}
	if c := settleBy(t, b); c != 20 || p.charged != 20 || p.Headers(nil).Get("x-payment") != "0.000020" {
		t.Errorf("charged %s, the payer %s", c, p.charged)
	}
	if b.Release(); p.released != 1 {
		t.Errorf("released %d times", p.released)
	}
}

func settleBy(t *testing.T, b *Bill) policy.Micro {
	t.Helper()
	total := b.Total()
	r, err := b.Settle(t.Context(), &total, ledger.Charge{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Charged
}

// TestABalancePaysAndSaysWhatIsLeft, and the charges of callers without one are only booked.
func TestABalancePaysAndSaysWhatIsLeft(t *testing.T) {
	for _, row := range []struct {
		about    string
		who      policy.Principal
		reserved policy.Micro
		headers  string
	}{
		{"a prepaid key", policy.Principal{Account: "ada", Prepaid: true}, 50, "x-bardo-balance"},
		{"a key that is billed later", policy.Principal{Account: "ada"}, 0, ""},
		{"no key", policy.Principal{Anonymous: true}, 0, ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			s := &books{}
			p := (&Meter{Books: s}).PayerOf(&row.who)
			b := paidBy(p, s)
			if err := errors.Join(p.Admit(t.Context()), b.Reserve(t.Context(), 50)); err != nil || s.reserved != row.reserved {
				t.Errorf("reserved %s, %v", s.reserved, err)
			}
			b.Add(&small, chat.Usage{Output: 2, Final: true})
			if c := settleBy(t, b); c != 20 || len(s.booked) != 1 {
				t.Errorf("charged %s, %d bookings", c, len(s.booked))
			}
			if _, known := p.Balance(); known != row.who.Prepaid || p.Headers(nil).Has(row.headers) != row.who.Prepaid {
				t.Errorf("balance known: %v, headers %v", known, p.Headers(nil))
			}
			if b.Exceeds(&small, func() chat.Usage { t.Error("looked at"); return chat.Usage{} }) {
				t.Error("only the reservation limits it")
			}
		})
	}
}

// TestAStoredAnswerShowsABalanceOnlyOnceItWasRead: no call is owed, so no charge tells it.
func TestAStoredAnswerShowsABalanceOnlyOnceItWasRead(t *testing.T) {
	s := &books{}
	who := policy.Principal{Account: "ada", Prepaid: true}
	p := (&Meter{Books: s}).PayerOf(&who)
	b := paidBy(p, s)
	settleBy(t, b)
	if _, known := p.Balance(); known {
		t.Error("nothing was read or charged")
	}
	if err := p.ReadBalance(t.Context()); err != nil || p.Headers(nil).Get("x-bardo-balance") != "5.000000" || p.Headers(nil).Has("x-bardo-balance-warning") {
		t.Errorf("%v, headers %v", err, p.Headers(nil))
	}
}

func TestRefusalsSayHowMuchIsMissing(t *testing.T) {
	for _, row := range []struct {
		err  error
		want string
	}{
		{ledger.ErrAmount, "any balance holds"},
		{&ledger.InsufficientError{Blocked: true}, "blocked until a deposit"},
		{&ledger.InsufficientError{}, "is used up"},
		{&ledger.InsufficientError{Needed: 7, Available: -3}, "$0.000007 and $0.000000 is available"},
	} {
		f, ok := errors.AsType[*fault.Fault](unpaid(row.err))
		if !ok || f.Kind != fault.InsufficientFunds || !strings.Contains(f.Public, row.want) {
			t.Errorf("%v: %v", row.err, f)
		}
	}
	if err := errors.New("disk"); unpaid(err) != err || unpaid(nil) != nil { //nolint:errorlint // the same one
		t.Error("another error is left alone")
	}
}

// TestAReservationIsExtendedForASecondCall, by payers of whole accounts alone, and never by what is kept for critical requests.
func TestAReservationIsExtendedForASecondCall(t *testing.T) {
	b := &books{}
	of := func(p Payer) *Bill { return paidBy(p, b) }
	keys := New(quota.New(quota.Options{}), b, budget.NewMeter(budget.Options{}))
	bill := of(keys.PayerOf(&policy.Principal{Account: "ada", Prepaid: true}))
	if err := bill.Extend(t.Context(), 1); err == nil {
		t.Error("a request without a reservation")
	}
	if err := bill.Reserve(t.Context(), policy.USD); err != nil || bill.MaxCharge() != policy.USD {
		t.Fatal(err)
	}
	if err := bill.Extend(t.Context(), policy.USD); err != nil || b.reserved != 2*policy.USD {
		t.Errorf("%v: %d", err, b.reserved)
	}
	if err := bill.Extend(t.Context(), 4*policy.USD); err == nil || b.reserved != 2*policy.USD {
		t.Errorf("more than there is: %d", b.reserved)
	}
	bill.SetPriority(false, 3*policy.USD)
	if err := bill.Extend(t.Context(), 5*policy.USD/2); !errors.Is(err, errRetained) || b.reserved != 2*policy.USD {
		t.Errorf("of what is kept: %v, %d", err, b.reserved)
	}
	if err := of(keys.PayerOf(&policy.Principal{Account: "ada"})).Extend(t.Context(), policy.USD); err != nil {
		t.Errorf("a key without a balance: %v", err)
	}
	if err := of(&perRequest{paid: 9}).Extend(t.Context(), 1); !errors.Is(err, errNotExtended) {
		t.Errorf("a payment of one request: %v", err)
	}
}

// TestTheLoserOfTwoCallsDoesNotLimitTheCharge of the winner to the reservation, although its usage is estimated.
func TestTheLoserOfTwoCallsDoesNotLimitTheCharge(t *testing.T) {
	for side, want := range map[string]bool{Hedge: true, "l5": false} {
		b := &books{}
		bill := paidBy(&perRequest{}, b)
		bill.reserved = 1
		bill.AddSide(side, bill.request, &policy.Resolution{Prices: policy.Prices{Input: 10_000_000}}, chat.Usage{Input: 1000, Estimated: true})
		if got := bill.Total().Charged > 1; got != want {
			t.Errorf("%s: charged %d", side, bill.Total().Charged)
		}
	}
}
