package spend_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/redistest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/quota/redis"
	"bardo.money/gateway/policy/spend"
)

// open creates the book of a test, and waits is whether it always does I/O: those of TestTogether have their counters in Redis.
var (
	open  = func(_ testing.TB, spent spend.Spent) *spend.Book { return spend.New(spent) }
	waits = false
)

// gateway returns the book of a gateway with counters in Redis, which gateways with the same secret share.
func gateway(tb testing.TB, server *redistest.Server, secret []byte, spent spend.Spent, share int) *spend.Book {
	tb.Helper()
	store, err := redis.Open(tb.Context(), redis.Options{URL: server.URL(), Secret: secret, Timeout: 30 * time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	l := quota.New(quota.Options{Store: store, Budgets: quota.BudgetSpent(spent), Rules: quota.Rules{Share: share}})
	tb.Cleanup(func() {
		_ = l.Close(context.WithoutCancel(tb.Context())) // Redis may have ended
		if err := store.Close(); err != nil {
			tb.Error(err)
		}
	})
	return spend.NewShared(l)
}

// TestTogether runs the tests of a book with counters in memory with one that has them in Redis.
func TestTogether(t *testing.T) {
	server, before := redistest.Start(t), open
	open, waits = func(tb testing.TB, spent spend.Spent) *spend.Book {
		tb.Helper()
		return gateway(tb, server, []byte(rand.Text()), spent, 0)
	}, true
	t.Cleanup(func() { open, waits = before, false })
	for name, test := range map[string]func(*testing.T){ // all but the one that looks into the table
		"ARequestFitsIntoEachBudget":             TestB05ARequestFitsIntoEachBudget,
		"ManyInParallelCannotOverspend":          TestK70ManyInParallelCannotOverspend,
		"ARaisedBudgetCountsAtOnce":              TestK71ARaisedBudgetCountsAtOnce,
		"WhatOthersSpentCounts":                  TestWhatOthersSpentCounts,
		"WhatOthersSpentInTheMonthCounts":        TestWhatOthersSpentInTheMonthCounts,
		"SpendingThatCannotBeReadIsNotUnlimited": TestSpendingThatCannotBeReadIsNotUnlimited,
		"ALaterChargeCounts":                     TestALaterChargeCounts,
	} {
		t.Run(name, test)
	}
}

// TestB05GatewaysShareEachBudget: holds and charges at one gateway count at the other, per day and month, and once when they are in the ledger.
func TestB05GatewaysShareEachBudget(t *testing.T) {
	server, secret := redistest.Start(t), []byte(rand.Text())
	var stored atomic.Int64
	spent := func(context.Context, policy.Budget, time.Time) (policy.Micro, error) {
		return policy.Micro(stored.Load()), nil
	}
	a, b := gateway(t, server, secret, spent, 0), gateway(t, server, secret, spent, 0)
	for _, budget := range [][]policy.Budget{
		{{Holder: policy.OfProject, ID: "p", PerDay: 3 * usd}}, {{Holder: policy.OfOwner, ID: "o", PerMonth: 3 * usd}}, {{Holder: policy.OfKey, ID: "k", PerMonth: 3 * usd}},
	} {
		stored.Store(0)
		var first, second spend.Hold
		if err := a.Hold(t.Context(), noon, budget, 2*usd, &first); err != nil {
			t.Fatal(err)
		}
		if o := wantOverBudget(t, b.Hold(t.Context(), noon, budget, 2*usd, &second)); o.Left != 3*usd || !o.RetryAt.Equal(noon.Add(time.Second)) {
			t.Errorf("%s: what another holds: %+v", budget[0].Holder, o)
		}
		first.Done(noon, usd)
		polltest.Until(t, "what the other was charged is stored", func() bool { return b.Hold(t.Context(), noon, budget, 2*usd, &second) == nil })
		second.Done(noon, 2*usd)
		if err := b.Hold(t.Context(), noon, budget, 1, &second); err == nil {
			t.Errorf("%s: used up, and given out", budget[0].Holder)
		}
		stored.Store(int64(3 * usd)) // both charges are in the ledger now, and count once
		later := noon.Add(2 * time.Second)
		raised := []policy.Budget{{Holder: budget[0].Holder, ID: budget[0].ID, PerDay: 2 * budget[0].PerDay, PerMonth: 2 * budget[0].PerMonth}}
		if err := a.Hold(t.Context(), later, raised, 3*usd, &first); err != nil {
			t.Errorf("%s: %v", budget[0].Holder, err)
		}
		wantOverBudget(t, b.Hold(t.Context(), later, raised, 1, &second))
		first.Done(later, 0)
	}
}

// TestB05BudgetsWhileRedisIsAway: requests are refused, or limited by the gateway's share; charges during the outage count once afterwards.
func TestB05BudgetsWhileRedisIsAway(t *testing.T) {
	for _, share := range []int{0, 2} {
		server, secret := redistest.Start(t), []byte(rand.Text())
		a, b := gateway(t, server, secret, nil, share), gateway(t, server, secret, nil, share)
		budget := nested(20*usd, 0, 0)[:1]
		var h spend.Hold
		if err := a.Hold(t.Context(), noon, budget, 2*usd, &h); err != nil {
			t.Fatal(err)
		}
		h.Done(noon, 2*usd)
		if err := a.Hold(t.Context(), noon, budget, 0, &h); err != nil { // the charge is stored
			t.Fatal(err)
		}
		h.Done(noon, 0)
		server.Kill()
		if share == 0 {
			err := a.Hold(t.Context(), noon, budget, 1, &h)
			if f, _ := errors.AsType[*fault.Fault](err); f == nil || f.Kind != fault.Unavailable {
				t.Errorf("%v", err)
			}
			continue
		}
		wantOverBudget(t, a.Hold(t.Context(), noon, budget, 9*usd+1, &h)) // of the remaining 18
		if err := a.Hold(t.Context(), noon, budget, 9*usd, &h); err != nil {
			t.Fatal(err)
		}
		h.Done(noon, 4*usd)
		wantOverBudget(t, a.Hold(t.Context(), noon, budget, 5*usd+1, &h))
		server.Run(t) // empty
		polltest.Until(t, "both know that 6 of 20 are used", func() bool {
			for _, g := range []*spend.Book{a, b} {
				err := g.Hold(t.Context(), noon, budget, 14*usd+1, &h)
				h.Done(noon, 0)
				if o, _ := errors.AsType[*policy.OverBudget](err); o == nil || o.Left != 14*usd {
					return false
				}
			}
			return true
		})
		if err := b.Hold(t.Context(), noon, budget, 14*usd, &h); err != nil {
			t.Error(err)
		}
		h.Done(noon, 0)
	}
}

// TestK70GatewaysCannotOverspendTogether: of requests at two gateways as many are served as the budget allows.
func TestK70GatewaysCannotOverspendTogether(t *testing.T) {
	server, secret := redistest.Start(t), []byte(rand.Text())
	books := [2]*spend.Book{gateway(t, server, secret, nil, 0), gateway(t, server, secret, nil, 0)}
	budgets := nested(100*usd, 50*usd, 70*usd)
	var served atomic.Int64
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			var h spend.Hold
			if books[i%2].Hold(context.Background(), noon, budgets, usd, &h) == nil {
				h.Done(noon, usd)
				served.Add(1)
			}
		})
	}
	all.Wait()
	if served.Load() != 50 {
		t.Errorf("%d were served, and there was room for 50", served.Load())
	}
}
