package alerts

import (
	"context"
	"time"

	"bardo.money/gateway/cmd/bardo/run/notice"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/usage"
)

// sums is the spending since the beginning of a day or month.
type sums struct {
	period string
	began  time.Time
	by     map[policy.Holder]map[string]policy.Micro
}

// checkBudgets compares spending with the daily and monthly limits.
func (s *Spending) checkBudgets(ctx context.Context, now time.Time, keys []ledger.KeyRow, nearPct int) error {
	projects, err := s.Books.Groups(ctx, policy.OfProject)
	if err != nil {
		return err
	}
	owners, err := s.Books.Groups(ctx, policy.OfOwner)
	if err != nil {
		return err
	}
	for _, p := range []sums{{period: "day", began: dayOf(now)}, {period: "month", began: monthOf(now)}} {
		if p.by, err = s.spent(ctx, p.began, projects); err != nil {
			return err
		}
		of := func(day, month policy.Micro) policy.Micro {
			if p.period == "day" {
				return day
			}
			return month
		}
		for i := range keys {
			k := &keys[i]
			if !k.Revoked() {
				s.checkBudget(&p, notice.Budget{Holder: policy.OfKey, ID: string(k.ID), Name: k.Name, Limit: of(k.SpendDay, k.SpendMonth)}, nearPct)
			}
		}
		for _, groups := range [][]ledger.Group{projects, owners} {
			for _, g := range groups {
				s.checkBudget(&p, notice.Budget{Holder: g.Kind, ID: g.ID, Name: g.Name, Limit: of(g.SpendDay, g.SpendMonth)}, nearPct)
			}
		}
	}
	return nil
}

// spent returns the spending of keys, projects and owners since a day.
func (s *Spending) spent(ctx context.Context, since time.Time, projects []ledger.Group) (map[policy.Holder]map[string]policy.Micro, error) {
	ofKeys, err := s.spentBy(ctx, since, usage.ByKey)
	if err != nil {
		return nil, err
	}
	ofProjects, err := s.spentBy(ctx, since, usage.ByProject)
	if err != nil {
		return nil, err
	}
	ofOwners := map[string]policy.Micro{}
	for _, p := range projects {
		ofOwners[p.Owner] = ofOwners[p.Owner].Plus(ofProjects[p.ID])
	}
	return map[policy.Holder]map[string]policy.Micro{policy.OfKey: ofKeys, policy.OfProject: ofProjects, policy.OfOwner: ofOwners}, nil
}

// spentBy returns the spending since a day, by one dimension.
func (s *Spending) spentBy(ctx context.Context, since time.Time, by ledger.By) (map[string]policy.Micro, error) {
	rows, err := s.Books.Usage(ctx, ledger.Filter{Since: since}, by)
	spent := make(map[string]policy.Micro, len(rows))
	for i := range rows {
		spent[rows[i].Name] = rows[i].Cost
	}
	return spent, err
}

// checkBudget emits that a limit is nearly spent, and that it is spent, once each per period.
func (s *Spending) checkBudget(p *sums, b notice.Budget, nearPct int) {
	if b.Limit <= 0 {
		return
	}
	b.Period, b.Spent = p.period, p.by[b.Holder][b.ID]
	b.Percent = int(float64(b.Spent) / float64(b.Limit) * 100)
	about, spent := string(b.Holder)+"/"+b.ID+"/"+b.Period, b.Spent >= b.Limit
	if last := s.emitted[about]; b.Percent < nearPct || last.began.Equal(p.began) && (last.spent || !spent) {
		return
	}
	s.emitted[about] = emission{p.began, spent}
	var account policy.Account
	if b.Holder == policy.OfKey {
		account = policy.Account(b.ID)
	}
	notice.BudgetNear.Emit(s.Events, account, b)
}
