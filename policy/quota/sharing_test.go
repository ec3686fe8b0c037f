package quota_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/redistest"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/quota"
)

var ada = policy.Principal{Account: "ada"}

// gateways returns limiters that share counters.
func gateways(t *testing.T, n int, o quota.Options, store func(i int) quota.Store) (all []*quota.Limiter) {
	t.Helper()
	for i := range n {
		o.Store = store(i)
		l := quota.New(o)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := l.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		all = append(all, l)
	}
	return all
}

// inRedis returns stores in one Redis.
func inRedis(t *testing.T, server *redistest.Server) func(int) quota.Store {
	t.Helper()
	return func(int) quota.Store { return open(t, server, []byte("secret"), longTimeout) }
}

func req(tokens int64) *quota.Request { return &quota.Request{Principal: ada, Tokens: tokens} }

// passed sends n concurrent requests to each gateway and returns the grants. Each request must be admitted or refused with a fault of the kind.
func passed(t *testing.T, all []*quota.Limiter, n int, now time.Time, a quota.Request, kind fault.Kind) (grants []quota.Grant) {
	t.Helper()
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, l := range all {
		for range n {
			wait.Go(func() {
				mine := a
				g, err := l.Admit(context.Background(), now, &mine)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					grants = append(grants, g)
				case fault.From(err).Kind != kind:
					t.Errorf("refused by %v, want %s", err, kind)
				}
			})
		}
	}
	wait.Wait()
	return grants
}

// TestGatewaysShareEachLimit: of concurrent requests at three gateways as many are admitted as at one.
func TestGatewaysShareEachLimit(t *testing.T) {
	server := redistest.Start(t)
	now := time.Now()
	for _, c := range []struct {
		name  string
		rules quota.Rules
		req   quota.Request
		kind  fault.Kind
		want  int
	}{
		{"rate", quota.Rules{Default: policy.Limits{RPM: 20}}, quota.Request{Principal: policy.Principal{Account: "rate"}}, fault.RateLimited, 20},
		{"rate of lookups", quota.Rules{Default: policy.Limits{RPM: 2}}, quota.Request{Principal: policy.Principal{Account: "lookups"}, Class: quota.Lookup}, fault.RateLimited, 20},
		{"rate of an address", quota.Rules{Default: policy.Limits{RPM: 20}}, quota.Request{Client: netip.MustParseAddr("10.1.2.3")}, fault.RateLimited, 20},
		{"concurrency", quota.Rules{MaxConcurrent: 7}, quota.Request{Principal: policy.Principal{Account: "concurrency"}}, fault.RateLimited, 7},
		{"tokens", quota.Rules{Default: policy.Limits{TokensPerHour: 1000}}, quota.Request{Principal: policy.Principal{Account: "tokens"}, Tokens: 100}, fault.AllowanceExhausted, 10},
		{"K-70 money", quota.Rules{Default: policy.Limits{SpendPerDay: policy.USD}}, quota.Request{Principal: policy.Principal{Account: "money"}, Charge: policy.USD / 5}, fault.BudgetExceeded, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := gateways(t, 3, quota.Options{Rules: c.rules}, inRedis(t, server))
			if got := len(passed(t, all, 15, now, c.req, c.kind)); got != c.want {
				t.Errorf("%d passed, want %d", got, c.want)
			}
		})
	}
	dump := server.Dump(t)
	if !strings.Contains(dump, "bardo:limits:") || strings.Contains(dump, "money") || strings.Contains(dump, "10.1.2.3") {
		t.Errorf("Redis shows %s", dump)
	}
}

// TestWhatEndsAtOneGatewayIsFreeAtAnother.
func TestWhatEndsAtOneGatewayIsFreeAtAnother(t *testing.T) {
	all := gateways(t, 2, quota.Options{Rules: quota.Rules{MaxConcurrent: 2, Default: policy.Limits{TokensPerHour: 1000}}}, inRedis(t, redistest.Start(t)))
	now := time.Now()
	first := passed(t, all[:1], 2, now, *req(300), fault.RateLimited)
	if len(first) != 2 {
		t.Fatalf("%d passed", len(first))
	}
	if got := passed(t, all[1:], 1, now, *req(1), fault.RateLimited); len(got) != 0 {
		t.Error("a third passed at the other gateway")
	}
	first[0].Done(now, 600, 0)
	var g quota.Grant
	eventually(t, func() (err error) {
		g, err = all[1].Admit(t.Context(), now, req(1))
		return err
	})
	if g.RemainingTokens != 400 {
		t.Errorf("the other gateway knows of %d tokens that are left, want 400", g.RemainingTokens)
	}
	first[1].Done(now, 400, 0)
	eventually(t, func() error {
		_, err := all[1].Admit(t.Context(), now, req(1))
		if fault.From(err).Kind != fault.AllowanceExhausted {
			return errors.New("the allowance is not used up")
		}
		return nil
	})
}

// eventually waits until f returns no error.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	late := time.After(longTimeout)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-late:
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestWhileRedisIsAway: a gateway applies its share of each limit, or refuses; requests that it admitted count once afterwards.
func TestWhileRedisIsAway(t *testing.T) {
	now := time.Now().Truncate(time.Hour).Add(10 * time.Minute)
	t.Run("refuse", func(t *testing.T) {
		server := redistest.Start(t)
		all := gateways(t, 1, quota.Options{Rules: quota.Rules{Default: policy.Limits{RPM: 10}}}, inRedis(t, server))
		server.Kill()
		if got := passed(t, all, 3, now, *req(0), fault.Unavailable); len(got) != 0 {
			t.Errorf("%d passed", len(got))
		}
		free := *req(0)
		free.Principal.Limits.RPM = policy.Unlimited
		if got := passed(t, all, 3, now, free, fault.Unavailable); len(got) != 3 {
			t.Errorf("of callers without a limit %d of 3 passed", len(got))
		}
		server.Run(t)
		eventually(t, func() error {
			_, err := all[0].Admit(t.Context(), now, req(0))
			return err
		})
	})
	for _, c := range []struct {
		name  string
		rules quota.Rules
		req   quota.Request
		kind  fault.Kind
		want  int // at each of two gateways
	}{
		{"rate", quota.Rules{Default: policy.Limits{RPM: 11}}, quota.Request{}, fault.RateLimited, 5},
		{"lookups", quota.Rules{Default: policy.Limits{RPM: 2}}, quota.Request{Class: quota.Lookup}, fault.RateLimited, 10},
		{"concurrency", quota.Rules{MaxConcurrent: 5}, quota.Request{}, fault.RateLimited, 2},
		{"a share of less than one request per minute", quota.Rules{Default: policy.Limits{RPM: 1}}, quota.Request{}, fault.RateLimited, 0},
		{"a share of less than one concurrent request", quota.Rules{MaxConcurrent: 1}, quota.Request{}, fault.RateLimited, 0},
		{"tokens", quota.Rules{Default: policy.Limits{TokensPerHour: 1000}}, quota.Request{Tokens: 100}, fault.AllowanceExhausted, 5},
		{"money", quota.Rules{Default: policy.Limits{SpendPerDay: policy.USD}}, quota.Request{Charge: policy.USD / 10}, fault.BudgetExceeded, 5},
	} {
		t.Run("share/"+c.name, func(t *testing.T) {
			server := redistest.Start(t)
			c.rules.Share, c.req.Principal = 2, ada
			all := gateways(t, 2, quota.Options{Rules: c.rules}, inRedis(t, server))
			server.Kill()
			for _, l := range all {
				if got := len(passed(t, []*quota.Limiter{l}, 14, now, c.req, c.kind)); got != c.want {
					t.Errorf("%d passed, want %d", got, c.want)
				}
			}
		})
	}
}

// awaitShared waits until a gateway uses its store again, and returns the remaining tokens.
func awaitShared(t *testing.T, l *quota.Limiter, by *atomic.Value, now time.Time) int64 {
	t.Helper()
	var left int64
	eventually(t, func() error {
		g, err := l.Admit(t.Context(), now, &quota.Request{Principal: ada, Class: quota.Lookup})
		left = g.RemainingTokens
		if by.Load() != quota.DecidedShared {
			return errors.New("the store is away")
		}
		return err
	})
	return left
}

// TestAfterAnOutageWhatWasUsedCountsOnce, also if Redis lost everything.
func TestAfterAnOutageWhatWasUsedCountsOnce(t *testing.T) {
	server := redistest.Start(t)
	now := time.Now().Truncate(time.Hour).Add(10 * time.Minute)
	var by atomic.Value
	o := quota.Options{Rules: quota.Rules{Default: policy.Limits{TokensPerHour: 1000, RPM: 100}, MaxConcurrent: 20, Share: 2}, Decided: func(d quota.Decider) { by.Store(d) }}
	all := gateways(t, 2, o, inRedis(t, server))
	use := func(l *quota.Limiter, tokens int64) {
		t.Helper()
		g, err := l.Admit(t.Context(), now, req(1))
		if err != nil {
			t.Fatal(err)
		}
		g.Done(now, tokens, 0)
	}
	use(all[0], 100)
	use(all[1], 50)
	eventually(t, func() error { // both know it
		for _, l := range all {
			if awaitShared(t, l, &by, now) != 850 {
				return errors.New("not everything was stored")
			}
		}
		return nil
	})
	server.Kill()
	under, err := all[0].Admit(t.Context(), now, req(1))
	if err != nil {
		t.Fatal(err)
	}
	use(all[0], 30)
	use(all[1], 20)
	server.Run(t) // empty
	for _, l := range all {
		awaitShared(t, l, &by, now)
	}
	under.Done(now, 200, 0)
	eventually(t, func() error {
		for _, l := range all {
			if left := awaitShared(t, l, &by, now); left != 600 {
				return errors.New("not 600 tokens are left")
			}
		}
		return nil
	})
	// 100 a minute, of which 2 were admitted before the outage, 3 during it.
	g, err := all[1].Admit(t.Context(), now, req(1))
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := g.Requests(now); left < 94-1 || left > 94+1 {
		t.Errorf("%d requests of the minute are left, want 94", left)
	}
	if got := passed(t, all, 20, now, *req(1), fault.RateLimited); len(got) != 19 {
		t.Errorf("%d more generations pass at once, want 19: the one of the outage has ended", len(got))
	}
}

// memory is a store in this process, whose answers may be lost.
type memory struct {
	mu     sync.Mutex
	states map[string][]byte
	lose   func() (stored bool, err error) // nil: nothing is lost
}

// Swap implements quota.Store.
func (m *memory) Swap(_ context.Context, client string, have, next []byte) (now []byte, swapped bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lose != nil {
		stored, err := m.lose()
		if err != nil && !stored {
			return nil, false, err
		}
		if err != nil {
			m.swap(client, have, next)
			return nil, false, err
		}
	}
	return m.states[client], m.swap(client, have, next), nil
}

func (m *memory) swap(client string, have, next []byte) bool {
	if !slices.Equal(m.states[client], have) {
		return false
	}
	m.states[client] = next
	return true
}

// loseAnswers makes the next n swaps fail, after they were stored or before.
func (m *memory) loseAnswers(n int, stored func(i int) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := 0
	m.lose = func() (bool, error) {
		if i == n {
			return false, nil
		}
		i++
		return stored(i - 1), errors.New("the answer got lost")
	}
}

// TestAnAnswerThatIsLostCountsOnce: whether a swap was stored is not known for a while.
func TestAnAnswerThatIsLostCountsOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		stored func(int) bool
	}{
		{"before", func(int) bool { return false }},
		{"after", func(int) bool { return true }},
		{"the first after", func(i int) bool { return i == 0 }},
		{"the last after", func(i int) bool { return i == 4 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{states: map[string][]byte{}}
				o := quota.Options{Rules: quota.Rules{Default: policy.Limits{TokensPerHour: 1000, RPM: 100}, MaxConcurrent: 3, Share: 1}}
				all := gateways(t, 2, o, func(int) quota.Store { return m })
				now := time.Now().Truncate(time.Hour).Add(time.Minute)
				use := func(l *quota.Limiter) {
					t.Helper()
					g, err := l.Admit(t.Context(), now, req(1))
					if err != nil {
						t.Fatal(err)
					}
					g.Done(now, 10, 0)
					synctest.Wait()
				}
				use(all[0])
				m.loseAnswers(5, c.stored)
				use(all[0])
				use(all[0])
				use(all[0])
				use(all[1])
				use(all[0])
				g, err := all[1].Admit(t.Context(), now, req(1))
				if err != nil {
					t.Fatal(err)
				}
				if g.RemainingTokens != 940 {
					t.Errorf("%d tokens are left, want 940", g.RemainingTokens)
				}
				if left, _ := g.Requests(now); left != 93 {
					t.Errorf("%d requests are left, want 93", left)
				}
				if got := passed(t, all, 4, now, *req(1), fault.RateLimited); len(got) != 2 {
					t.Errorf("%d more generations pass at once, want 2", len(got))
				}
			})
		})
	}
}

// repeated is a store whose first answers are lost, so that the swap is repeated, after another gateway has written.
type repeated struct {
	*memory
	between func()
}

// Swap implements quota.Store.
func (w *repeated) Swap(ctx context.Context, client string, have, next []byte) (now []byte, swapped bool, err error) {
	now, swapped, err = w.memory.Swap(ctx, client, have, next)
	if f := w.between; f != nil && swapped {
		w.between = nil
		f()
		return w.memory.Swap(ctx, client, have, next)
	}
	return now, swapped, err
}

// TestARepeatedSwapCountsOnce: a connection broke before the answer, and another gateway wrote before the swap was repeated.
func TestARepeatedSwapCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &repeated{memory: &memory{states: map[string][]byte{}}}
		o := quota.Options{Rules: quota.Rules{Default: policy.Limits{TokensPerHour: 1000, RPM: 100}, MaxConcurrent: 3}}
		all := gateways(t, 2, o, func(i int) quota.Store { return []quota.Store{w, w.memory}[i] })
		now := time.Now().Truncate(time.Hour).Add(time.Minute)
		other := func() {
			g, err := all[1].Admit(t.Context(), now, req(1))
			if err != nil {
				t.Fatal(err)
			}
			g.Done(now, 10, 0)
		}
		for range 3 {
			w.between = other // of the admission
			g, err := all[0].Admit(t.Context(), now, req(1))
			if err != nil {
				t.Fatal(err)
			}
			w.between = other // of what it used
			g.Done(now, 100, 0)
			synctest.Wait()
		}
		g, err := all[1].Admit(t.Context(), now, req(1))
		if err != nil {
			t.Fatal(err)
		}
		if g.RemainingTokens != 1000-3*100-6*10 {
			t.Errorf("%d tokens are left, want 640", g.RemainingTokens)
		}
		if left, _ := g.Requests(now); left != 100-3-6-1 {
			t.Errorf("%d requests are left, want 90", left)
		}
		if got := passed(t, all, 4, now, *req(1), fault.RateLimited); len(got) != 2 {
			t.Errorf("%d more generations pass at once, want 2", len(got))
		}
	})
}

// TestWhatEndedDuringAnOutageIsFreeSoonAfterIt, also if it used nothing, and the gateway gets no other requests.
func TestWhatEndedDuringAnOutageIsFreeSoonAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{states: map[string][]byte{}}
		var cut atomic.Bool
		o := quota.Options{Rules: quota.Rules{MaxConcurrent: 1}, Lifetime: time.Minute}
		all := gateways(t, 2, o, func(i int) quota.Store { return []quota.Store{cuttable{m, &cut}, m}[i] })
		g, err := all[0].Admit(t.Context(), time.Now(), req(0))
		if err != nil {
			t.Fatal(err)
		}
		cut.Store(true)
		g.Done(time.Now(), 0, 0)
		synctest.Wait()
		cut.Store(false)
		<-time.After(11 * time.Second) // a sixth of the lifetime, and a moment
		if _, err := all[1].Admit(t.Context(), time.Now(), req(0)); err != nil {
			t.Errorf("it is still held: %v", err)
		}
	})
}

// cuttable is a connection to a store that may be cut.
type cuttable struct {
	*memory
	away *atomic.Bool
}

// Swap implements quota.Store.
func (s cuttable) Swap(ctx context.Context, client string, have, next []byte) (now []byte, swapped bool, err error) {
	if s.away.Load() {
		return nil, false, quota.ErrUnavailable
	}
	return s.memory.Swap(ctx, client, have, next)
}

// TestWhatAGatewayHeldEndsWithIt, after Lifetime; and not before, however long a generation takes.
func TestWhatAGatewayHeldEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{states: map[string][]byte{}}
		var dead atomic.Bool
		dying := cuttable{m, &dead}
		o := quota.Options{Rules: quota.Rules{MaxConcurrent: 1}, Lifetime: 30 * time.Second}
		all := gateways(t, 2, o, func(i int) quota.Store { return []quota.Store{dying, m}[i] })
		g, err := all[0].Admit(t.Context(), time.Now(), req(0))
		if err != nil {
			t.Fatal(err)
		}
		refused := func() bool {
			other, err := all[1].Admit(t.Context(), time.Now(), req(0))
			other.Done(time.Now(), 0, 0)
			synctest.Wait()
			return err != nil
		}
		for range 20 {
			<-time.After(17 * time.Second)
			if !refused() {
				t.Fatal("what a gateway holds has ended")
			}
		}
		dead.Store(true)
		<-time.After(31 * time.Second)
		if refused() {
			t.Error("the hold of an ended gateway still counts")
		}
		dead.Store(false)
		<-time.After(31 * time.Second)
		if !refused() {
			t.Error("the hold of a running gateway was lost")
		}
		g.Done(time.Now(), 0, 0)
		synctest.Wait()
		if refused() {
			t.Error("the generation has ended")
		}
	})
}

// TestASharedLimitAlwaysWaits.
func TestASharedLimitAlwaysWaits(t *testing.T) {
	m := &memory{states: map[string][]byte{}}
	l := gateways(t, 1, quota.Options{Rules: quota.Rules{MaxConcurrent: 1}}, func(int) quota.Store { return m })[0]
	if l.Immediate(time.Now(), req(0)) {
		t.Error("a caller with a limit is admitted without a look at the store")
	}
	l.SetRules(quota.Rules{})
	if !l.Immediate(time.Now(), req(0)) {
		t.Error("a caller without a limit waits")
	}
}

// TestACounterThatCannotBeReadIsWrittenAnew.
func TestACounterThatCannotBeReadIsWrittenAnew(t *testing.T) {
	m := &memory{states: map[string][]byte{"account:ada": []byte("{")}}
	l := gateways(t, 1, quota.Options{Rules: quota.Rules{MaxConcurrent: 1}}, func(int) quota.Store { return m })[0]
	if got := passed(t, []*quota.Limiter{l}, 3, time.Now(), *req(0), fault.RateLimited); len(got) != 1 {
		t.Errorf("%d passed, want 1", len(got))
	}
}

// TestACounterThatIsLostIsWrittenAgain: what a gateway knows of it still counts.
func TestACounterThatIsLostIsWrittenAgain(t *testing.T) {
	for _, lost := range [][]byte{nil, []byte("{")} {
		m := &memory{states: map[string][]byte{}}
		l := gateways(t, 1, quota.Options{Rules: quota.Rules{Default: policy.Limits{TokensPerHour: 10}}}, func(int) quota.Store { return m })[0]
		now := time.Now()
		bob := quota.Request{Principal: policy.Principal{Account: "bob", Limits: policy.Limits{RPM: 1, TokensPerHour: 100}}}
		for _, g := range append(passed(t, []*quota.Limiter{l}, 1, now, bob, ""), passed(t, []*quota.Limiter{l}, 1, now, *req(0), "")...) {
			g.Done(now, 10, 0)
		}
		eventually(t, func() error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if !bytes.Contains(m.states["account:ada"], []byte(",10]")) {
				return fmt.Errorf("the store has %s", m.states["account:ada"])
			}
			m.states["account:ada"], m.states["account:bob"] = lost, lost
			return nil
		})
		passed(t, []*quota.Limiter{l}, 1, now, *req(0), fault.AllowanceExhausted)
		if got := passed(t, []*quota.Limiter{l}, 1, now, bob, fault.RateLimited); len(got) != 0 {
			t.Errorf("%q in the store: the rate is unused again", lost)
		}
		if got := l.Standing(now, ada, netip.Addr{}); got.RemainingTokens != 0 {
			t.Errorf("%q in the store: %+v", lost, got)
		}
	}
}

// TestNoShareOfWhatIsUsedUp: while the store is away a gateway gives out its part of what is left, and nothing of what is used up.
func TestNoShareOfWhatIsUsedUp(t *testing.T) {
	m := &memory{states: map[string][]byte{}}
	l := gateways(t, 1, quota.Options{Rules: quota.Rules{Share: 2}}, func(int) quota.Store { return m })[0]
	now := time.Now()
	key := func(name string, limits policy.Limits) quota.Request {
		return quota.Request{Principal: policy.Principal{Account: policy.Account(name), Limits: limits}, Charge: 1}
	}
	tokens, money := key("tokens", policy.Limits{TokensPerHour: 10}), key("money", policy.Limits{SpendPerDay: 10})
	month, over := policy.Budget{Holder: policy.OfOwner, ID: "o", PerMonth: 100}, policy.Budget{Holder: policy.OfOwner, ID: "over", PerMonth: 20}
	for _, r := range []quota.Request{tokens, money} {
		for _, g := range passed(t, []*quota.Limiter{l}, 1, now, r, "") {
			g.Done(now, 10, 10)
		}
	}
	l.CountBudget(now, &month, 20)
	l.CountBudget(now, &over, 20)
	eventually(t, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for name, used := range map[string]string{"account:tokens": ",10]", "account:money": ",10]", "budget:owner:o": ",20]", "budget:owner:over": ",20]"} {
			if !bytes.Contains(m.states[name], []byte(used)) {
				return fmt.Errorf("the store has %s", m.states)
			}
		}
		m.lose = func() (bool, error) { return false, quota.ErrUnavailable }
		return nil
	})
	if got := passed(t, []*quota.Limiter{l}, 1, now, tokens, fault.AllowanceExhausted); len(got) != 0 {
		t.Error("tokens of an allowance that is used up")
	}
	if got := passed(t, []*quota.Limiter{l}, 1, now, money, fault.BudgetExceeded); len(got) != 0 {
		t.Error("money of a limit that is used up")
	}
	if _, err := l.HoldBudget(t.Context(), now, &month, 41); err == nil {
		t.Error("more than this gateway's part of the month's budget")
	}
	done, err := l.HoldBudget(t.Context(), now, &month, 40)
	if err != nil {
		t.Fatal(err)
	}
	done(now, 40)
	if _, err := l.HoldBudget(t.Context(), now, &over, 1); err == nil {
		t.Error("a part of a month's budget that is used up")
	}
	m.mu.Lock()
	m.lose = nil
	m.mu.Unlock()
}

// quotas returns rules with a quota of 1000 input tokens per day.
func quotas(t *testing.T, share int) quota.Options {
	t.Helper()
	cost, err := rule.ParseMeasure("input_tokens")
	if err != nil {
		t.Fatal(err)
	}
	return quota.Options{Rules: quota.Rules{Share: share, Quotas: []quota.Quota{{Name: "input", Per: quota.PerAll, Window: 24 * time.Hour, Limit: quota.Millionths(1000), Cost: cost}}}}
}

// holds admits a request that may count an amount, and holds it; nil if the kind of fault refuses it.
func holds(t *testing.T, l *quota.Limiter, now time.Time, input int64, kind fault.Kind) *quota.Grant {
	t.Helper()
	r := &quota.Request{Usage: []rule.Usage{{Input: input}}, Client: netip.MustParseAddr("10.1.2.3")}
	g, err := l.Admit(context.Background(), now, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Hold(context.Background(), now, r, &g); err != nil {
		if fault.From(err).Kind != kind {
			t.Errorf("refused by %v, want %s", err, kind)
		}
		g.Done(now, 0, 0)
		return nil
	}
	return &g
}

// TestGatewaysShareAQuota: of concurrent requests at three gateways as many are admitted as at one, and what one used is known to the others.
func TestGatewaysShareAQuota(t *testing.T) {
	server := redistest.Start(t)
	all := gateways(t, 3, quotas(t, 0), inRedis(t, server))
	now := time.Now()
	var mu sync.Mutex
	var wait sync.WaitGroup
	var grants []*quota.Grant
	for _, l := range all {
		for range 8 {
			wait.Go(func() {
				if g := holds(t, l, now, 100, fault.RateLimited); g != nil {
					mu.Lock()
					defer mu.Unlock()
					grants = append(grants, g)
				}
			})
		}
	}
	wait.Wait()
	if len(grants) != 10 {
		t.Errorf("%d passed, want 10", len(grants))
	}
	for _, g := range grants {
		g.Measure(now, &rule.Usage{Input: 90})
		g.Done(now, 0, 0)
	}
	for _, l := range all {
		eventually(t, func() error {
			g := holds(t, l, now, 100, fault.RateLimited)
			if g == nil {
				return errors.New("what the others used less is not free")
			}
			g.Done(now, 0, 0)
			return nil
		})
		if holds(t, l, now, 101, fault.RateLimited) != nil {
			t.Error("more than is left")
		}
	}
	if dump := server.Dump(t); strings.Contains(dump, "input") || strings.Contains(dump, "10.1.2.3") {
		t.Errorf("Redis shows %s", dump)
	}
}

// TestAQuotaWhileTheStoreIsAway: each gateway gives out its part of what is left, or refuses; afterwards all usage counts.
func TestAQuotaWhileTheStoreIsAway(t *testing.T) {
	for _, share := range []int{0, 2} {
		withTwoGateways(t, quotas(t, share), func(w *partition) {
			use := func(gateway int, input int64, kind fault.Kind) bool {
				g := holds(w.T, w.all[gateway], time.Now(), input, kind)
				if g != nil {
					g.Measure(time.Now(), &rule.Usage{Input: input})
					g.Done(time.Now(), 0, 0)
				}
				synctest.Wait()
				return g != nil
			}
			if !use(0, 200, "") {
				t.Error("the store is there")
			}
			w.cut.Store(true)
			if share == 0 {
				if use(0, 1, fault.Unavailable) {
					t.Error("admitted without the store")
				}
				w.cut.Store(false)
				return
			}
			if use(0, 401, fault.RateLimited) || !use(0, 400, "") {
				t.Error("its part of 800 is 400")
			}
			w.cut.Store(false)
			if use(0, 401, fault.RateLimited) || !use(0, 200, "") {
				t.Error("400 are left for both")
			}
			if use(1, 201, fault.RateLimited) || !use(1, 200, "") {
				t.Error("200 are left for both")
			}
		})
	}
}

// TestWhatARequestHoldsOfAQuotaIsRenewed: longer than the lifetime of what a gateway holds.
func TestWhatARequestHoldsOfAQuotaIsRenewed(t *testing.T) {
	withTwoGateways(t, quotas(t, 0), func(w *partition) {
		g := holds(w.T, w.all[0], time.Now(), 600, "")
		<-time.After(5 * time.Minute)
		if holds(w.T, w.all[1], time.Now(), 401, fault.RateLimited) != nil {
			t.Error("what a long request holds is free at another gateway")
		}
		g.Done(time.Now(), 0, 0)
	})
}
