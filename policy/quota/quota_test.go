package quota

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

var (
	morning = time.Date(2026, 3, 14, 9, 15, 0, 0, time.UTC)
	ada     = policy.Principal{Account: "ada"}
)

// Stored creates the store of a test that runs with one.
var Stored func(tb testing.TB) Store

// limiter is New, with a store if TestTogether runs the test.
func limiter(tb testing.TB, o Options) *Limiter {
	tb.Helper()
	if Stored != nil && strings.HasPrefix(tb.Name(), "TestTogether/") {
		o.Store = Stored(tb)
	}
	l := New(o)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	return l
}

// generation is a request of p.
func generation(p policy.Principal, tokens int64, charge policy.Micro) *Request {
	return &Request{Principal: p, Tokens: tokens, Charge: charge}
}

func limited(l policy.Limits) policy.Principal {
	p := ada
	p.Limits = l
	return p
}

func mustAdmit(t *testing.T, l *Limiter, now time.Time, req *Request) Grant {
	t.Helper()
	g, err := l.Admit(t.Context(), now, req)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func wantRefusal(t *testing.T, l *Limiter, now time.Time, req *Request, kind fault.Kind, after time.Duration) {
	t.Helper()
	_, err := l.Admit(t.Context(), now, req)
	var f *fault.Fault
	if !errors.As(err, &f) {
		t.Fatalf("error %v, want %s", err, kind)
	}
	if f.Kind != kind || f.RetryAfter != after {
		t.Fatalf("%v after %v, want %s after %v", f, f.RetryAfter, kind, after)
	}
}

func TestRateAllowsAFullMinuteAtOnceThenOneAtATime(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{Default: policy.Limits{RPM: 100}}})
	req := generation(ada, 0, 0)
	for range 100 {
		mustAdmit(t, l, morning, req)
	}
	const next = 600 * time.Millisecond
	wantRefusal(t, l, morning, req, fault.RateLimited, next)
	wantRefusal(t, l, morning.Add(next-1), req, fault.RateLimited, 1)
	mustAdmit(t, l, morning.Add(next), req)
	wantRefusal(t, l, morning.Add(next), req, fault.RateLimited, next)
	for range 100 {
		mustAdmit(t, l, morning.Add(next+time.Minute), req)
	}
	wantRefusal(t, l, morning.Add(next+time.Minute), req, fault.RateLimited, next)
}

// Requests of a burst read the clock before they get the caller's lock, so one may have an earlier time than the one before
// it.
func TestTheLastPlaceOfABurstIsGivenWhateverTheOrderOfItsClocks(t *testing.T) {
	for _, class := range []Class{Generation, Lookup} {
		l := limiter(t, Options{Rules: Rules{Default: policy.Limits{RPM: 100}}})
		req := &Request{Principal: ada, Class: class}
		places := 100
		if class == Lookup {
			places *= lookupFactor
		}
		for range places - 1 {
			mustAdmit(t, l, morning.Add(time.Millisecond), req)
		}
		mustAdmit(t, l, morning, req)
		share := time.Minute / time.Duration(places)
		wantRefusal(t, l, morning, req, fault.RateLimited, share)
	}
}

func TestAClockThatWasSetBackIsFollowed(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{Default: policy.Limits{RPM: 1}}})
	req := generation(ada, 0, 0)
	mustAdmit(t, l, morning, req)
	earlier := morning.Add(-time.Hour)
	wantRefusal(t, l, earlier, req, fault.RateLimited, time.Minute)
	mustAdmit(t, l, earlier.Add(time.Minute), req)
}

func TestLookupsHaveTenTimesTheRateOfTheirOwn(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{Default: policy.Limits{RPM: 2}, MaxConcurrent: 1}})
	look := &Request{Principal: ada, Class: Lookup}
	for range 20 {
		mustAdmit(t, l, morning, look)
	}
	wantRefusal(t, l, morning, look, fault.RateLimited, 3*time.Second)
	mustAdmit(t, l, morning, generation(ada, 0, 0))
}

func TestLookupsDoNotCountAgainstTokensOrSpend(t *testing.T) {
	l := limiter(t, Options{})
	p := limited(policy.Limits{TokensPerHour: 1, SpendPerDay: 1})
	g := mustAdmit(t, l, morning, generation(p, 1, 1))
	g.Done(morning, 1, 1)
	mustAdmit(t, l, morning, &Request{Principal: p, Class: Lookup, Tokens: 5, Charge: 5})
	wantRefusal(t, l, morning, generation(p, 1, 1), fault.AllowanceExhausted, 45*time.Minute)
}

// TestLookupsHoldNothingAndReadNothing: their end ends no generation, and they are served while the spend cannot be read.
func TestLookupsHoldNothingAndReadNothing(t *testing.T) {
	l := limiter(t, Options{
		Rules: Rules{MaxConcurrent: 1},
		SpentSince: func(context.Context, policy.Account, time.Time) (policy.Micro, error) {
			return 0, errors.New("disk full")
		},
	})
	under := mustAdmit(t, l, morning, generation(ada, 0, 0))
	look := mustAdmit(t, l, morning, &Request{Principal: limited(policy.Limits{SpendPerDay: 1}), Class: Lookup})
	look.Done(morning, 0, 0)
	wantRefusal(t, l, morning, generation(ada, 0, 0), fault.RateLimited, time.Second)
	under.Done(morning, 0, 0)
	mustAdmit(t, l, morning, generation(ada, 0, 0))
}

func TestWhoseLimitHolds(t *testing.T) {
	for _, c := range []struct {
		name         string
		own, general int
		want         int // admitted requests of a burst of 10
	}{
		{"none at all", 0, 0, 10},
		{"the default", 0, 3, 3},
		{"the key's own", 2, 3, 2},
		{"the key's own without a default", 2, 0, 2},
		{"the key is unlimited", policy.Unlimited, 3, 10},
		{"the default is unlimited", 0, policy.Unlimited, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := limiter(t, Options{Rules: Rules{Default: policy.Limits{RPM: c.general}}})
			got := 0
			for range 10 {
				if _, err := l.Admit(t.Context(), morning, generation(limited(policy.Limits{RPM: c.own}), 0, 0)); err == nil {
					got++
				}
			}
			if got != c.want {
				t.Errorf("%d admitted, want %d", got, c.want)
			}
		})
	}
}

func TestCallersAreToldApart(t *testing.T) {
	bob := policy.Principal{Account: "bob"}
	anonymous := policy.Principal{Anonymous: true}
	at := func(p policy.Principal, addr string) *Request {
		return &Request{Principal: p, Client: netip.MustParseAddr(addr)}
	}
	for _, c := range []struct {
		name          string
		first, second *Request
		same          bool
	}{
		{"one key from two addresses", at(ada, "10.0.0.1"), at(ada, "10.0.0.2"), true},
		{"two keys from one address", at(ada, "10.0.0.1"), at(bob, "10.0.0.1"), false},
		{"a key and an anonymous client", at(ada, "10.0.0.1"), at(anonymous, "10.0.0.1"), false},
		{"two addresses", at(anonymous, "10.0.0.1"), at(anonymous, "10.0.0.2"), false},
		{"one address in two spellings", at(anonymous, "10.0.0.1"), at(anonymous, "::ffff:10.0.0.1"), true},
		{"one IPv6 network", at(anonymous, "2001:db8::1"), at(anonymous, "2001:db8::2:1"), true},
		{"two IPv6 networks", at(anonymous, "2001:db8::1"), at(anonymous, "2001:db8:0:1::1"), false},
		{"no account and no address", &Request{}, &Request{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := limiter(t, Options{Rules: Rules{Default: policy.Limits{RPM: 1}}})
			mustAdmit(t, l, morning, c.first)
			if _, err := l.Admit(t.Context(), morning, c.second); (err != nil) != c.same {
				t.Errorf("error %v, want refused: %v", err, c.same)
			}
		})
	}
}

func TestConcurrencyIsHeldUntilDone(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{MaxConcurrent: 2}})
	req := generation(ada, 0, 0)
	first, second := mustAdmit(t, l, morning, req), mustAdmit(t, l, morning, req)
	wantRefusal(t, l, morning, req, fault.RateLimited, time.Second)
	first.Done(morning, 0, 0)
	first.Done(morning, 0, 0) // counts once
	third := mustAdmit(t, l, morning, req)
	wantRefusal(t, l, morning, req, fault.RateLimited, time.Second)
	second.Done(morning, 0, 0)
	third.Done(morning, 0, 0)
	mustAdmit(t, l, morning, req)
}

func TestK70FiveConcurrentRequestsWithABudgetForOne(t *testing.T) {
	l := limiter(t, Options{})
	p := limited(policy.Limits{SpendPerDay: policy.USD})
	var (
		admitted, refused atomic.Int64
		all               sync.WaitGroup
	)
	for range 5 {
		all.Go(func() {
			_, err := l.Admit(t.Context(), morning, generation(p, 10, policy.USD*6/10))
			switch {
			case err == nil:
				admitted.Add(1)
			case fault.From(err).Kind == fault.BudgetExceeded:
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if admitted.Load() != 1 || refused.Load() != 4 {
		t.Errorf("%d admitted, %d refused; want 1 and 4", admitted.Load(), refused.Load())
	}
}

func TestK70WhatWasNotSpentIsFreeAgain(t *testing.T) {
	l := limiter(t, Options{})
	req := generation(limited(policy.Limits{SpendPerDay: policy.USD}), 10, policy.USD*6/10)
	g := mustAdmit(t, l, morning, req)
	wantRefusal(t, l, morning, req, fault.BudgetExceeded, time.Second) // the first one may cost less
	g.Done(morning, 10, policy.USD/10)
	g = mustAdmit(t, l, morning, req)
	g.Done(morning, 10, policy.USD*6/10)
	wantRefusal(t, l, morning, req, fault.BudgetExceeded, 14*time.Hour+45*time.Minute) // until UTC midnight
}

func TestK71NoStaleRefusal(t *testing.T) {
	t.Run("spend limit raised", func(t *testing.T) {
		l := limiter(t, Options{})
		g := mustAdmit(t, l, morning, generation(limited(policy.Limits{SpendPerDay: 10}), 0, 10))
		g.Done(morning, 0, 10)
		wantRefusal(t, l, morning, generation(limited(policy.Limits{SpendPerDay: 10}), 0, 1), fault.BudgetExceeded, 14*time.Hour+45*time.Minute)
		mustAdmit(t, l, morning, generation(limited(policy.Limits{SpendPerDay: 11}), 0, 1))
	})
	t.Run("spend limit removed", func(t *testing.T) {
		l := limiter(t, Options{Rules: Rules{Default: policy.Limits{SpendPerDay: 5}}})
		wantRefusal(t, l, morning, generation(ada, 0, 6), fault.BudgetExceeded, 14*time.Hour+45*time.Minute)
		mustAdmit(t, l, morning, generation(limited(policy.Limits{SpendPerDay: policy.Unlimited}), 0, 6))
		l.SetRules(Rules{})
		mustAdmit(t, l, morning, generation(ada, 0, 6))
	})
	t.Run("a new day", func(t *testing.T) {
		l := limiter(t, Options{})
		req := generation(limited(policy.Limits{SpendPerDay: 10}), 0, 10)
		g := mustAdmit(t, l, morning, req)
		g.Done(morning, 0, 10)
		midnight := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
		wantRefusal(t, l, midnight.Add(-time.Second), req, fault.BudgetExceeded, time.Second)
		mustAdmit(t, l, midnight, req)
	})
	t.Run("allowance raised", func(t *testing.T) {
		l := limiter(t, Options{})
		g := mustAdmit(t, l, morning, generation(limited(policy.Limits{TokensPerHour: 100}), 0, 0))
		g.Done(morning, 100, 0)
		wantRefusal(t, l, morning, generation(limited(policy.Limits{TokensPerHour: 100}), 0, 0), fault.AllowanceExhausted, 45*time.Minute)
		mustAdmit(t, l, morning, generation(limited(policy.Limits{TokensPerHour: 101}), 0, 0))
	})
	t.Run("rate raised", func(t *testing.T) {
		l := limiter(t, Options{})
		for range 10 {
			mustAdmit(t, l, morning, generation(limited(policy.Limits{RPM: 10}), 0, 0))
		}
		raised := generation(limited(policy.Limits{RPM: 100}), 0, 0)
		for range 90 {
			mustAdmit(t, l, morning, raised)
		}
		wantRefusal(t, l, morning, raised, fault.RateLimited, 600*time.Millisecond)
	})
	t.Run("rate lowered", func(t *testing.T) {
		l := limiter(t, Options{})
		for range 10 {
			mustAdmit(t, l, morning, generation(limited(policy.Limits{RPM: 100}), 0, 0))
		}
		wantRefusal(t, l, morning, generation(limited(policy.Limits{RPM: 6}), 0, 0), fault.RateLimited, 10*time.Second)
	})
	t.Run("none set is never refused", func(t *testing.T) {
		l := limiter(t, Options{})
		for range 1000 {
			g := mustAdmit(t, l, morning, generation(ada, 1e15, 1e15))
			g.Done(morning, 1e15, 1e15)
		}
	})
}

func TestK72TheRequestThatCrossesTheLineCompletes(t *testing.T) {
	l := limiter(t, Options{})
	req := generation(limited(policy.Limits{TokensPerHour: 1000}), 100, 0)
	g := mustAdmit(t, l, morning, req)
	if s := g.Standing; s.RemainingTokens != 1000 || !s.Reset.Equal(morning.Add(45*time.Minute)) {
		t.Errorf("at first %+v", s)
	}
	if s := g.Done(morning, 999, 0); s.RemainingTokens != 1 {
		t.Errorf("before the line %+v", s)
	}
	g = mustAdmit(t, l, morning, req)
	if s := g.Done(morning.Add(time.Second), 5000, 0); s.RemainingTokens != 0 {
		t.Errorf("behind the line %+v", s)
	}
	wantRefusal(t, l, morning.Add(15*time.Minute), req, fault.AllowanceExhausted, 30*time.Minute)
	g = mustAdmit(t, l, morning.Add(45*time.Minute), req)
	if g.RemainingTokens != 1000 {
		t.Errorf("in the new hour %+v", g.Standing)
	}
}

func TestK72RequestsUnderWayHoldTheirInput(t *testing.T) {
	l := limiter(t, Options{})
	req := generation(limited(policy.Limits{TokensPerHour: 100}), 60, 0)
	first := mustAdmit(t, l, morning, req)
	mustAdmit(t, l, morning, req)
	wantRefusal(t, l, morning, req, fault.AllowanceExhausted, 45*time.Minute)
	first.Done(morning, 0, 0) // it failed: its input does not count
	mustAdmit(t, l, morning, req)
}

func TestOverageIsServedWhereItIsBilled(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{BillOverage: true}})
	req := generation(limited(policy.Limits{TokensPerHour: 10}), 0, 0)
	for range 3 {
		g := mustAdmit(t, l, morning, req)
		if s := g.Done(morning, 10, 0); s.RemainingTokens != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// TestAnUpdatedHoldCountsOnce: a request is admitted by its headers, and its hold is updated once its body was read.
func TestAnUpdatedHoldCountsOnce(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{MaxConcurrent: 2}})
	p := limited(policy.Limits{RPM: 2, TokensPerHour: 1000, SpendPerDay: 10})
	first := mustAdmit(t, l, morning, generation(p, 0, 0))
	if err := l.Hold(t.Context(), morning, generation(p, 600, 6), &first); err != nil {
		t.Fatal(err)
	}
	second := mustAdmit(t, l, morning, generation(p, 0, 0)) // within rate and concurrency
	wantHeld := func(tokens int64, charge policy.Micro, kind fault.Kind, after time.Duration) {
		t.Helper()
		err := l.Hold(t.Context(), morning, generation(p, tokens, charge), &second)
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != kind || f.RetryAfter != after {
			t.Fatalf("error %v, want %s after %v", err, kind, after)
		}
	}
	wantHeld(1, 5, fault.BudgetExceeded, time.Second) // the first may cost less
	wantHeld(1, 11, fault.BudgetExceeded, 14*time.Hour+45*time.Minute)
	for range 2 { // the second hold replaces the first
		if err := l.Hold(t.Context(), morning, generation(p, 300, 4), &second); err != nil {
			t.Fatal(err)
		}
	}
	first.Done(morning, 600, 6)
	if s := second.Done(morning, 300, 4); s.RemainingTokens != 100 {
		t.Errorf("%+v", s)
	}
	wantRefusal(t, l, morning, generation(p, 0, 0), fault.BudgetExceeded, 14*time.Hour+45*time.Minute)
	var none Grant
	if err := l.Hold(t.Context(), morning, generation(p, 1, 99), &none); err != nil {
		t.Errorf("a grant that nothing was counted for: %v", err)
	}
}

// TestP13WhatMayBeFreeIsNotRefusedForMoneyByItsHeaders: only rate and concurrency are checked.
func TestP13WhatMayBeFreeIsNotRefusedForMoneyByItsHeaders(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{MaxConcurrent: 1}})
	p := limited(policy.Limits{RPM: 3, TokensPerHour: 10, SpendPerDay: 10})
	spent := mustAdmit(t, l, morning, generation(p, 0, 0))
	spent.Done(morning, 10, 10)
	req := generation(p, 0, 0)
	wantRefusal(t, l, morning, req, fault.AllowanceExhausted, 45*time.Minute)
	req.MayBeFree = true
	free := mustAdmit(t, l, morning, req)
	wantRefusal(t, l, morning, req, fault.RateLimited, time.Second) // one at a time
	if err := l.Hold(t.Context(), morning, req, &free); fault.From(err).Kind != fault.AllowanceExhausted {
		t.Errorf("got %v", err)
	}
	free.Done(morning, 0, 0)
	free = mustAdmit(t, l, morning, req)
	free.Done(morning, 0, 0)
	wantRefusal(t, l, morning, req, fault.RateLimited, 20*time.Second)
}

func TestD84PrepaidPrincipalsHaveARateOfTheirOwn(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{PrepaidRPM: 2}})
	prepaid := policy.Principal{Account: "bob", Prepaid: true}
	for range 10 {
		mustAdmit(t, l, morning, generation(ada, 0, 0))
		mustAdmit(t, l, morning, &Request{Client: netip.MustParseAddr("127.0.0.1")})
	}
	mustAdmit(t, l, morning, generation(prepaid, 0, 0))
	mustAdmit(t, l, morning, generation(prepaid, 0, 0))
	wantRefusal(t, l, morning, generation(prepaid, 0, 0), fault.RateLimited, 30*time.Second)
	prepaid.Limits.RPM = policy.Unlimited
	mustAdmit(t, l, morning, generation(prepaid, 0, 0))
}

// TestTheStandingSaysWhatIsLeftOfTheRate after a request, whether that was admitted or not.
func TestTheStandingSaysWhatIsLeftOfTheRate(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{Default: policy.Limits{RPM: 3}}})
	want := func(s Standing, rpm, left int, reset time.Duration) {
		t.Helper()
		n, in := s.Requests(morning)
		if s.RequestsPerMinute != rpm || n != left || in != reset {
			t.Errorf("%d left of %d, all of them in %v; want %d, %d, %v", n, s.RequestsPerMinute, in, left, rpm, reset)
		}
	}
	want(l.Standing(morning, ada, netip.Addr{}), 3, 3, 0)
	for left := 2; left >= 0; left-- {
		want(mustAdmit(t, l, morning, generation(ada, 0, 0)).Standing, 3, left, time.Duration(3-left)*20*time.Second)
	}
	g, err := l.Admit(t.Context(), morning, generation(ada, 0, 0))
	if err == nil {
		t.Fatal("it was let pass")
	}
	want(g.Standing, 3, 0, time.Minute)
	want(mustAdmit(t, l, morning, &Request{Principal: ada, Class: Lookup}).Standing, 30, 29, 2*time.Second)
	s := g.Standing
	if n, in := s.Requests(morning.Add(30 * time.Second)); n != 1 || in != 30*time.Second {
		t.Errorf("later: %d in %v", n, in)
	}
	if n, in := (&Standing{RequestsPerMinute: 1 << 60}).Requests(morning); n != 1<<60 || in != 0 {
		t.Errorf("of a great rate: %d in %v", n, in)
	}
}

func TestARefusedRequestCountsNowhere(t *testing.T) {
	l := limiter(t, Options{})
	p := limited(policy.Limits{RPM: 2, SpendPerDay: 10})
	for range 5 {
		wantRefusal(t, l, morning, generation(p, 0, 11), fault.BudgetExceeded, 14*time.Hour+45*time.Minute)
	}
	mustAdmit(t, l, morning, generation(p, 0, 5))
	mustAdmit(t, l, morning, generation(p, 0, 5))
}

func TestStandingCountsNothing(t *testing.T) {
	l := limiter(t, Options{})
	p := limited(policy.Limits{RPM: 1, TokensPerHour: 7})
	for range 3 {
		if s := l.Standing(morning, p, netip.Addr{}); s.RemainingTokens != 7 || s.TokensPerHour != 7 {
			t.Errorf("%+v", s)
		}
	}
	g := mustAdmit(t, l, morning, generation(p, 0, 0))
	g.Done(morning, 5, 0)
	if s := l.Standing(morning, p, netip.Addr{}); s.RemainingTokens != 2 {
		t.Errorf("after a request of 5 tokens %+v", s)
	}
	if s := l.Standing(morning, ada, netip.Addr{}); s != (Standing{}) {
		t.Errorf("without an allowance %+v", s)
	}
}

func TestSpendBeforeTheRestartCounts(t *testing.T) {
	reads := 0
	l := limiter(t, Options{SpentSince: func(_ context.Context, a policy.Account, since time.Time) (policy.Micro, error) {
		reads++
		if a != "ada" || !since.Equal(time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)) {
			return 0, fmt.Errorf("asked for %s since %v", a, since)
		}
		return 9, nil
	}})
	g := mustAdmit(t, l, morning, generation(ada, 0, 3)) // no limit: nothing is read
	g.Done(morning, 0, 3)
	if reads != 0 {
		t.Error("spend was read for a key without a limit")
	}
	p := limited(policy.Limits{SpendPerDay: 10})
	wantRefusal(t, l, morning, generation(p, 0, 2), fault.BudgetExceeded, 14*time.Hour+45*time.Minute)
	mustAdmit(t, l, morning, generation(p, 0, 1))
	if reads != 1 {
		t.Errorf("%d reads, want 1", reads)
	}
}

func TestSpendOfOtherProcessesCountsWithinASecond(t *testing.T) {
	stored, reads := policy.Micro(0), 0
	l := limiter(t, Options{SpentSince: func(context.Context, policy.Account, time.Time) (policy.Micro, error) {
		reads++
		return stored, nil
	}})
	p := limited(policy.Limits{SpendPerDay: 10})
	g := mustAdmit(t, l, morning, generation(p, 0, 3))
	stored = 3
	g.Done(morning, 0, 3)
	stored += 6 // by another process
	mustAdmit(t, l, morning.Add(maxSpendingAge-1), generation(p, 0, 7))
	if reads != 1 {
		t.Errorf("%d reads within a second, want 1", reads)
	}
	later := morning.Add(maxSpendingAge)
	wantRefusal(t, l, later, generation(p, 0, 2), fault.BudgetExceeded, 14*time.Hour+45*time.Minute-maxSpendingAge)
	for range 3 { // each read replaces the one before
		later = later.Add(maxSpendingAge)
		wantRefusal(t, l, later, generation(p, 0, 2), fault.BudgetExceeded, morning.Add(14*time.Hour+45*time.Minute).Sub(later))
	}
	stored = 0
	tomorrow := morning.Add(24 * time.Hour)
	mustAdmit(t, l, tomorrow, generation(p, 0, 3))
	if reads != 6 {
		t.Errorf("%d reads, want 6", reads)
	}
}

func TestADayThatEndsDuringTheReadTakesNothingAlong(t *testing.T) {
	u := usage{spent: window{at: 2, n: 1}}
	u.setOthers(window{at: 1, n: 3}, 9)
	if u.others != 0 || u.loaded {
		t.Errorf("%+v", u)
	}
}

func TestWhetherAdmittingReads(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	l := limiter(t, Options{SpentSince: func(context.Context, policy.Account, time.Time) (policy.Micro, error) { return 0, nil }})
	req := generation(limited(policy.Limits{SpendPerDay: 100}), 0, 1)
	if !l.Immediate(now, generation(limited(policy.Limits{}), 0, 1)) {
		t.Error("a key without a daily limit")
	}
	if !l.Immediate(now, &Request{Principal: req.Principal, Class: Lookup}) {
		t.Error("a lookup")
	}
	if !limiter(t, Options{}).Immediate(now, req) {
		t.Error("nobody else charges")
	}
	if l.Immediate(now, req) {
		t.Error("the first request of a key")
	}
	mustAdmit(t, l, now, req)
	if !l.Immediate(now, req) || l.Immediate(now.Add(maxSpendingAge), req) {
		t.Error("later requests")
	}
}

func TestSpendThatCannotBeReadAdmitsNobody(t *testing.T) {
	broken := errors.New("disk full")
	l := limiter(t, Options{SpentSince: func(context.Context, policy.Account, time.Time) (policy.Micro, error) { return 0, broken }})
	req := generation(limited(policy.Limits{SpendPerDay: 10}), 0, 1)
	wantRefusal(t, l, morning, req, fault.Unavailable, 0)
	unlimited := mustAdmit(t, l, morning, generation(ada, 0, 1)) // nothing is read
	unlimited.Done(morning, 0, 0)
	broken = nil
	g := mustAdmit(t, l, morning, req)
	broken = errors.New("disk full")
	later := morning.Add(maxSpendingAge)
	if err := l.Hold(t.Context(), later, generation(req.Principal, 0, 5), &g); fault.From(err).Kind != fault.Unavailable {
		t.Errorf("a hold: %v", err)
	}
	broken = nil
	other := mustAdmit(t, l, later, generation(req.Principal, 0, 9)) // beside the 1 of the admission
	wantRefusal(t, l, later, generation(req.Principal, 0, 1), fault.BudgetExceeded, time.Second)
	g.Done(later, 0, 0)
	wantRefusal(t, l, later, generation(req.Principal, 0, 2), fault.BudgetExceeded, time.Second)
	other.Done(later, 0, 0)
	mustAdmit(t, l, later, generation(req.Principal, 0, 10))
}

func TestManyCallersAreBoundedAndTheBusyOnesKept(t *testing.T) {
	l := limiter(t, Options{Callers: shards})
	p := limited(policy.Limits{SpendPerDay: 10})
	mustAdmit(t, l, morning, generation(p, 0, 10))
	for i := range 10_000 {
		g := mustAdmit(t, l, morning, generation(policy.Principal{Account: policy.Account(fmt.Sprint(i))}, 0, 0))
		g.Done(morning, 1, 1)
		mustAdmit(t, l, morning, &Request{Class: Lookup, Client: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})})
	}
	wantRefusal(t, l, morning, generation(p, 0, 10), fault.BudgetExceeded, time.Second)
	accounts, addresses := 0, 0
	for i := range shards {
		accounts += l.accounts.shards[i].seen.Len()
		addresses += l.addresses.shards[i].seen.Len()
	}
	if accounts > shards+1 || addresses > shards {
		t.Errorf("%d accounts and %d addresses are remembered, want at most %d", accounts, addresses, shards)
	}
}

func BenchmarkAdmitDone(b *testing.B) {
	l := New(Options{Rules: Rules{Default: policy.Limits{RPM: 1 << 30, TokensPerHour: 1 << 60, SpendPerDay: 1 << 60}, MaxConcurrent: 1 << 20}})
	b.ReportAllocs()
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		req := generation(policy.Principal{Account: policy.Account(fmt.Sprint(n.Add(1)))}, 100, 100)
		for pb.Next() {
			g, err := l.Admit(context.Background(), morning, req)
			if err != nil {
				b.Error(err)
				return
			}
			g.Done(morning, 100, 100)
		}
	})
}

// TestARefusalByItsBodyReleasesAHoldOnce: a request that is refused by its body holds nothing any more, and its end releases nothing.
func TestARefusalByItsBodyReleasesAHoldOnce(t *testing.T) {
	l := limiter(t, Options{})
	p := limited(policy.Limits{TokensPerHour: 100, SpendPerDay: 10})
	g := mustAdmit(t, l, morning, generation(p, 60, 6))
	if err := l.Hold(t.Context(), morning, generation(p, 60, 11), &g); fault.From(err).Kind != fault.BudgetExceeded {
		t.Fatalf("got %v", err)
	}
	g.Done(morning, 0, 0)
	mustAdmit(t, l, morning, generation(p, 100, 10))
	wantRefusal(t, l, morning, generation(p, 0, 1), fault.AllowanceExhausted, 45*time.Minute)
	p.Limits.TokensPerHour = policy.Unlimited
	wantRefusal(t, l, morning, generation(p, 0, 1), fault.BudgetExceeded, time.Second)
}

// TestWhatIsHeldNeverOverflows: sums of unlimited amounts do not overflow to negative values, and limits refuse them.
func TestWhatIsHeldNeverOverflows(t *testing.T) {
	l := limiter(t, Options{})
	for range 2 {
		mustAdmit(t, l, morning, generation(ada, 1<<62, policy.MaxMicro))
	}
	wantRefusal(t, l, morning, generation(limited(policy.Limits{SpendPerDay: 10}), 0, 5), fault.BudgetExceeded, time.Second)
	wantRefusal(t, l, morning, generation(limited(policy.Limits{TokensPerHour: 10}), 0, 0), fault.AllowanceExhausted, 45*time.Minute)
}

// TestWhatOthersSpentEndsWithItsDay, also for a request that arrives before it is read again.
func TestWhatOthersSpentEndsWithItsDay(t *testing.T) {
	l := limiter(t, Options{SpentSince: func(context.Context, policy.Account, time.Time) (policy.Micro, error) { return 10, nil }})
	req := generation(limited(policy.Limits{SpendPerDay: 10}), 0, 1)
	midnight := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
	wantRefusal(t, l, midnight.Add(-maxSpendingAge/4), req, fault.BudgetExceeded, maxSpendingAge/4)
	mustAdmit(t, l, midnight.Add(maxSpendingAge/4), req)
}

// TestAReadOutlivesTheRequestThatBeganIt, because others wait for it.
func TestAReadOutlivesTheRequestThatBeganIt(t *testing.T) {
	l := limiter(t, Options{SpentSince: func(ctx context.Context, _ policy.Account, _ time.Time) (policy.Micro, error) { return 0, ctx.Err() }})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Admit(canceled, morning, generation(limited(policy.Limits{SpendPerDay: 10}), 0, 1)); err != nil {
		t.Error(err)
	}
}

// TestWhatIsAnsweredLaterCounts: against the hour and the day, and not against the concurrency limit.
func TestWhatIsAnsweredLaterCounts(t *testing.T) {
	l := limiter(t, Options{Rules: Rules{Default: policy.Limits{TokensPerHour: 1000, SpendPerDay: policy.USD}, MaxConcurrent: 1}})
	p := policy.Principal{Account: "a"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if s := l.Count(now, &p, netip.Addr{}, 300, policy.USD/4); s.RemainingTokens != 700 {
		t.Errorf("%d tokens remain", s.RemainingTokens)
	}
	l.Count(now, &p, netip.Addr{}, -5, -7)
	g, err := l.Admit(t.Context(), now, &Request{Principal: p, Tokens: 10, Charge: policy.USD / 2})
	if err != nil {
		t.Fatalf("the only place is taken: %v", err)
	}
	g.Done(now, 0, 0)
	if _, err := l.Admit(t.Context(), now, &Request{Principal: p, Charge: policy.USD}); fault.From(err).Kind != fault.BudgetExceeded {
		t.Errorf("what is left of the day: %v", err)
	}
	l.Count(now, &p, netip.Addr{}, 1<<60, 0)
	if _, err := l.Admit(t.Context(), now, &Request{Principal: p}); fault.From(err).Kind != fault.AllowanceExhausted {
		t.Errorf("the hour is used up: %v", err)
	}
	if s := l.Standing(now.Add(time.Hour), p, netip.Addr{}); s.RemainingTokens != 1000 {
		t.Errorf("%d tokens remain in the next hour", s.RemainingTokens)
	}
}
