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

// books records a payer's calls.
type books struct {
	reserved policy.Micro
	booked   []ledger.Charge
	released int
	waits    bool   // a reservation would block
	owner    string // owner of the standing reservation
	taken    int    // how often the standing reservation was taken
}

func (*books) Solvent(context.Context, policy.Account) error { return nil }

func (*books) Balance(context.Context, policy.Account) (ledger.Balance, error) {
	return ledger.Balance{Prepaid: true, Amount: 5 * policy.USD}, nil
}

func (p *books) Reserve(_ context.Context, _ policy.Account, _ string, amount policy.Micro) (*ledger.Hold, error) {
	p.reserved = amount
	return &ledger.Hold{}, nil
}

func (p *books) ReserveNow(_ policy.Account, _ string, amount policy.Micro) (*ledger.Hold, bool) {
	if p.waits {
		return nil, false
	}
	p.reserved = amount
	return &ledger.Hold{}, true
}

func (p *books) Extend(_ context.Context, _ *ledger.Hold, more policy.Micro) error {
	if p.reserved+more > 5*policy.USD {
		return &ledger.InsufficientError{}
	}
	p.reserved += more
	return nil
}

func (p *books) Immediate(policy.Account) bool { return !p.waits }

func (p *books) Capture(_ context.Context, _ *ledger.Hold, c ledger.Charge) (ledger.Receipt, error) {
	p.booked = append(p.booked, c)
	return ledger.Receipt{Charged: c.Amount}, nil
}

func (p *books) Record(c ledger.Charge) error {
	p.booked = append(p.booked, c)
	return nil
}

func (p *books) Release(*ledger.Hold) { p.released++ }

func (p *books) ConvertToStandingHold(_ context.Context, _ *ledger.Hold, owner string) error {
	p.owner = owner
	return nil
}

func (p *books) TakeStandingHold(context.Context, policy.Account, string) (*ledger.Hold, error) {
	p.taken++
	return &ledger.Hold{}, nil
}

// request is a request of a given length.
type request struct {
	input, most int64
	terms       Terms
}

func (r *request) Terms(*policy.Resolution) Terms { return r.terms }
func (r *request) InputTokens() int64             { return r.input }

func (*request) Subsystem() string                        { return "dream" }
func (r *request) MaxCallTokens(*policy.Resolution) int64 { return r.most }

// open makes the bill of a prepaid key's request, with a dollar reserved.
func open(t *testing.T, r *request, spread int) (*Bill, *books) {
	t.Helper()
	p := &books{}
	b := &Bill{}
	b.Open(New(quota.New(quota.Options{}), p, budget.NewMeter(budget.Options{})), r, "req_1")
	who := policy.Principal{Account: "ada", Prepaid: true}
	b.PaidBy(who, b.meter.PayerOf(&who), spread)
	if err := b.Admit(t.Context(), &quota.Request{}); err != nil {
		t.Fatal(err)
	}
	if err := b.Reserve(t.Context(), policy.USD); err != nil {
		t.Fatal(err)
	}
	return b, p
}

func settle(t *testing.T, b *Bill) ledger.Charge {
	t.Helper()
	total := b.Total()
	if _, err := b.Settle(t.Context(), &total, ledger.Charge{}); err != nil {
		t.Fatal(err)
	}
	return b.meter.Books.(*books).booked[0]
}

var small = policy.Resolution{Provider: "p", Model: "m", Prices: policy.Prices{Input: 1_000_000, Output: 10_000_000, Known: true}}

func TestABillChargesAllCallsOnceRoundedOnce(t *testing.T) {
	b, p := open(t, &request{input: 7, most: 1_000_000}, 20)
	b.Add(&small, chat.Usage{Input: 1, Output: 0, Final: true})
	b.Add(&small, chat.Usage{Input: 1, Output: 0, Final: true})
	c := settle(t, b)
	if c.Amount != 3 || c.ProviderCost != 2_000_000 || c.RequestID != "req_1" || c.Account != "ada" { // 2.4 are 3, and not 2 times 2
		t.Errorf("charged %+v", c)
	}
	total := b.Total()
	if r, err := b.Settle(t.Context(), &total, ledger.Charge{}); err != nil || !r.Repeated || len(p.booked) != 1 {
		t.Errorf("a second settlement: %+v, %v, %d bookings", r, err, len(p.booked))
	}
}

func TestARequestThatOwesNothingReleasesItsReservation(t *testing.T) {
	b, p := open(t, &request{most: 10}, 20)
	if c := settle(t, b); c.Amount != 0 || p.released == 0 {
		t.Errorf("charged %+v, released %d times", c, p.released)
	}
}

// TestD87AProvidersUsageIsCapped: impossible usage is not charged, and is reported.
func TestD87AProvidersUsageIsCapped(t *testing.T) {
	for _, row := range []struct {
		name   string
		used   chat.Usage
		want   chat.Usage
		capped bool
	}{
		{"what is possible", chat.Usage{Input: 800, Output: 200}, chat.Usage{Input: 800, Output: 200}, false},
		{"output beyond", chat.Usage{Input: 800, Output: 9e15}, chat.Usage{Input: 800, Output: 200}, true},
		{"input beyond", chat.Usage{Input: 9e15, Output: 5}, chat.Usage{Input: 1000}, true},
		{"all beyond", chat.Usage{Input: 9e15, Cached: 9e18, CacheWrite: 9e18, CacheWrite1h: 9e18, Output: 9e18, Reasoning: 9e18}, chat.Usage{Input: 1000}, true},
		{"below zero", chat.Usage{Input: -5, Output: -1, Searches: -3, Reasoning: -2}, chat.Usage{}, true},
		{"searches beyond", chat.Usage{Searches: 9e15}, chat.Usage{Searches: maxSearches}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, _ := open(t, &request{most: 1000}, 0)
			if capped := b.Add(&small, row.used); capped != row.capped {
				t.Errorf("capped is %v", capped)
			}
			if got := b.Calls()[0].Usage; got != row.want {
				t.Errorf("billed is %+v, want %+v", got, row.want)
			}
			if c := settle(t, b); c.Amount < 0 || c.Amount > 10_000 {
				t.Errorf("charged %s", c.Amount)
			}
		})
	}
}

// TestD87AProvidersOwnCostIsCapped at the maximum cost of the tokens that a call can use.
func TestD87AProvidersOwnCostIsCapped(t *testing.T) {
	b, _ := open(t, &request{most: 1000}, 0)
	if !b.Add(&small, chat.Usage{Input: 1, Cost: 1_000_000 * 1_000_000_000_000}) {
		t.Error("a million dollars for one token are believed")
	}
	if c := settle(t, b); c.Amount != 10_000 {
		t.Errorf("charged %s", c.Amount)
	}
}

// TestD81InterruptedCalls: an interrupted call owes its input, what was delivered, and the reasoning that was possible in the elapsed time.
func TestD81InterruptedCalls(t *testing.T) {
	for _, row := range []struct {
		name   string
		thinks bool
		count  *Count
		want   chat.Usage
	}{
		{"nothing came", false, nil, chat.Usage{Input: 30, Estimated: true}},
		{"nothing came of one that reasons", true, nil, chat.Usage{Input: 30, Output: 100, Reasoning: 100, Estimated: true, ReasoningEstimated: true}},
		{"the input was reported", false, &Count{Reported: chat.Usage{Input: 50}}, chat.Usage{Input: 50}},
		{"some output", false, &Count{output: 40}, chat.Usage{Input: 30, Output: 10, Estimated: true}},
		{"some output, which shows its reasoning", true, &Count{output: 40, thoughts: 20}, chat.Usage{Input: 30, Output: 10, Reasoning: 5, Estimated: true, ReasoningEstimated: true}},
		{"all was reported", true, &Count{Reported: chat.Usage{Input: 50, Output: 9, Final: true}}, chat.Usage{Input: 50, Output: 9, Final: true}},
		{"a report before the end", false, &Count{Reported: chat.Usage{Input: 50, Output: 2, Final: true}, output: 40, reported: 8}, chat.Usage{Input: 50, Output: 10, Estimated: true}},
		{"a report behind what came", false, &Count{Reported: chat.Usage{Input: 50, Output: 2, Final: true}, output: 40, reported: 40}, chat.Usage{Input: 50, Output: 2, Final: true}},
		{"a report that is held back", false, &Count{received: chat.Usage{Input: 20, Cached: 40, Output: 1}}, chat.Usage{Input: 20, Cached: 40, Output: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := open(t, &request{input: 30, most: 1000, terms: Terms{Thinks: row.thinks}}, 0)
				b.Begin(&small, time.Now())
				<-time.After(2 * time.Second) // at 50 tokens per second
				to, since := b.InFlight()
				if got := b.Interrupted(to, row.count, since); got != row.want {
					t.Errorf("got  %+v\nwant %+v", got, row.want)
				}
			})
		})
	}
}

// TestAReportIsOfWhatCameBeforeIt.
func TestAReportIsOfWhatCameBeforeIt(t *testing.T) {
	var c Count
	word := chat.Event{Kind: chat.Text, Text: []byte("eight by")}
	last := chat.Event{Kind: chat.UsageInfo, Usage: chat.Usage{Input: 9, Output: 1, Final: true}}
	c.Note(&word)
	c.Note(&last)
	if u := c.interrupted(5); u.Output != 1 || !u.Final {
		t.Errorf("%+v, want what was reported", u)
	}
	c.Note(&word)
	if u := c.interrupted(5); u.Output != 4 || u.Final || !u.Estimated {
		t.Errorf("%+v, want what was seen", u)
	}
	if u := c.Total(5); u.Output != 1 || !u.Final {
		t.Errorf("%+v of a complete answer, want what was reported", u)
	}
}

// TestD81TheSpeedOfAModelIsLearned from its complete answers.
func TestD81TheSpeedOfAModelIsLearned(t *testing.T) {
	m := New(quota.New(quota.Options{}), &books{}, budget.NewMeter(budget.Options{}))
	if n := m.written(&small, time.Second); n != DefaultRate {
		t.Errorf("%d tokens per second of a model that nobody knows", n)
	}
	m.Learn(&small, 10, time.Second)        // too short to tell
	m.Learn(&small, 1000, time.Millisecond) // too fast to be true
	m.Learn(&small, 1000, 10*time.Second)   // 100
	m.Learn(&small, 2000, 10*time.Second)   // 200, of which a fifth counts
	if n := m.written(&small, time.Second); n != 120 {
		t.Errorf("%d tokens per second, want 120", n)
	}
}

// TestD81AnEstimateIsCappedByTheReservation, and what was reported is not.
func TestD81AnEstimateIsCappedByTheReservation(t *testing.T) {
	for _, final := range []bool{false, true} {
		b, _ := open(t, &request{most: 1 << 40}, 0)
		b.Add(&small, chat.Usage{Output: 1_000_000, Final: final, Estimated: !final})
		want := policy.USD
		if final {
			want *= 10
		}
		if c := settle(t, b); c.Amount != want {
			t.Errorf("final=%v: charged %s, want %s", final, c.Amount, want)
		}
	}
}

// TestC15WhatACacheSavesCountsPremiumsLengthsAndTiers: what the calls would have cost without it, less what they cost.
func TestC15WhatACacheSavesCountsPremiumsLengthsAndTiers(t *testing.T) {
	to := policy.Resolution{Provider: "p", Model: "m", Prices: policy.Prices{
		Input: 10, CachedInput: 1, CacheWrite: 12, CacheWrite1h: 20, Output: 50, PerRequest: 7, Known: true,
		Above: []policy.Above{{Tokens: 1000, Input: 20, CachedInput: 2, CacheWrite: 25, CacheWrite1h: 40, Output: 100}},
		Tiers: map[string]policy.Prices{"priority": {Input: 30, CachedInput: 3, CacheWrite: 36, CacheWrite1h: 60, Output: 90, Known: true}},
	}}
	for _, row := range []struct {
		name   string
		calls  []chat.Usage
		direct bool
		want   policy.Pico
	}{
		{"read", []chat.Usage{{Input: 10, Cached: 100, Output: 5}}, false, 100 * 9},
		{"read and written", []chat.Usage{{Cached: 100, CacheWrite: 10, CacheWrite1h: 5}}, false, 100*9 - 10*2 - 5*10},
		{"written alone", []chat.Usage{{CacheWrite: 10}}, false, -20},
		{"a long prompt", []chat.Usage{{Input: 1000, Cached: 100}}, false, 100 * 18},
		{"a dearer tier", []chat.Usage{{Cached: 100, Tier: "priority"}}, false, 100 * 27},
		{"two calls, each of its length", []chat.Usage{{Cached: 900}, {Cached: 900}}, false, 2 * 900 * 9},
		{"the caller's own key", []chat.Usage{{Cached: 100}}, true, 0},
	} {
		b, _ := open(t, &request{most: 1 << 40, terms: Terms{Direct: row.direct}}, 20)
		for _, u := range row.calls {
			b.Add(&to, u)
		}
		if got := b.CacheSaved(); got != row.want {
			t.Errorf("%s: %d, want %d", row.name, got, row.want)
		}
	}
}
