package meter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
)

// heldBill returns a prepaid key's request with every kind of reservation: the key's one concurrency slot, its tokens and money of the day, its agent's
// budget, and its balance.
func heldBill(t *testing.T) (*Bill, *books) {
	t.Helper()
	p := &books{}
	b := &Bill{}
	rules := quota.Rules{MaxConcurrent: 1, Default: policy.Limits{TokensPerHour: 100, SpendPerDay: policy.USD}}
	b.Open(New(quota.New(quota.Options{Rules: rules}), p, budget.NewMeter(budget.Options{})), &request{most: 1000}, "req_1")
	charge(b, policy.Principal{Account: "ada", Prepaid: true}, 0)
	if err := b.Admit(t.Context(), &quota.Request{}); err != nil {
		t.Fatal(err)
	}
	if err := b.Hold(t.Context(), &quota.Request{Tokens: 50, Charge: policy.USD}); err != nil {
		t.Fatal(err)
	}
	b.Allowance = Allowance{Part: budget.Heartbeat, Limits: budget.Budgets{budget.Heartbeat: 500}}
	if _, _, err := b.Allowance.Enter(t.Context(), b.meter, time.Now(), ada, "heartbeat", 100); err != nil {
		t.Fatal(err)
	}
	if err := b.Reserve(t.Context(), policy.USD); err != nil {
		t.Fatal(err)
	}
	return b, p
}

var ada = budget.Agent{Account: "ada"}

// another returns what another request of the same key would find: the remaining tokens, and its agent's usage.
func another(t *testing.T, b *Bill, charge policy.Micro) (left int64, use budget.Use) {
	t.Helper()
	ask := &quota.Request{Principal: b.principal, Charge: charge}
	g, err := b.meter.Limiter.Admit(t.Context(), time.Now(), ask)
	if err != nil {
		t.Errorf("another request: %v", err)
	}
	if use, err = b.meter.Budgets.Look(t.Context(), time.Now(), ada, budget.Heartbeat); err != nil {
		t.Fatal(err)
	}
	return g.RemainingTokens, use
}

// TestASettledBillHoldsWhatItWasCharged, of each limit, and nothing more.
func TestASettledBillHoldsWhatItWasCharged(t *testing.T) {
	b, _ := heldBill(t)
	b.Add(&small, chat.Usage{Input: 20, Cached: 5, Output: 4, Final: true})
	c := settle(t, b)
	if left, use := another(t, b, policy.USD-c.Amount); left != 71 || use.Held != 0 || use.Spent != c.Amount || c.Amount == 0 {
		t.Errorf("charged %s; left are %d tokens, its agent has used %+v", c.Amount, left, use)
	}
	if b.Allowance.Left != 500-c.Amount {
		t.Errorf("%s are left of the budget", b.Allowance.Left)
	}
}

// TestAReleasedBillHoldsNothing of any limit.
func TestAReleasedBillHoldsNothing(t *testing.T) {
	b, p := heldBill(t)
	b.Release()
	if left, use := another(t, b, policy.USD); left != 100 || use != (budget.Use{}) || p.released != 1 || len(p.booked) != 0 {
		t.Errorf("left are %d tokens, its agent has used %+v, %d releases, booked %+v", left, use, p.released, p.booked)
	}
	(&Bill{}).Release() // of a request that was never admitted
}

// TestABudgetIsNeverLeftBelowNothing, and one without an end stays so.
func TestABudgetIsNeverLeftBelowNothing(t *testing.T) {
	for _, row := range []struct{ limit, want policy.Micro }{{500, 0}, {budget.Unlimited, budget.Unlimited}} {
		b, _ := open(t, &request{}, 0)
		b.Allowance = Allowance{Part: budget.Heartbeat, Limits: budget.Budgets{budget.Heartbeat: row.limit}, Left: row.limit}
		var err error
		decide := func(budget.Use) budget.Decision { return budget.Decision{} }
		if _, err = b.meter.Budgets.Enter(t.Context(), time.Now(), ada, budget.Heartbeat, 100, &b.Allowance.hold, decide); err != nil {
			t.Fatal(err)
		}
		if b.Allowance.done(700); b.Allowance.Left != row.want {
			t.Errorf("%d are left of %d, want %d", b.Allowance.Left, row.limit, row.want)
		}
	}
}

// TestAKeyWithoutABalanceReservesNothing.
func TestAKeyWithoutABalanceReservesNothing(t *testing.T) {
	p := &books{}
	b := &Bill{}
	b.Open(New(quota.New(quota.Options{}), p, budget.NewMeter(budget.Options{})), &request{most: 1000}, "req_1")
	charge(b, policy.Principal{Account: "ada"}, 0)
	if err := b.Reserve(t.Context(), policy.USD); err != nil || p.reserved != 0 {
		t.Errorf("reserved %s, %v", p.reserved, err)
	}
	b.Add(&small, chat.Usage{Input: 1, Final: true})
	if c := settle(t, b); c.Amount != 1 {
		t.Errorf("charged %s", c.Amount)
	}
}

// patient are books whose Capture stops with its context.
type patient struct{ books }

func (p *patient) Capture(ctx context.Context, h *ledger.Hold, c ledger.Charge) (ledger.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return ledger.Receipt{}, err
	}
	return p.books.Capture(ctx, h, c)
}

// TestAClientThatHangsUpIsChargedNevertheless: cancelling the context does not undo a settlement.
func TestAClientThatHangsUpIsChargedNevertheless(t *testing.T) {
	b, _ := open(t, &request{most: 1000}, 0)
	p := &patient{}
	b.payer.(*prepaid).books = p
	b.Add(&small, chat.Usage{Input: 1, Final: true})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	total := b.Total()
	if _, err := b.Settle(gone, &total, ledger.Charge{}); err != nil || len(p.booked) != 1 {
		t.Errorf("%v, booked %+v", err, p.booked)
	}
}

// TestD81WhatIsOnlyEstimatedOfReasoningIsBounded by the model's maximum output, and by the reservation.
func TestD81WhatIsOnlyEstimatedOfReasoningIsBounded(t *testing.T) {
	to := small
	to.MaxOutput = 30
	synctest.Test(t, func(t *testing.T) {
		b, _ := open(t, &request{input: 30, most: 1000, terms: Terms{Thinks: true}}, 0)
		b.reserved = 100
		b.Begin(&to, time.Now())
		<-time.After(2 * time.Second) // at 50 tokens per second
		open, since := b.InFlight()
		u := b.Interrupted(open, &Count{Reported: chat.Usage{Input: 50}}, since)
		if want := (chat.Usage{Input: 50, Output: 30, Reasoning: 30, Estimated: true, ReasoningEstimated: true}); u != want {
			t.Errorf("got  %+v\nwant %+v", u, want)
		}
		if b.Add(&to, u); settle(t, b).Amount != 100 {
			t.Errorf("charged %s, and 0.000100 was reserved", b.Total().Charged)
		}
	})
}

// TestWhatWasSeenIsBilledWhereNothingIsReported: a final report of zero output is ignored if there was some.
func TestWhatWasSeenIsBilledWhereNothingIsReported(t *testing.T) {
	c := Count{Reported: chat.Usage{Input: 9, Final: true}}
	c.Note(&chat.Event{Kind: chat.Text, Text: []byte("eight by")})
	c.Note(&chat.Event{Kind: chat.ToolArgs, Text: []byte("{}")})
	c.Note(&chat.Event{Kind: chat.Refusal, Text: []byte("no")})
	if u := c.Total(1); u.Input != 9 || u.Output != 3 || !u.Estimated {
		t.Errorf("%+v", u)
	}
}

// TestASumHasAllOfBoth.
func TestASumHasAllOfBoth(t *testing.T) {
	one := chat.Usage{Input: 1, Cached: 2, CacheWrite: 3, CacheWrite1h: 4, Output: 5, Reasoning: 6, Searches: 7, Cost: 8}
	for _, other := range []chat.Usage{{}, {Estimated: true, ReasoningEstimated: true, Final: true}} {
		want := chat.Usage{
			Input: 2, Cached: 4, CacheWrite: 6, CacheWrite1h: 8, Output: 10, Reasoning: 12, Searches: 14, Cost: 16,
			Estimated: other.Estimated, ReasoningEstimated: other.ReasoningEstimated, Final: other.Final,
		}
		other.Input, other.Cached, other.CacheWrite, other.CacheWrite1h, other.Output, other.Reasoning = 1, 2, 3, 4, 5, 6
		other.Searches, other.Cost = 7, 8
		if got := Sum(one, other); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if got := Sum(other, one); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

// TestD87WhatAProviderAsksIsBelievedUpToItsPrices: including its prices per request and for all searches.
func TestD87WhatAProviderAsksIsBelievedUpToItsPrices(t *testing.T) {
	const requests, searches = 5_000_000, 2_000_000 // 5 and 2 Micro each
	to := small
	to.Prices.PerRequest, to.Prices.PerSearch = requests, searches
	most := policy.Price(10_000_000).Cost(1000) + requests + searches*maxSearches
	for _, row := range []struct {
		asked, want policy.Pico
		capped      bool
	}{{most, most, false}, {most + 1, most, true}} {
		b, _ := open(t, &request{most: 1000}, 0)
		if capped := b.Add(&to, chat.Usage{Input: 1, Cost: row.asked}); capped != row.capped || b.Calls()[0].Cost != row.want {
			t.Errorf("asked for %d: %d, capped is %v", row.asked, b.Calls()[0].Cost, capped)
		}
	}
}

// TestWhatACallCosts on each of its terms.
func TestWhatACallCosts(t *testing.T) {
	to := small
	to.Prices.PerSearch = 7
	to.Prices.Tiers = map[string]policy.Prices{"priority": {Input: 30_000_000, PerSearch: 7, Known: true}}
	staked := to.Prices
	to.Staked = &staked
	for _, row := range []struct {
		name   string
		terms  Terms
		u      chat.Usage
		want   policy.Pico
		billed string
	}{
		{"by its tokens and searches", Terms{}, chat.Usage{Input: 2, Searches: 3}, 2_000_021, ""},
		{"as its provider says", Terms{}, chat.Usage{Input: 2, Searches: 3, Cost: 9}, 9, ""},
		{"paid by its caller", Terms{Direct: true}, chat.Usage{Input: 2, Cost: 9}, 0, ""},
		{"in the tier that was asked for", Terms{Tier: "priority"}, chat.Usage{Input: 2}, 60_000_000, "priority"},
		{"in the tier that was asked for, which the provider calls auto", Terms{Tier: "priority"}, chat.Usage{Input: 2, Tier: "auto"}, 60_000_000, "priority"},
		{"in the tier that it was served in", Terms{Tier: "priority"}, chat.Usage{Input: 2, Tier: "default"}, 2_000_000, ""},
		{"in a tier without a price", Terms{Tier: "scale"}, chat.Usage{Input: 2}, 2_000_000, ""},
	} {
		u := row.u
		if got := row.terms.Cost(&to, &u); got != row.want {
			t.Errorf("%s: %d, want %d", row.name, got, row.want)
		}
		if got := row.terms.BilledTier(&to, &u); got != row.billed {
			t.Errorf("%s: in %q, want %q", row.name, got, row.billed)
		}
	}
	b, _ := open(t, &request{most: 1000}, 20)
	b.Add(&small, chat.Usage{Input: 10, Final: true})
	b.Add(&to, chat.Usage{Input: 2, Final: true})
	if total := b.Total(); total.Staked != 2 { // of its call alone, without the spread
		t.Errorf("staked credit paid %s", total.Staked)
	}
}

// charge sets a principal as the payer of a bill.
func charge(b *Bill, p policy.Principal, spread int) { b.PaidBy(p, b.meter.PayerOf(&p), spread) }

// TestAFurtherCallHasToFitIntoTheBudget, with the request itself and besides what other requests hold.
func TestAFurtherCallHasToFitIntoTheBudget(t *testing.T) {
	b, _ := heldBill(t) // 100 of 500
	cover := func(a *Allowance, subsystem string, total policy.Micro) bool {
		return a.Cover(t.Context(), b.meter, time.Now(), ada, subsystem, total)
	}
	wantHeld := func(want policy.Micro) {
		t.Helper()
		if u, err := b.meter.Budgets.Look(t.Context(), time.Now(), ada, budget.Heartbeat); err != nil || u.Held != want {
			t.Errorf("%+v, %v, want %d held", u, err, want)
		}
	}
	second := Allowance{Part: b.Allowance.Part, Limits: b.Allowance.Limits}
	if cover(&second, "heartbeat", 401) || !cover(&second, "heartbeat", 300) {
		t.Error("another request got more than is left, or not what is left")
	}
	wantHeld(400)
	if cover(&b.Allowance, "heartbeat", 201) {
		t.Error("both hold more than the budget")
	}
	wantHeld(400)
	if !cover(&b.Allowance, "heartbeat", 200) {
		t.Error("the request does not get what is left")
	}
	wantHeld(500)
	if third := (Allowance{Part: b.Allowance.Part, Limits: b.Allowance.Limits}); cover(&third, budget.Deliberate, 0) {
		t.Error("a spent budget covers a call of a subsystem that it degrades")
	}
	second.done(0)
	b.Release()
	wantHeld(0)
	none := Allowance{Part: budget.Heartbeat, Limits: budget.Budgets{budget.Heartbeat: budget.Unlimited}}
	if !cover(&Allowance{}, "heartbeat", policy.USD) || !cover(&none, "heartbeat", policy.USD) {
		t.Error("a request without a budget is refused a call")
	}
}

// TestABudgetThatCannotBeReadCoversNothing.
func TestABudgetThatCannotBeReadCoversNothing(t *testing.T) {
	unread := func(context.Context, budget.Agent, time.Time) (map[string]policy.Micro, error) {
		return nil, context.Canceled
	}
	m := New(quota.New(quota.Options{}), &books{}, budget.NewMeter(budget.Options{Spent: unread}))
	a := Allowance{Part: budget.Heartbeat, Limits: budget.Budgets{budget.Heartbeat: policy.USD}, Left: 7}
	if a.Cover(t.Context(), m, time.Now(), ada, "heartbeat", 1) {
		t.Error("a call is covered")
	}
	if _, _, err := a.Enter(t.Context(), m, time.Now(), ada, "heartbeat", 1); err == nil || a.Left != 7 {
		t.Errorf("%v, %s left", err, a.Left)
	}
}

// TestARequestKnowsWhatItsBudgetHadLeft when it entered, and what was used of it.
func TestARequestKnowsWhatItsBudgetHadLeft(t *testing.T) {
	b, _ := heldBill(t)
	a := Allowance{Part: budget.Heartbeat, Limits: b.Allowance.Limits}
	if _, use, err := a.Enter(t.Context(), b.meter, time.Now(), ada, "heartbeat", 1); err != nil || use.Held != 100 || a.Left != 500 || !a.Limited() {
		t.Errorf("%v, %+v, %s left", err, use, a.Left)
	}
	if (&Allowance{Left: 5}).Limited() || (&Allowance{Part: budget.Heartbeat, Left: budget.Unlimited}).Limited() {
		t.Error("a request without a budget is limited")
	}
}

// TestOnlyABalanceIsReserved: of a key that is billed later nothing is held, and each charge is within what it reserves.
func TestOnlyABalanceIsReserved(t *testing.T) {
	b, _ := open(t, &request{most: 1000}, 0)
	if b.Held() != policy.USD || b.Reserved(policy.USD+1) || !b.Reserved(policy.USD) {
		t.Errorf("%s is held", b.Held())
	}
	charge(b, policy.Principal{Account: "ada"}, 0)
	if b.Held() != 0 || !b.Reserved(policy.USD+1) {
		t.Errorf("%s is held without a balance", b.Held())
	}
}

// TestAnEstimatedCallLimitsTheChargeOfAllCalls, also if another call follows whose usage is known.
func TestAnEstimatedCallLimitsTheChargeOfAllCalls(t *testing.T) {
	b, _ := open(t, &request{most: 100_000_000}, 0)
	b.Add(&small, chat.Usage{Input: 2_000_000, Estimated: true})
	b.Add(&small, chat.Usage{Input: 1, Final: true})
	if got := b.Total().Charged; got != policy.USD {
		t.Errorf("%s is charged, of a reserved dollar", got)
	}
}

// TestASearchBudgetIsChargedWhatWasSearched, at the provider's price; the rest of the reservation ends.
func TestASearchBudgetIsChargedWhatWasSearched(t *testing.T) {
	b, _ := open(t, &request{most: 1000}, 0)
	var cycles budget.Cycles
	cycle := budget.Cycle{Agent: ada, ID: "c"}
	if !b.HoldSearch(&cycles, cycle, 90, 100) {
		t.Fatal("the budget does not have what it has")
	}
	to := policy.Resolution{Prices: policy.Prices{PerSearch: 20_000_000}}
	b.Add(&to, chat.Usage{Searches: 2, Final: true})
	b.Release()
	b.Release()
	if cycles.Take(cycle, 61, 100) || !cycles.Take(cycle, 60, 100) {
		t.Error("the cycle has not spent 40 of 100")
	}
}
