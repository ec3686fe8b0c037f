package meter

import (
	"context"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
)

// TestADeferredRequestIsChargedToWhatStands: its run reserves nothing and refuses nobody, and takes what stands once, when it charges.
func TestADeferredRequestIsChargedToWhatStands(t *testing.T) {
	b, p := open(t, &request{most: 1000}, 0)
	if err := b.Stand(t.Context(), "me", 7); err != nil || p.owner != "me" || b.Held() != policy.USD {
		t.Fatalf("%v, stands for %q, held %s", err, p.owner, b.Held())
	}
	m := New(quota.New(quota.Options{}), p, budget.NewMeter(budget.Options{}))
	run := &Bill{}
	run.Open(m, &request{most: 1000}, "req_1")
	who := policy.Principal{Account: "ada", Prepaid: true}
	run.Charge(who, m.LaterPayerOf(&who), 0)
	p.reserved = 0
	if err := run.Reserve(t.Context(), 5*policy.USD); err != nil || !run.ReserveNow(5*policy.USD) || p.reserved != 0 || run.Payer().Admit(t.Context()) != nil {
		t.Errorf("%v, reserved %s", err, p.reserved)
	}
	run.Add(&small, chat.Usage{Input: 100, Output: 100, Final: true})
	total := run.Total()
	if _, err := run.Settle(t.Context(), &total, ledger.Charge{}); err != nil || p.taken != 1 || len(p.booked) != 1 || p.booked[0].Amount != total.Charged {
		t.Errorf("%v, taken %d times, booked %+v", err, p.taken, p.booked)
	}
	run.Release()
}

// TestARunThatOwesNothingTakesNothing of what stands, which another run may need.
func TestARunThatOwesNothingTakesNothing(t *testing.T) {
	_, p := open(t, &request{most: 1000}, 0)
	m := New(quota.New(quota.Options{}), p, budget.NewMeter(budget.Options{}))
	run := &Bill{}
	run.Open(m, &request{most: 1000}, "req_1")
	who := policy.Principal{Account: "ada", Prepaid: true}
	run.Charge(who, m.LaterPayerOf(&who), 0)
	total := run.Total()
	if _, err := run.Settle(t.Context(), &total, ledger.Charge{}); err != nil || p.taken != 0 {
		t.Errorf("%v, taken %d times", err, p.taken)
	}
}

// oneTime is a payer that has to be present.
type oneTime struct{ Payer }

func TestWhoPaysByRequestCannotBeDeferred(t *testing.T) {
	b := &Bill{payer: oneTime{}}
	if err := b.Stand(context.Background(), "me", 1); err == nil {
		t.Error("no error")
	}
}
