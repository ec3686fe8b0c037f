package meter

import (
	"context"
	"net/netip"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
)

// TestADeferredRequestIsChargedToWhatStands: its run reserves nothing and refuses nothing, and takes the standing reservation once, when it charges.
func TestADeferredRequestIsChargedToWhatStands(t *testing.T) {
	b, p := open(t, &request{most: 1000}, 0)
	if err := b.ConvertToStandingHold(t.Context(), "me", 7); err != nil || p.owner != "me" || b.Held() != policy.USD {
		t.Fatalf("%v, stands for %q, held %s", err, p.owner, b.Held())
	}
	m := New(quota.New(quota.Options{}), p, budget.NewMeter(budget.Options{}))
	run := &Bill{}
	run.Open(m, &request{most: 1000}, "req_1")
	who := policy.Principal{Account: "ada", Prepaid: true}
	run.PaidDeferred(who, 0)
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

// TestAnAcceptedRequestCountsItsInput against its caller's allowance, once, and needs no reservation.
func TestAnAcceptedRequestCountsItsInput(t *testing.T) {
	p := &books{}
	b := &Bill{}
	b.Open(New(quota.New(quota.Options{}), p, budget.NewMeter(budget.Options{})), &request{most: 1000}, "req_1")
	who := policy.Principal{Account: "ada", Prepaid: true, Limits: policy.Limits{TokensPerHour: 1000}}
	b.PaidBy(who, b.meter.PayerOf(&who), 0)
	if err := b.Admit(t.Context(), &quota.Request{Tokens: 500}); err != nil {
		t.Fatal(err)
	}
	if err := b.ConvertToStandingHold(t.Context(), "me", 7); err != nil || p.owner != "" {
		t.Errorf("%v, stands for %q without a reservation", err, p.owner)
	}
	b.Release()
	b.LookUpStanding(netip.Addr{})
	if s := b.Standing(); s.TokensPerHour != 1000 || s.RemainingTokens != 993 {
		t.Errorf("%+v", s)
	}
}

// TestARunThatOwesNothingTakesNothing of the standing reservation, which another run may need.
func TestARunThatOwesNothingTakesNothing(t *testing.T) {
	_, p := open(t, &request{most: 1000}, 0)
	m := New(quota.New(quota.Options{}), p, budget.NewMeter(budget.Options{}))
	run := &Bill{}
	run.Open(m, &request{most: 1000}, "req_1")
	who := policy.Principal{Account: "ada", Prepaid: true}
	run.PaidDeferred(who, 0)
	total := run.Total()
	if _, err := run.Settle(t.Context(), &total, ledger.Charge{}); err != nil || p.taken != 0 {
		t.Errorf("%v, taken %d times", err, p.taken)
	}
}

// oneTime is a payer that must be present for the charge.
type oneTime struct{ Payer }

func TestWhoPaysByRequestCannotBeDeferred(t *testing.T) {
	b := &Bill{payer: oneTime{}}
	if err := b.ConvertToStandingHold(context.Background(), "me", 1); err == nil {
		t.Error("no error")
	}
}

// TestADeferredAnswerCountsBeyondTheInputThatCountedBefore: the input of further calls, too; a run without a call counts nothing.
func TestADeferredAnswerCountsBeyondTheInputThatCountedBefore(t *testing.T) {
	for about, row := range map[string]struct {
		calls []chat.Usage
		want  int64
	}{
		"one call":                       {[]chat.Usage{{Input: 100, Output: 40, Final: true}}, 50},
		"two calls":                      {[]chat.Usage{{Input: 100, Output: 40, Final: true}, {Input: 120, Output: 1, Final: true}}, 171},
		"an estimate that was too large": {[]chat.Usage{{Input: 60, Output: 40, Final: true}}, 40},
		"no call":                        {nil, 0},
	} {
		m := New(quota.New(quota.Options{Rules: quota.Rules{Default: policy.Limits{TokensPerHour: 1000}}}), &books{}, budget.NewMeter(budget.Options{}))
		run := &Bill{}
		run.Open(m, &request{input: 90, most: 1_000_000}, "req_1")
		run.PaidDeferred(policy.Principal{Account: "ada"}, 0)
		for _, u := range row.calls {
			run.Add(&small, u)
		}
		total := run.Total()
		if _, err := run.Settle(t.Context(), &total, ledger.Charge{}); err != nil {
			t.Fatal(err)
		}
		if s := run.Standing(); s.RemainingTokens != 1000-row.want {
			t.Errorf("%s: %d tokens remain, want %d", about, s.RemainingTokens, 1000-row.want)
		}
	}
}

// TestARunOfAKeyThatIsBilledLaterTakesNoReservation: its charge is only booked.
func TestARunOfAKeyThatIsBilledLaterTakesNoReservation(t *testing.T) {
	p := &books{}
	run := &Bill{}
	run.Open(New(quota.New(quota.Options{}), p, budget.NewMeter(budget.Options{})), &request{most: 1000}, "req_1")
	run.PaidDeferred(policy.Principal{Account: "ada"}, 0)
	run.Add(&small, chat.Usage{Input: 100, Final: true})
	if c := settle(t, run); p.taken != 0 || c.Amount != 100 {
		t.Errorf("taken %d times, charged %s", p.taken, c.Amount)
	}
}
