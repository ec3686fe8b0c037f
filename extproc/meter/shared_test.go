package meter

import (
	"context"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/spend"
)

// team is a project with a dollar a month, whose callers are billed later.
type team struct {
	*testing.T
	meter *Meter
}

func newTeam(t *testing.T) *team {
	t.Helper()
	m := New(quota.New(quota.Options{}), &books{}, budget.NewMeter(budget.Options{}))
	m.Shared = spend.New(func(context.Context, policy.Budget, time.Time) (policy.Micro, error) { return 0, nil })
	return &team{t, m}
}

func (*team) member() policy.Principal {
	return policy.Principal{Account: "ada", Budgets: []policy.Budget{{Holder: policy.OfProject, ID: "p", PerMonth: policy.USD}}}
}

// bill makes the bill of a request.
func (s *team) bill() *Bill {
	s.Helper()
	b := &Bill{}
	b.Open(s.meter, &request{most: 1 << 40}, "req_1")
	who := s.member()
	b.PaidBy(who, s.meter.PayerOf(&who), 0)
	return b
}

// want checks whether a step is refused because of the budget.
func (s *team) want(what string, err error, refused bool) {
	s.Helper()
	if refused != (err != nil) || refused && fault.From(err).Kind != fault.BudgetExceeded {
		s.Errorf("%s: %v, want refused %v", what, err, refused)
	}
}

// wantLeft checks what further requests may cost.
func (s *team) wantLeft(amount policy.Micro) {
	s.Helper()
	for _, row := range []struct {
		cost    policy.Micro
		refused bool
	}{{amount, false}, {amount + 1, true}} {
		for name, step := range map[string]func(*Bill, context.Context, *quota.Request) error{"admission": (*Bill).Admit, "hold": (*Bill).Hold} {
			b := s.bill()
			s.want(name, step(b, s.Context(), &quota.Request{Charge: row.cost}), row.refused)
			b.Release()
		}
	}
}

func (s *team) settle(b *Bill, output int64) {
	s.Helper()
	if output > 0 {
		b.Add(&small, chat.Usage{Output: output, Final: true})
	}
	settle(s.T, b)
	b.Release()
}

// TestASharedBudgetLimitsItsRequests by what they may cost while they run, and by what they cost afterwards.
func TestASharedBudgetLimitsItsRequests(t *testing.T) {
	s := newTeam(t)
	if s.bill().Immediate(&quota.Request{}) {
		t.Error("the spending of others is not known yet, and nothing waits for it")
	}
	first := s.bill()
	s.want("admission", first.Admit(t.Context(), &quota.Request{Charge: policy.USD / 10}), false)
	s.want("hold", first.Hold(t.Context(), &quota.Request{Charge: policy.USD / 2}), false)
	if !s.bill().Immediate(&quota.Request{}) {
		t.Error("the spending of others was just read")
	}
	s.wantLeft(policy.USD / 2)
	s.settle(first, 20_000) // 0.20
	s.wantLeft(policy.USD * 8 / 10)
	cancelled := s.bill()
	s.want("hold", cancelled.Hold(t.Context(), &quota.Request{Charge: policy.USD / 2}), false)
	cancelled.Release()
	s.wantLeft(policy.USD * 8 / 10)
	for _, ask := range []quota.Request{{Class: quota.Lookup, Charge: policy.USD}, {MayBeFree: true, Charge: policy.USD}} {
		s.want("admission of a request that may cost nothing", s.bill().Admit(t.Context(), &ask), false)
	}
}

// TestASharedBudgetCountsRequestsThatItDoesNotLimit: critical ones, and those that were limited when they were accepted.
func TestASharedBudgetCountsRequestsThatItDoesNotLimit(t *testing.T) {
	s := newTeam(t)
	critical := s.bill()
	s.want("admission", critical.Admit(t.Context(), &quota.Request{Charge: policy.USD / 2}), false)
	critical.SetPriority(true, 0)
	s.want("hold", critical.Hold(t.Context(), &quota.Request{Charge: 5 * policy.USD}), false)
	s.wantLeft(policy.USD)
	s.settle(critical, 10_000)
	s.wantLeft(policy.USD * 9 / 10)
	deferred := &Bill{}
	deferred.Open(s.meter, &request{most: 1 << 40}, "req_2")
	deferred.PaidDeferred(s.member(), 0)
	s.settle(deferred, 10_000)
	s.wantLeft(policy.USD * 8 / 10)
}

// TestAnAcceptedRequestHoldsNothingOfASharedBudget: its money is a standing hold, and its charge is counted by the run that answers it.
func TestAnAcceptedRequestHoldsNothingOfASharedBudget(t *testing.T) {
	s := newTeam(t)
	b := s.bill()
	s.want("hold", b.Hold(t.Context(), &quota.Request{Charge: policy.USD / 2}), false)
	if err := b.ConvertToStandingHold(t.Context(), "me", 7); err != nil {
		t.Fatal(err)
	}
	s.wantLeft(policy.USD)
}

// TestAReleaseReturnsTheSearchesOfACycle that were not made.
func TestAReleaseReturnsTheSearchesOfACycle(t *testing.T) {
	s := newTeam(t)
	var cycles budget.Cycles
	cycle := budget.Cycle{ID: "c"}
	b := s.bill()
	if !b.HoldSearch(&cycles, cycle, 10, 10) || s.bill().HoldSearch(&cycles, cycle, 1, 10) {
		t.Error("the cycle's budget does not limit it")
	}
	b.Release()
	if !s.bill().HoldSearch(&cycles, cycle, 10, 10) {
		t.Error("the searches were not returned")
	}
	b.Release()
	if s.bill().HoldSearch(&cycles, cycle, 1, 10) {
		t.Error("the searches were returned twice")
	}
}

// TestD81OnlyEstimatesAreCappedByTheReservation: that of a call with a given price too, and not a final report whose parts are estimated.
func TestD81OnlyEstimatesAreCappedByTheReservation(t *testing.T) {
	b, _ := open(t, &request{most: 1 << 40}, 0)
	b.Add(&small, chat.Usage{Output: 1_000_000, Final: true, Estimated: true})
	if c := settle(t, b); c.Amount != 10*policy.USD {
		t.Errorf("charged %s", c.Amount)
	}
	b, _ = open(t, &request{most: 1 << 40}, 0)
	if err := b.Hold(t.Context(), &quota.Request{Charge: 2 * policy.USD}); err != nil || b.Held() != 2*policy.USD {
		t.Errorf("%v, %s", err, b.Held())
	}
	b.AddPriced(&small, chat.Usage{Estimated: true}, policy.Pico(5*policy.USD)*1_000_000)
	if c := settle(t, b); c.Amount != 2*policy.USD {
		t.Errorf("charged %s", c.Amount)
	}
}
