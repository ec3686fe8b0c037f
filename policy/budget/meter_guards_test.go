package budget_test

import (
	"context"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
)

// request begins a request of a part, with an action.
func request(t *testing.T, m *budget.Meter, now time.Time, maxCost policy.Micro, action budget.Action) budget.Hold {
	t.Helper()
	var h budget.Hold
	_, err := m.Enter(t.Context(), now, budget.Agent{Account: "a"}, budget.Dream, maxCost, &h, func(budget.Use) budget.Decision { return budget.Decision{Action: action} })
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wantUse(t *testing.T, m *budget.Meter, now time.Time, spent, held policy.Micro) {
	t.Helper()
	if u, err := m.Look(t.Context(), now, budget.Agent{Account: "a"}, budget.Dream); err != nil || u.Spent != spent || u.Held != held {
		t.Errorf("%+v, %v, want %d spent and %d held", u, err, spent, held)
	}
}

// TestOnlyServedRequestsHoldABudget: a refused one has no hold, and no request returns money.
func TestOnlyServedRequestsHoldABudget(t *testing.T) {
	m := budget.NewMeter(budget.Options{})
	refused := request(t, m, morning, 10, budget.Refuse)
	if _, ok := refused.Done(5); ok {
		t.Error("a refused request has a hold")
	}
	wantUse(t, m, morning, 0, 0)
	served := request(t, m, morning, 10, budget.Serve)
	negative := request(t, m, morning, -4, budget.Serve)
	wantUse(t, m, morning, 0, 10)
	served.Done(7)
	negative.Done(-3)
	wantUse(t, m, morning, 7, 0)
}

// TestADayIsCountedAlone: a request counts on the day of its start, and a clock that is set back does not begin the day before again.
func TestADayIsCountedAlone(t *testing.T) {
	m := budget.NewMeter(budget.Options{})
	tomorrow := morning.AddDate(0, 0, 1)
	early, late := request(t, m, morning, 10, budget.Serve), request(t, m, tomorrow, 20, budget.Serve)
	early.Done(9)
	wantUse(t, m, tomorrow, 0, 20)
	late.Done(8)
	wantUse(t, m, morning, 8, 0)
	wantUse(t, m, tomorrow, 8, 0)
}

// TestBookingsThatLagDoNotLowerWhatIsSpent: the store is read before it has this process's charges.
func TestBookingsThatLagDoNotLowerWhatIsSpent(t *testing.T) {
	booked := policy.Micro(0)
	m := budget.NewMeter(budget.Options{Spent: func(context.Context, budget.Agent, time.Time) (map[string]policy.Micro, error) {
		return map[string]policy.Micro{budget.Dream.String(): booked}, nil
	}})
	h := request(t, m, morning, 10, budget.Serve)
	h.Done(9)
	wantUse(t, m, morning.Add(time.Minute), 9, 0)
	booked = 12 // 3 of another process
	wantUse(t, m, morning.Add(time.Minute+time.Second), 9, 0)
	wantUse(t, m, morning.Add(2*time.Minute), 12, 0)
}

// TestAReservationReplacesThatOfItsRequest: the decision sees what others hold, and a refused request keeps what it had.
func TestAReservationReplacesThatOfItsRequest(t *testing.T) {
	m := budget.NewMeter(budget.Options{})
	mine, other := request(t, m, morning, 10, budget.Serve), request(t, m, morning, 20, budget.Serve)
	again := func(now time.Time, maxCost policy.Micro, action budget.Action) (seen budget.Use) {
		t.Helper()
		if _, err := m.Enter(t.Context(), now, budget.Agent{Account: "a"}, budget.Dream, maxCost, &mine, func(u budget.Use) budget.Decision {
			seen = u
			return budget.Decision{Action: action}
		}); err != nil {
			t.Fatal(err)
		}
		return seen
	}
	if seen := again(morning, 50, budget.Refuse); seen.Held != 20 {
		t.Errorf("others hold %d", seen.Held)
	}
	wantUse(t, m, morning, 0, 30)
	again(morning, 15, budget.Serve)
	wantUse(t, m, morning, 0, 35)
	tomorrow := morning.AddDate(0, 0, 1)
	late := request(t, m, tomorrow, 40, budget.Serve)
	if seen := again(tomorrow, 5, budget.Serve); seen.Held != 40 {
		t.Errorf("on the next day others hold %d", seen.Held)
	}
	wantUse(t, m, tomorrow, 0, 45)
	other.Done(1)
	mine.Done(2)
	late.Done(3)
	wantUse(t, m, tomorrow, 5, 0)
}
