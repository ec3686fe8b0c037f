package alerts

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"bardo.money/gateway/cmd/bardo/run/notice"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/usage"
)

// Books is what is read of a ledger.
type Books interface {
	Keys(ctx context.Context) ([]ledger.KeyRow, error)
	Groups(ctx context.Context, kind policy.Holder) ([]ledger.Group, error)
	Usage(ctx context.Context, f ledger.Filter, by ledger.By) ([]ledger.UsageRow, error)
}

// Spending watches what keys, projects and owners spend, and emits notice.BudgetNear, notice.SpendUnusual and notice.UsageOfDay: each once in its day or month, and again after a
// restart. It reads the ledger beside requests.
type Spending struct {
	Books  Books
	Config func() *config.Config
	Served func() uint64 // requests so far: while there is no other, spending is looked at less often
	Events *event.Sink
	Log    *slog.Logger

	said     map[string]said
	usual    map[string]usual
	reported time.Time // the day on which the usage of the day before was emitted
}

// said is what was emitted of a limit: since the beginning of which period, and that it was spent.
type said struct {
	began time.Time
	spent bool
}

// usual is a key's spending on a usual day, as it was on a day.
type usual struct {
	day    time.Time
	amount policy.Micro // 0: too few days are known
}

const (
	// lookTime is the time between two looks.
	lookTime = 10 * time.Second
	// idleTime is that without requests at this gateway: others may share its ledger.
	idleTime = 5 * time.Minute

	// usualDays is how many days before make a usual one; leastDays of them must have spending.
	usualDays = 14
	leastDays = 3
)

// Run looks at spending until ctx is done.
func (s *Spending) Run(ctx context.Context) error {
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	var looked time.Time
	served := s.Served() - 1
	for {
		now, n := time.Now().UTC(), s.Served()
		if s.Config().Notifications.Enabled() && (n != served || now.Sub(looked) >= idleTime) {
			served, looked = n, now
			if err := s.Look(ctx, now); err != nil && ctx.Err() == nil {
				s.Log.Warn("spending was not looked at", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Look compares what was spent with what may be, and with what is usual.
func (s *Spending) Look(ctx context.Context, now time.Time) error {
	if s.said == nil {
		s.said, s.usual = map[string]said{}, map[string]usual{}
	}
	keys, err := s.Books.Keys(ctx)
	if err != nil {
		return err
	}
	n := &s.Config().Notifications
	if n.Wants("budget") {
		if err := s.budgets(ctx, now, keys, n.NearPct); err != nil {
			return err
		}
	}
	if n.Wants("usage") {
		if err := s.lastDay(ctx, now, keys); err != nil {
			return err
		}
	}
	if !n.Wants("spend") {
		return nil
	}
	return s.days(ctx, now, keys, n)
}

// days compares today's spending with that of a usual day: of all together, and of each key.
func (s *Spending) days(ctx context.Context, now time.Time, keys []ledger.KeyRow, n *config.Notifications) error {
	rows, err := s.Books.Usage(ctx, ledger.Filter{Since: now}, usage.ByKey)
	if err != nil {
		return err
	}
	var all policy.Micro
	for i := range rows {
		all = all.Plus(rows[i].Cost)
		if rows[i].Name == "" { // requests without a key
			continue
		}
		if err := s.day(ctx, now, policy.Account(rows[i].Name), keys, rows[i].Cost, n); err != nil {
			return err
		}
	}
	return s.day(ctx, now, "", nil, all, n)
}

// day compares a key's spending of today, or that of all, with that of a usual day.
func (s *Spending) day(ctx context.Context, now time.Time, key policy.Account, keys []ledger.KeyRow, spent policy.Micro, n *config.Notifications) error {
	today, about := dayOf(now), "spend/"+string(key)
	if spent < max(n.LeastUSD, 1) || s.said[about].began.Equal(today) {
		return nil
	}
	u, ok := s.usual[about]
	if !ok || !u.day.Equal(today) {
		rows, err := s.Books.Usage(ctx, ledger.Filter{Account: key, Since: today.AddDate(0, 0, -usualDays), Until: today.AddDate(0, 0, -1)}, usage.ByDay)
		if err != nil {
			return err
		}
		u = usual{today, median(rows)}
		s.usual[about] = u
	}
	if u.amount == 0 || spent/policy.Micro(n.Factor) <= u.amount {
		return nil
	}
	s.said[about] = said{began: today}
	notice.SpendUnusual.Emit(s.Events, key, notice.Spending{Key: string(key), Name: nameOf(keys, key), Day: today.Format(time.DateOnly), Spent: spent, Usual: u.amount})
	return nil
}

// median is that of the days with spending; 0 where there are too few.
func median(days []ledger.UsageRow) policy.Micro {
	var spent []policy.Micro
	for i := range days {
		if days[i].Cost > 0 {
			spent = append(spent, days[i].Cost)
		}
	}
	if len(spent) < leastDays {
		return 0
	}
	slices.Sort(spent)
	return spent[len(spent)/2]
}

func nameOf(keys []ledger.KeyRow, id policy.Account) string {
	for i := range keys {
		if keys[i].ID == id {
			return keys[i].Name
		}
	}
	return ""
}

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

func monthOf(t time.Time) time.Time {
	return time.Date(t.UTC().Year(), t.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
}
