package meter

import (
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// TestASideCallIsBilledAsWhatItIs: at its own prices and limits, in the request's charge, but not among the request's answers.
func TestASideCallIsBilledAsWhatItIs(t *testing.T) {
	main := &request{input: 1000, most: 100_000}
	side := &request{input: 50, most: 900}
	expensive, cheap := policy.Resolution{Provider: "a", Prices: policy.Prices{Input: 10, Output: 100}}, policy.Resolution{Provider: "b", Prices: policy.Prices{Input: 1, Output: 2}}
	b, _ := open(t, main, 0)
	if c, capped := b.AddSide("l5", side, &cheap, chat.Usage{Input: 500, Output: 100, Final: true}); capped || c.Cost != 700 || c.Side != "l5" {
		t.Errorf("%+v, capped: %v", c, capped)
	}
	if _, capped := b.AddSide("l5", side, &cheap, chat.Usage{Input: 5000, Output: 100, Final: true}); !capped {
		t.Error("more than the call can have used is believed")
	}
	if b.Answers() != 0 || b.SideCost() != 700+900 {
		t.Errorf("%d answers, %d for side calls", b.Answers(), b.SideCost())
	}
	answer := chat.Usage{Input: 1000, Output: 10, Final: true}
	if got := b.AnswersWith(&expensive, &answer); got.Cost != 11_000 || got.Usage.TotalInput() != 1000 {
		t.Errorf("the answer alone: %+v", got)
	}
	b.Add(&expensive, answer)
	if got := b.Total(); got.Cost != 11_000+1600 || b.Answers() != 1 {
		t.Errorf("in all: %+v", got)
	}
	if c := settle(t, b); c.ProviderCost != 12_600 {
		t.Errorf("charged: %+v", c)
	}
}

// TestD81AnInterruptedSideCallIsBilledAsFarAsItWent: with its own input, not the request's.
func TestD81AnInterruptedSideCallIsBilledAsFarAsItWent(t *testing.T) {
	b, _ := open(t, &request{input: 1000, most: 100_000}, 0)
	side := &request{input: 50, most: 900}
	to := policy.Resolution{Provider: "b", Prices: policy.Prices{Input: 1, Output: 2}}
	u := b.InterruptedSide(side, &to, nil, time.Now())
	if u.Input != 50 || u.Output != 0 || !u.Estimated {
		t.Errorf("%+v", u)
	}
	if c, _ := b.AddSide("l5", side, &to, u); c.Cost != 50 {
		t.Errorf("%+v", c)
	}
}

// TestOnlySideCallsAreSideCosts, and only the request's own calls its answers.
func TestOnlySideCallsAreSideCosts(t *testing.T) {
	b, _ := open(t, &request{most: 1000}, 0)
	to := policy.Resolution{Prices: policy.Prices{Input: 1, Output: 2}}
	b.Add(&to, chat.Usage{Input: 10, Final: true})
	b.AddSide("l5", &request{most: 1000}, &to, chat.Usage{Input: 7, Final: true})
	if b.SideCost() != 7 || b.AnswersWith(nil, nil).Cost != 10 || b.Total().Cost != 17 {
		t.Errorf("%d for side calls, %d for answers, %d in all", b.SideCost(), b.AnswersWith(nil, nil).Cost, b.Total().Cost)
	}
}

// TestAPaymentCoversItsAmount: without a limit of the payer everything is covered.
func TestAPaymentCoversItsAmount(t *testing.T) {
	b := paidBy(&perRequest{paid: 50}, &books{})
	if !b.Covers(50) || b.Covers(51) {
		t.Error("a payment of 50 does not cover 50, or covers 51")
	}
	if b, _ := open(t, &request{}, 0); !b.Covers(policy.USD * 1000) {
		t.Error("a balance has a limit before it is reserved")
	}
}
