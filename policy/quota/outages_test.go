package quota_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/redistest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/quota"
)

// partition has two gateways with a store in this process, to which the first one's connection may be cut.
type partition struct {
	*testing.T
	*memory
	all []*quota.Limiter
	cut atomic.Bool
}

// withTwoGateways runs a test of two gateways, at a virtual time at which an hour begins.
func withTwoGateways(t *testing.T, o quota.Options, test func(*partition)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		w := &partition{T: t, memory: &memory{states: map[string][]byte{}}}
		w.all = gateways(t, 2, o, func(i int) quota.Store { return []quota.Store{cuttable{w.memory, &w.cut}, w.memory}[i] })
		test(w)
	})
}

// use runs a request at a gateway that uses tokens.
func (w *partition) use(gateway int, tokens int64) {
	w.Helper()
	g, err := w.all[gateway].Admit(w.Context(), time.Now(), req(1))
	if err != nil {
		w.Fatal(err)
	}
	g.Done(time.Now(), tokens, 0)
	synctest.Wait()
}

// left is the remaining tokens at a gateway, after it has read the store.
func (w *partition) left(gateway int) int64 {
	w.Helper()
	g, err := w.all[gateway].Admit(w.Context(), time.Now(), &quota.Request{Principal: ada, Class: quota.Lookup})
	if err != nil {
		w.Fatal(err)
	}
	return g.RemainingTokens
}

// admitted is how many of n requests a gateway admits, each of which ends immediately.
func (w *partition) admitted(gateway, n int) (passed int) {
	for range n {
		if g, err := w.all[gateway].Admit(w.Context(), time.Now(), req(0)); err == nil {
			g.Done(time.Now(), 0, 0)
			passed++
		}
		synctest.Wait()
	}
	return passed
}

// tokens are the rules of an allowance, of which each of two gateways uses a half during an outage.
var tokens = quota.Rules{Default: policy.Limits{TokensPerHour: 1000}, Share: 2}

// TestLostWritesAreStoredAgain: lost writes are stored again, for instance after a failover to a replica that was behind.
func TestLostWritesAreStoredAgain(t *testing.T) {
	withTwoGateways(t, quota.Options{Rules: tokens}, func(w *partition) {
		w.use(0, 100)
		copied := maps.Clone(w.states)
		w.use(0, 200)
		w.states = copied
		if n := w.left(0); n != 700 {
			w.Errorf("%d tokens are left, want 700", n)
		}
		if n := w.left(1); n != 700 {
			w.Errorf("the other gateway says that %d tokens are left, want 700", n)
		}
	})
}

// TestWhatWasUsedInAnHourThatIsOverCountsNowhere: a gateway that was disconnected does not set the window back.
func TestWhatWasUsedInAnHourThatIsOverCountsNowhere(t *testing.T) {
	withTwoGateways(t, quota.Options{Rules: tokens}, func(w *partition) {
		w.use(1, 1)
		w.cut.Store(true)
		w.use(0, 400)
		<-time.After(2*time.Hour + time.Minute)
		w.use(1, 300)
		w.cut.Store(false)
		w.use(0, 1)
		if n := w.left(1); n != 699 {
			w.Errorf("%d tokens are left, want 699", n)
		}
	})
}

// TestARateThatIsUsedTwiceIsFreeAMinuteLater: requests that gateways admitted beyond the rate during an outage are not added up.
func TestARateThatIsUsedTwiceIsFreeAMinuteLater(t *testing.T) {
	withTwoGateways(t, quota.Options{Rules: quota.Rules{Default: policy.Limits{RPM: 10}, Share: 2}}, func(w *partition) {
		w.cut.Store(true)
		if n := w.admitted(1, 12); n != 10 {
			w.Fatalf("%d passed, want 10", n)
		}
		if n := w.admitted(0, 12); n != 5 {
			w.Fatalf("%d passed at the gateway that is alone, want 5", n)
		}
		w.cut.Store(false)
		if n := w.admitted(0, 1); n != 0 {
			w.Error("one more passed")
		}
		<-time.After(13 * time.Second) // two requests of ten in a minute
		if n := w.admitted(0, 12); n != 2 {
			w.Errorf("%d passed, want 2", n)
		}
	})
}

// TestCallersAreNotDroppedBeforeTheyAreStored, however many there are during an outage of the store.
func TestCallersAreNotDroppedBeforeTheyAreStored(t *testing.T) {
	const callers = 200
	withTwoGateways(t, quota.Options{Rules: tokens, Callers: 1}, func(w *partition) {
		principal := func(i int) policy.Principal { return policy.Principal{Account: policy.Account(fmt.Sprint("k", i))} }
		w.cut.Store(true)
		for i := range callers {
			g, err := w.all[0].Admit(w.Context(), time.Now(), &quota.Request{Principal: principal(i), Tokens: 1})
			if err != nil {
				w.Fatal(err)
			}
			g.Done(time.Now(), 10, 0)
		}
		synctest.Wait()
		w.cut.Store(false)
		<-time.After(6 * time.Second)
		for i := range callers {
			g, err := w.all[1].Admit(w.Context(), time.Now(), &quota.Request{Principal: principal(i), Class: quota.Lookup})
			if err != nil || g.RemainingTokens != 990 {
				w.Fatalf("caller %d has %d tokens left: %v", i, g.RemainingTokens, err)
			}
		}
	})
}

// TestAHoldWithALostAnswerIsReleased: it was stored, and its request refused, because the store's answer was lost.
func TestAHoldWithALostAnswerIsReleased(t *testing.T) {
	withTwoGateways(t, quota.Options{Rules: quota.Rules{MaxConcurrent: 1}, Lifetime: time.Minute}, func(w *partition) {
		w.loseAnswers(1, func(int) bool { return true })
		if _, err := w.all[0].Admit(w.Context(), time.Now(), req(0)); fault.From(err).Kind != fault.Unavailable {
			w.Fatalf("%v", err)
		}
		<-time.After(11 * time.Second)
		if n := w.admitted(1, 1); n != 1 {
			w.Error("it is held")
		}
	})
}

// TestALostAnswerCountsOnceAfterTheLifetime: the number of a gateway's last write is kept longer than its hold counts.
func TestALostAnswerCountsOnceAfterTheLifetime(t *testing.T) {
	withTwoGateways(t, quota.Options{Rules: tokens}, func(w *partition) {
		g, err := w.all[0].Admit(w.Context(), time.Now(), req(1))
		if err != nil {
			w.Fatal(err)
		}
		w.loseAnswers(1, func(int) bool { return true })
		g.Done(time.Now(), 100, 0)
		synctest.Wait()
		w.cut.Store(true)
		for range 5 { // the other gateway writes meanwhile
			<-time.After(time.Minute)
			w.use(1, 10)
		}
		w.cut.Store(false)
		if n := w.left(0); n != 1000-100-5*10 {
			w.Errorf("%d tokens are left, want 850", n)
		}
	})
}

// TestHoldsOfEndedGatewaysAreDropped: the stored value does not grow with each start of a gateway.
func TestHoldsOfEndedGatewaysAreDropped(t *testing.T) {
	withTwoGateways(t, quota.Options{Rules: tokens}, func(w *partition) {
		for range 20 {
			l := quota.New(quota.Options{Rules: tokens, Store: w.memory})
			g, err := l.Admit(w.Context(), time.Now(), req(1))
			if err != nil {
				w.Fatal(err)
			}
			g.Done(time.Now(), 1, 0)
			if err := l.Close(w.Context()); err != nil {
				w.Error(err)
			}
		}
		<-time.After(2 * time.Hour)
		w.use(0, 1)
		if n := bytes.Count(w.states["account:ada"], []byte(`"until"`)); n != 1 {
			w.Errorf("%d gateways hold something: %s", n, w.states["account:ada"])
		}
	})
}

// TestWhatWasUsedIsStoredAtTheEnd of a gateway, also counters that it could not store before.
func TestWhatWasUsedIsStoredAtTheEnd(t *testing.T) {
	withTwoGateways(t, quota.Options{Rules: tokens}, func(w *partition) {
		w.cut.Store(true)
		w.use(0, 100)
		w.cut.Store(false)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if err := w.all[0].Close(ctx); err != nil {
			w.Error(err)
		}
		if n := w.left(1); n != 900 {
			w.Errorf("%d tokens are left, want 900", n)
		}
	})
}

// TestCountersEndInRedis: counters of callers without further requests expire.
func TestCountersEndInRedis(t *testing.T) {
	server := redistest.Start(t)
	all := gateways(t, 1, quota.Options{Rules: tokens}, inRedis(t, server))
	if got := passed(t, all, 1, time.Now(), *req(1), fault.RateLimited); len(got) != 1 {
		t.Fatalf("%d passed", len(got))
	}
	keys, _ := server.Do(t, "KEYS", "*").([]any)
	if len(keys) != 1 {
		t.Fatalf("Redis has %d keys", len(keys))
	}
	name, _ := keys[0].([]byte)
	if life, _ := server.Do(t, "TTL", name).(int64); life < 24*3600 || life > 26*3600 || !strings.HasPrefix(string(name), "bardo:limits:") {
		t.Errorf("%s lives for %d s", name, life)
	}
}
