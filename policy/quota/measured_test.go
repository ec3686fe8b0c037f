package quota

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

// measure parses the expression of a quota.
func measure(tb testing.TB, text string) *rule.Measure {
	tb.Helper()
	m, err := rule.ParseMeasure(text)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// weighted is a quota of 1000 per minute, in which a token of the answer counts five times.
func weighted(tb testing.TB) Quota {
	tb.Helper()
	return Quota{Name: "weighted", Per: PerKey, Window: time.Minute, Limit: Millionths(1000), Cost: measure(tb, "input_tokens - cached_tokens + 5 * output_tokens")}
}

// using is a request of ada that may use so many tokens.
func using(input, output int64) *Request {
	return &Request{Principal: ada, Usage: []rule.Usage{{Input: input, Output: output, Model: "m", Provider: "p"}}}
}

// mustHold admits a request, and holds what it may count.
func mustHold(t *testing.T, l *Limiter, now time.Time, req *Request) *Grant {
	t.Helper()
	g := mustAdmit(t, l, now, req)
	if err := l.Hold(t.Context(), now, req, &g); err != nil {
		t.Fatal(err)
	}
	return &g
}

// wantExceeded checks that a quota refuses a request: the text and the time to wait.
func wantExceeded(t *testing.T, l *Limiter, now time.Time, req *Request, text string, after time.Duration) *fault.Fault {
	t.Helper()
	g := mustAdmit(t, l, now, req)
	defer g.Done(now, 0, 0)
	err := l.Hold(t.Context(), now, req, &g)
	f, isFault := errors.AsType[*fault.Fault](err)
	_, isQuota := errors.AsType[*Exceeded](err)
	if !isFault || !isQuota {
		t.Fatalf("%v, want a refusal: %q", err, text)
	}
	if f.Kind != fault.RateLimited || !strings.Contains(f.Public, text) || f.RetryAfter != after {
		t.Fatalf("%v after %v, want %q after %v", err, f.Wait(), text, after)
	}
	return f
}

// end ends a request that used so many tokens.
func end(g *Grant, now time.Time, u rule.Usage) {
	g.Measure(now, &u)
	g.Done(now, 0, 0)
}

func TestAQuotaHoldsTheHighestCountAndKeepsTheActualOne(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{weighted(t)}}})
	first := mustHold(t, l, morning, using(100, 100))
	wantExceeded(t, l, morning, using(100, 100), "the requests under way hold what is left of the quota weighted of 1000 per 1m", time.Second)
	end(first, morning, rule.Usage{Input: 100, Cached: 50, Output: 10})
	second := mustHold(t, l, morning, using(100, 160))
	end(second, morning, rule.Usage{Input: 100, Output: 160})
	at := morning.Add(20 * time.Second)
	if f := wantExceeded(t, l, at, using(1, 0), "the quota weighted of 1000 per 1m is used up", 40*time.Second); f.Final || !f.Plain {
		t.Errorf("%+v", f)
	}
	end(mustHold(t, l, morning.Add(time.Minute), using(1000, 0)), morning.Add(time.Minute), rule.Usage{Input: 900})
	wantExceeded(t, l, morning.Add(time.Minute), using(101, 0), "this request may count 101, but 100 are left of the quota weighted of 1000 per 1m", time.Minute)
	if f := wantExceeded(t, l, morning.Add(2*time.Minute), using(1, 200), "this request may count 1001, more than the quota weighted of 1000 per 1m allows", time.Minute); !f.Final {
		t.Error("a retry cannot help")
	}
	mustHold(t, l, morning.Add(2*time.Minute), using(500, 100)).Done(morning, 0, 0)
	mustHold(t, l, morning.Add(2*time.Minute), using(500, 100)).Done(morning, 0, 0)
}

func TestAQuotaCountsPerScope(t *testing.T) {
	one, other := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("10.1.2.4")
	who := func(account, project, owner string) policy.Principal {
		return policy.Principal{Account: policy.Account(account), Project: project, Owner: owner}
	}
	for _, row := range []struct {
		per        Scope
		first      policy.Principal
		second     policy.Principal
		from, then netip.Addr
		together   bool
	}{
		{PerKey, who("a", "", ""), who("a", "", ""), one, other, true},
		{PerKey, who("a", "p", "o"), who("b", "p", "o"), one, one, false},
		{PerKey, policy.Principal{}, policy.Principal{}, one, one, true},
		{PerKey, policy.Principal{}, policy.Principal{}, one, other, false},
		{PerAddress, who("a", "", ""), who("b", "", ""), one, one, true},
		{PerAddress, who("a", "", ""), who("a", "", ""), one, other, false},
		{PerProject, who("a", "p", ""), who("b", "p", ""), one, other, true},
		{PerProject, who("a", "p", ""), who("a", "q", ""), one, one, false},
		{PerProject, who("a", "", ""), who("a", "", ""), one, one, false},
		{PerOwner, who("a", "p", "o"), who("b", "q", "o"), one, other, true},
		{PerOwner, who("a", "p", "o"), who("a", "p", "x"), one, one, false},
		{PerOwner, who("a", "p", ""), who("a", "p", ""), one, one, false},
		{PerAll, who("a", "", ""), policy.Principal{}, one, other, true},
	} {
		q := weighted(t)
		q.Per = row.per
		l := limiter(t, Options{Rules: Rules{Quotas: []Quota{q}}})
		first, second := using(600, 0), using(600, 0)
		first.Principal, first.Client, second.Principal, second.Client = row.first, row.from, row.second, row.then
		mustHold(t, l, morning, first)
		g := mustAdmit(t, l, morning, second)
		if err := l.Hold(t.Context(), morning, second, &g); (err != nil) != row.together {
			t.Errorf("%+v: %v", row, err)
		}
		g.Done(morning, 0, 0)
	}
}

func TestAConditionSelectsTheRequestsOfAQuota(t *testing.T) {
	q := weighted(t)
	var err error
	if q.When, err = rule.ParseFilter("model == 'dear' || subsystem == 'dream'"); err != nil {
		t.Fatal(err)
	}
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{q}}})
	end(mustHold(t, l, morning, using(9000, 9000)), morning, rule.Usage{Model: "m", Input: 9000})
	req := using(900, 0)
	req.Usage = append(req.Usage, rule.Usage{Input: 900, Model: "dear"})
	end(mustHold(t, l, morning, req), morning, rule.Usage{Model: "m", Input: 900}) // it was not the one that answered
	end(mustHold(t, l, morning, using(1, 0)), morning, rule.Usage{Model: "dear", Input: 500})
	wantExceeded(t, l, morning, req, "500 are left", time.Minute)
	req = using(900, 0)
	req.Usage[0].Subsystem = "dream"
	wantExceeded(t, l, morning, req, "500 are left", time.Minute)
}

func TestAQuotaExpectsTheMostExpensiveParts(t *testing.T) {
	for cost, most := range map[string]float64{
		"input_tokens - cached_tokens":          1000,
		"cached_tokens * 3":                     3000,
		"input_tokens + 2 * cache_write_tokens": 3000,
		"cached_tokens + cache_write_tokens":    1000,
		"output_tokens + reasoning_tokens * 4":  500,
		"output_tokens - reasoning_tokens":      100,
		"cost_usd * 2.0":                        0.5,
		"model == 'dear' ? 7 : 1":               7,
		"1":                                     1,
		"-5 * input_tokens":                     0,
		"1000 - total_tokens":                   1000, // it may use nothing
		"output_tokens < 50 ? input_tokens : 0": 1000,
		"cost_usd > 0.1 ? 0 : output_tokens":    100,
		"input_tokens > 500 ? 0 : 1":            1,
		"10000 / (reasoning_tokens == output_tokens && output_tokens == 100 ? 0 : 100)": 100, // a part without a value
	} {
		q := Quota{Cost: measure(t, cost)}
		got, err := q.most([]rule.Usage{{Input: 1000, Output: 100, CostUSD: 0.25}, {Input: 1000, Output: 100, CostUSD: 0.25, Model: "dear"}})
		if err != nil || got != Millionths(most) {
			t.Errorf("%s: %v, %v, want %v", cost, decimal(got), err, most)
		}
	}
	q := Quota{Cost: measure(t, "1 / (model == 'odd' ? 0 : 1)")}
	if got, err := q.most([]rule.Usage{{Output: 7, Model: "odd"}}); err == nil {
		t.Errorf("no value at all: %v", got)
	}
}

func TestAQuotaWithoutAValueRefuses(t *testing.T) {
	q := weighted(t)
	q.Cost = nil
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{q}}})
	g := mustAdmit(t, l, morning, using(1, 1))
	if err := l.Hold(t.Context(), morning, using(1, 1), &g); fault.From(err).Kind != fault.Internal || !strings.Contains(fault.From(err).Public, "the quota weighted cannot be evaluated") {
		t.Error(err)
	}
}

// TestAUsageWithoutAValueCountsWhatWasHeld.
func TestAUsageWithoutAValueCountsWhatWasHeld(t *testing.T) {
	q := weighted(t)
	q.Cost = measure(t, "600 / (output_tokens == 7 ? 0 : 1)")
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{q}}})
	end(mustHold(t, l, morning, using(1, 1)), morning, rule.Usage{Output: 7})
	wantExceeded(t, l, morning, using(1, 1), "400 are left", time.Minute)
}

func TestD55ExemptRequestsAreCountedAndNotRefused(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{weighted(t)}}})
	exempt := using(0, 1000)
	exempt.Exempt = true
	g := mustHold(t, l, morning, exempt)
	wantExceeded(t, l, morning, using(1, 0), "the requests under way hold what is left", time.Second)
	end(g, morning, rule.Usage{Input: 700})
	wantExceeded(t, l, morning, using(301, 0), "300 are left", time.Minute)
	end(mustHold(t, l, morning, exempt), morning, rule.Usage{Output: 1000})
	wantExceeded(t, l, morning, using(1, 0), "is used up", time.Minute)
}

// TestARequestHoldsAQuotaOnce, although its highest usage is known better and better.
func TestARequestHoldsAQuotaOnce(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{weighted(t)}}})
	g := mustHold(t, l, morning, using(300, 0))
	for _, input := range []int64{900, 900, 400} {
		if err := l.Hold(t.Context(), morning, using(input, 0), g); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Hold(t.Context(), morning, using(1001, 0), g); err == nil {
		t.Error("more than the quota")
	}
	other := mustHold(t, l, morning, using(600, 0))
	wantExceeded(t, l, morning, using(1, 0), "the requests under way hold", time.Second)
	other.Done(morning, 0, 0)
	none := using(0, 0)
	none.Usage = nil
	if err := l.Hold(t.Context(), morning, none, g); err != nil {
		t.Fatal(err)
	}
	mustHold(t, l, morning, using(1000, 0)).Done(morning, 0, 0)
	g.Done(morning, 0, 0)
	g.Done(morning, 0, 0)
	g = mustHold(t, l, morning, using(1000, 0))
	if err := l.Hold(t.Context(), morning, using(0, 0), g); err != nil {
		t.Fatal(err)
	}
	mustHold(t, l, morning, using(1000, 0)).Done(morning, 0, 0)
	g.Done(morning, 0, 0)
	k, _ := g.limiter.rules.Load().Quotas[0].key(&ada, netip.Addr{})
	if l.shared != nil {
		s := l.shared.ofQuota(k)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.own != (hold{}) {
			t.Errorf("%+v is still held", s.own)
		}
		return
	}
	mu, u := l.quotas.lock(k)
	defer mu.Unlock()
	if u.busy() || u.heldTokens != 0 {
		t.Errorf("%d requests still hold %d", u.active, u.heldTokens)
	}
}

// TestARefusalByOneQuotaLeavesNothingHeldInAnother.
func TestARefusalByOneQuotaLeavesNothingHeldInAnother(t *testing.T) {
	small := weighted(t)
	small.Name, small.Limit = "small", Millionths(100)
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{weighted(t), small}}})
	for range 3 {
		wantExceeded(t, l, morning, using(900, 0), "more than the quota small of 100 per 1m", time.Minute)
	}
	l.SetRules(Rules{Quotas: []Quota{weighted(t)}})
	mustHold(t, l, morning, using(1000, 0))
}

// TestAQuotaThatIsUsedUpForLongIsFinal: clients' libraries do not wait for more than a minute.
func TestAQuotaThatIsUsedUpForLongIsFinal(t *testing.T) {
	daily := weighted(t)
	daily.Window = 24 * time.Hour
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{daily}}})
	end(mustHold(t, l, morning, using(1000, 0)), morning, rule.Usage{Input: 1000})
	midnight := morning.Truncate(24 * time.Hour).Add(24 * time.Hour)
	for _, before := range []time.Duration{time.Minute + time.Second, time.Minute} {
		if f := wantExceeded(t, l, midnight.Add(-before), using(1, 0), "is used up", before); f.Final != (before > time.Minute) {
			t.Errorf("%s before its end: final is %v", before, f.Final)
		}
	}
}

// TestEachQuotaHoldsItsOwnAmount: a later hold changes each quota's own, and after a refusal by the first the others keep theirs.
func TestEachQuotaHoldsItsOwnAmount(t *testing.T) {
	input, output := weighted(t), weighted(t)
	input.Name, input.Cost = "input", measure(t, "input_tokens")
	output.Name, output.Cost = "output", measure(t, "output_tokens")
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{input, output}}})
	g := mustHold(t, l, morning, using(100, 500))
	if err := l.Hold(t.Context(), morning, using(200, 600), g); err != nil {
		t.Fatal(err)
	}
	wantExceeded(t, l, morning, using(801, 0), "quota input", time.Second)
	wantExceeded(t, l, morning, using(0, 401), "quota output", time.Second)
	if err := l.Hold(t.Context(), morning, using(1001, 1000), g); err == nil {
		t.Fatal("more than the first quota")
	}
	mustHold(t, l, morning, using(800, 400)).Done(morning, 0, 0)
	g.Done(morning, 0, 0)
	mustHold(t, l, morning, using(1000, 1000)).Done(morning, 0, 0)
}

func TestReloadedQuotasKeepTheirCounters(t *testing.T) {
	q := weighted(t)
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{q}}})
	end(mustHold(t, l, morning, using(800, 0)), morning, rule.Usage{Input: 800})
	pending := mustHold(t, l, morning, using(200, 0))
	raised := weighted(t)
	raised.Limit = Millionths(1500)
	l.SetRules(Rules{Quotas: []Quota{raised}})
	wantExceeded(t, l, morning, using(501, 0), "the requests under way", time.Second)
	l.SetRules(Rules{})
	mustHold(t, l, morning, using(1<<40, 0)).Done(morning, 0, 0)
	end(pending, morning, rule.Usage{Input: 200})
	l.SetRules(Rules{Quotas: []Quota{q}})
	wantExceeded(t, l, morning, using(1, 0), "is used up", time.Minute)
	q.Window = time.Hour
	l.SetRules(Rules{Quotas: []Quota{q}})
	mustHold(t, l, morning, using(1000, 0))
}

// TestADeferredRequestCountsItsInputAndThenTheRest.
func TestADeferredRequestCountsItsInputAndThenTheRest(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{weighted(t)}}})
	end(mustHold(t, l, morning, using(100, 100)), morning, rule.Usage{Input: 100})
	l.CountQuotas(morning, &ada, &rule.Usage{Input: 110, Output: 10}, &rule.Usage{Input: 100})
	l.CountQuotas(morning, &ada, &rule.Usage{Input: 10}, &rule.Usage{Input: 100})
	wantExceeded(t, l, morning, using(841, 0), "840 are left", time.Minute)
}

func TestAmountsOfQuotasNeverOverflow(t *testing.T) {
	q := weighted(t)
	q.Limit, q.Cost = Millionths(math.MaxFloat64), measure(t, "double(input_tokens) * 1e290 + cost_usd")
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{q}}})
	free := using(0, 0)
	for range 12 { // with which a sum of 64 bits is negative
		end(mustHold(t, l, morning, free), morning, rule.Usage{Input: 1 << 40})
	}
	l.CountQuotas(morning, &ada, &rule.Usage{Input: 1 << 40}, &rule.Usage{})
	wantExceeded(t, l, morning, using(1, 0), "is used up", time.Minute)
	free.Exempt, free.Usage[0].Input = true, 1<<40
	for range 20 {
		mustHold(t, l, morning.Add(time.Minute), free)
	}
	wantExceeded(t, l, morning.Add(time.Minute), using(1, 0), "the requests under way", time.Second)
	for n, want := range map[float64]int64{-1: 0, 0.0000004: 0, 0.25: 250_000, math.Inf(1): 1e18} {
		if got := Millionths(n); got != want {
			t.Errorf("%v: %d", n, got)
		}
	}
}

// TestRequestsAtTheSameTimeCannotExceedAQuota.
func TestRequestsAtTheSameTimeCannotExceedAQuota(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{weighted(t)}}})
	var wait sync.WaitGroup
	var mu sync.Mutex
	var used, refused int64
	for range 40 {
		wait.Go(func() {
			req := using(50, 20) // at most 150 each
			g, err := l.Admit(context.Background(), morning, req)
			if err != nil {
				t.Error(err)
				return
			}
			err = l.Hold(context.Background(), morning, req, &g)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused++
				g.Done(morning, 0, 0)
				return
			}
			used += 150
			end(&g, morning, rule.Usage{Input: 50, Output: 20})
		})
	}
	wait.Wait()
	if used > 1000 || used < 900 || refused != 40-used/150 {
		t.Errorf("used %d of 1000, %d refused", used, refused)
	}
}

func TestRequestsOfQuotasInAStoreWaitForIt(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{Quotas: []Quota{weighted(t)}}})
	if got := l.Immediate(morning, using(1, 1)); got != (l.shared == nil) {
		t.Errorf("immediate: %v", got)
	}
	if !l.HasQuotas() {
		t.Error("it has quotas")
	}
}

func BenchmarkQuotas(b *testing.B) {
	q := weighted(b)
	q.Limit = Millionths(1e9)
	req := using(1000, 100)
	for range 4 {
		req.Usage = append(req.Usage, req.Usage[0])
	}
	for name, quotas := range map[string][]Quota{"none": nil, "one": {q}} {
		l := limiter(b, Options{Rules: Rules{Quotas: quotas}})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				g, _ := l.Admit(context.Background(), morning, req)
				_ = l.Hold(context.Background(), morning, req, &g)
				g.Measure(morning, &rule.Usage{})
				g.Done(morning, 0, 0)
			}
		})
	}
}
