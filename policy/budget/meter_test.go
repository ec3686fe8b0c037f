package budget_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
)

var golem = budget.Agent{Account: "ada", ID: "golem-1"}

// enter enters a dream of the agent, with a day's budget of 1 USD: dreams have 0.15 of it.
func enter(t *testing.T, m *budget.Meter, now time.Time, agent budget.Agent, most policy.Micro) (budget.Hold, budget.Decision) {
	t.Helper()
	b := budget.Compute(1, usd)
	var h budget.Hold
	d, err := m.Enter(t.Context(), now, agent, budget.Dream, most, &h, func(u budget.Use) budget.Decision { return b.Decide("dream", u, now) })
	if err != nil {
		t.Fatal(err)
	}
	return h, d
}

func TestTheRequestThatCrossesTheLineCompletes(t *testing.T) {
	m := budget.NewMeter(budget.Options{})
	h, d := enter(t, m, morning, golem, 10*usd)
	if d.Action != budget.Serve || d.Remaining != usd*15/100 {
		t.Fatalf("%+v", d)
	}
	if u, ok := h.Done(usd / 2); !ok || u.Spent != usd/2 {
		t.Errorf("%+v", u)
	}
	if _, ok := h.Done(usd); ok {
		t.Error("it was done twice")
	}
	if _, d = enter(t, m, morning, golem, 0); d.Action != budget.Refuse || d.Remaining != 0 {
		t.Errorf("%+v", d)
	}
	if _, d = enter(t, m, morning, budget.Agent{Account: "ada", ID: "golem-2"}, 0); d.Action != budget.Serve {
		t.Errorf("another agent of the key: %+v", d)
	}
	if u, err := m.Look(t.Context(), morning, golem, budget.Heartbeat); err != nil || u != (budget.Use{}) {
		t.Errorf("another part: %+v, %v", u, err)
	}
}

func TestANewDayBeginsAnew(t *testing.T) {
	m := budget.NewMeter(budget.Options{})
	evening := morning.Add(14*time.Hour + 44*time.Minute)
	h, _ := enter(t, m, evening, golem, usd)
	late, _ := enter(t, m, evening, golem, 0)
	h.Done(usd)
	if _, d := enter(t, m, evening, golem, 0); d.Action != budget.Refuse || d.RetryAfter != time.Minute {
		t.Errorf("in the evening: %+v", d)
	}
	midnight := evening.Add(time.Minute)
	if _, d := enter(t, m, midnight, golem, 0); d.Action != budget.Serve || d.Remaining != usd*15/100 {
		t.Errorf("at midnight: %+v", d)
	}
	if u, _ := late.Done(usd); u.Spent != 0 {
		t.Errorf("what was begun yesterday counts today: %+v", u)
	}
	if _, d := enter(t, m, evening, golem, 0); d.Action != budget.Serve {
		t.Errorf("a clock that is set back: %+v", d)
	}
}

func TestK70RequestsUnderWayHoldTheBudget(t *testing.T) {
	m := budget.NewMeter(budget.Options{})
	b := budget.Compute(1, usd)
	var served atomic.Int64
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			d, err := m.Enter(t.Context(), morning, golem, budget.Dream, usd/10, &budget.Hold{}, func(u budget.Use) budget.Decision { return b.Decide("dream", u, morning) })
			if err == nil && d.Action == budget.Serve {
				served.Add(1)
			}
		})
	}
	group.Wait()
	if n := served.Load(); n != 2 { // the second crosses the line of 0.15
		t.Errorf("%d were served at one time", n)
	}
}

// TestWhatWasBookedBeforeIsRead: before a restart, and by another gateway.
func TestWhatWasBookedBeforeIsRead(t *testing.T) {
	booked, reads := map[string]policy.Micro{"dream": usd / 10, "risk": usd}, 0
	m := budget.NewMeter(budget.Options{Refresh: time.Second, Spent: func(_ context.Context, a budget.Agent, day time.Time) (map[string]policy.Micro, error) {
		reads++
		if a != golem || !day.Equal(morning.Truncate(24*time.Hour)) {
			t.Errorf("%+v on %v is read", a, day)
		}
		return booked, nil
	}})
	h, d := enter(t, m, morning, golem, 0)
	if d.Remaining != usd*5/100 {
		t.Errorf("after the start: %+v", d)
	}
	booked["dream"] += usd / 100 // this one's own charge is booked before it is done
	h.Done(usd / 100)
	if _, d = enter(t, m, morning, golem, 0); d.Remaining != usd*4/100 || reads != 1 {
		t.Errorf("after a charge: %+v, %d reads", d, reads)
	}
	booked["dream"] += usd * 3 / 100 // another gateway's
	if _, d = enter(t, m, morning.Add(time.Second), golem, 0); d.Remaining != usd/100 || reads != 2 {
		t.Errorf("a second later: %+v, %d reads", d, reads)
	}
}

func TestTheStakeIsReadAndNoBudgetHoldsIt(t *testing.T) {
	m := budget.NewMeter(budget.Options{Spent: func(context.Context, budget.Agent, time.Time) (map[string]policy.Micro, error) {
		return map[string]policy.Micro{budget.Stake.String(): usd, "dream": 1}, nil
	}})
	if u, err := m.Look(t.Context(), morning, budget.Agent{}, budget.Stake); err != nil || u.Spent != usd {
		t.Errorf("%+v, %v", u, err)
	}
	if budget.ParsePart(budget.Stake.String()) != budget.None || (budget.Stake+1).String() != "" {
		t.Error("the stake is no subsystem's")
	}
}

func TestWhatCannotBeReadAdmitsNobody(t *testing.T) {
	broken := errors.New("disk full")
	m := budget.NewMeter(budget.Options{Spent: func(context.Context, budget.Agent, time.Time) (map[string]policy.Micro, error) { return nil, broken }})
	if _, err := m.Look(t.Context(), morning, golem, budget.Dream); fault.From(err).Kind != fault.Unavailable || !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	broken = nil
	if _, err := m.Look(t.Context(), morning, golem, budget.Dream); err != nil {
		t.Error(err)
	}
}

func TestManyAgentsAreBoundedAndReadAnew(t *testing.T) {
	var store sync.Map
	m := budget.NewMeter(budget.Options{Agents: 8, Spent: func(_ context.Context, a budget.Agent, _ time.Time) (map[string]policy.Micro, error) {
		spent, _ := store.LoadOrStore(a, policy.Micro(0))
		return map[string]policy.Micro{"dream": spent.(policy.Micro)}, nil //nolint:forcetypeassert // it holds nothing else
	}})
	h, _ := enter(t, m, morning, golem, usd)
	store.Store(golem, usd)
	h.Done(usd)
	for i := range 100 {
		enter(t, m, morning, budget.Agent{Account: "ada", ID: fmt.Sprint(i)}, 0)
	}
	if _, d := enter(t, m, morning, golem, 0); d.Action != budget.Refuse {
		t.Errorf("an agent that was forgotten: %+v", d)
	}
}
