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

// Books is the part of the ledger that is read.
type Books interface {
	Keys(ctx context.Context) ([]ledger.KeyRow, error)
	Groups(ctx context.Context, kind policy.Holder) ([]ledger.Group, error)
	Usage(ctx context.Context, f ledger.Filter, by ledger.By) ([]ledger.UsageRow, error)
}

// Spending monitors the spending of keys, projects and owners, and emits notice.BudgetNear, notice.SpendUnusual and notice.UsageOfDay, each once per day or
// month, and again after a restart. It reads the ledger concurrently with requests.
type Spending struct {
	Books  Books
	Config func() *config.Config
	Served func() uint64 // number of requests so far: while it does not change, spending is checked less often
	Events *event.Sink
	Log    *slog.Logger

	emitted   map[string]emission
	baselines map[string]baseline
	reported  time.Time // the day on which the previous day's usage was emitted
}

// emission records an emitted event: in which period, and whether the limit was spent.
type emission struct {
	began time.Time
	spent bool
}

// baseline is a key's usual spending per day, as of a day.
type baseline struct {
	day    time.Time
	amount policy.Micro // 0: too few days are known
}

const (
	// checkInterval is the time between two checks.
	checkInterval = 10 * time.Second
	// idleInterval is that without requests at this gateway, since other gateways may use the ledger.
	idleInterval = 5 * time.Minute

	// baselineDays is the number of previous days in the baseline; minBaselineDays of them must have spending.
	baselineDays    = 14
	minBaselineDays = 3
)

// Run checks spending until ctx is done.
func (s *Spending) Run(ctx context.Context) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	var checked time.Time
	served := s.Served() - 1
	for {
		now, n := time.Now().UTC(), s.Served()
		if s.Config().Notifications.Enabled() && (n != served || now.Sub(checked) >= idleInterval) {
			served, checked = n, now
			if err := s.Check(ctx, now); err != nil && ctx.Err() == nil {
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

// Check compares spending with limits and baselines.
func (s *Spending) Check(ctx context.Context, now time.Time) error {
	if s.emitted == nil {
		s.emitted, s.baselines = map[string]emission{}, map[string]baseline{}
	}
	keys, err := s.Books.Keys(ctx)
	if err != nil {
		return err
	}
	n := &s.Config().Notifications
	if n.Sends("budget") {
		if err := s.checkBudgets(ctx, now, keys, n.NearPct); err != nil {
			return err
		}
	}
	if n.Sends("usage") {
		if err := s.reportLastDay(ctx, now, keys); err != nil {
			return err
		}
	}
	if !n.Sends("spend") {
		return nil
	}
	return s.checkDays(ctx, now, keys, n)
}

// checkDays compares today's spending with the baselines, of all keys together and of each key.
func (s *Spending) checkDays(ctx context.Context, now time.Time, keys []ledger.KeyRow, n *config.Notifications) error {
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
		if err := s.checkDay(ctx, now, policy.Account(rows[i].Name), keys, rows[i].Cost, n); err != nil {
			return err
		}
	}
	return s.checkDay(ctx, now, "", nil, all, n)
}

// checkDay compares today's spending of a key, or of all keys if key is "", with its baseline.
func (s *Spending) checkDay(ctx context.Context, now time.Time, key policy.Account, keys []ledger.KeyRow, spent policy.Micro, n *config.Notifications) error {
	today, about := dayOf(now), "spend/"+string(key)
	if spent < max(n.LeastUSD, 1) || s.emitted[about].began.Equal(today) {
		return nil
	}
	u, ok := s.baselines[about]
	if !ok || !u.day.Equal(today) {
		rows, err := s.Books.Usage(ctx, ledger.Filter{Account: key, Since: today.AddDate(0, 0, -baselineDays), Until: today.AddDate(0, 0, -1)}, usage.ByDay)
		if err != nil {
			return err
		}
		u = baseline{today, median(rows)}
		s.baselines[about] = u
	}
	if u.amount == 0 || spent/policy.Micro(n.Factor) <= u.amount {
		return nil
	}
	s.emitted[about] = emission{began: today}
	notice.SpendUnusual.Emit(s.Events, key, notice.Spending{Key: string(key), Name: nameOf(keys, key), Day: today.Format(time.DateOnly), Spent: spent, Usual: u.amount})
	return nil
}

// median is the median of the days with spending; 0 if there are too few.
func median(days []ledger.UsageRow) policy.Micro {
	var spent []policy.Micro
	for i := range days {
		if days[i].Cost > 0 {
			spent = append(spent, days[i].Cost)
		}
	}
	if len(spent) < minBaselineDays {
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
