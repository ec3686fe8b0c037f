package till

import (
	"context"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// A wallet owes its payments that never arrived, but a thief can use a new wallet without a debt. The losses of all wallets within an hour are therefore bounded:
// above the bound, every payment is settled before its request is served, until the losses are lower again.

// lossPeriod is the period for which a loss counts.
const lossPeriod = time.Hour

// losses are the losses of the last period, as of the last pass.
type losses struct {
	cost  policy.Micro
	until time.Time // all payments are settled first until then; zero: not
}

// Losses returns the cost of the last hour's requests whose payments did not arrive, and until when all payments are settled first because of it; zero: they
// are not.
func (t *Till) Losses() (cost policy.Micro, until time.Time) {
	l := t.lost.Load()
	if l == nil {
		return 0, time.Time{}
	}
	if !t.Now().Before(l.until) {
		return l.cost, time.Time{}
	}
	return l.cost, l.until
}

// updateLosses updates the losses, and logs a warning when they reach the bound.
func (t *Till) updateLosses(ctx context.Context) error {
	list, err := t.Book.Losses(ctx, t.Now().Add(-lossPeriod))
	if err != nil {
		return err
	}
	_, before := t.Losses()
	now := sumLosses(list, t.MaxLosses)
	t.lost.Store(&now)
	if _, until := t.Losses(); before.IsZero() && !until.IsZero() {
		t.Log.Warn("too many payments did not arrive: all payments are settled before their requests are served", "lost_usd", now.cost.String(), "most_usd", t.MaxLosses.String(), "until", until)
	}
	return nil
}

// sumLosses returns the sum of losses, and the time when it will be below maxLosses because the earliest ones no longer count. 0 means no bound.
func sumLosses(list []book.Loss, maxLosses policy.Micro) (l losses) {
	for i := range list {
		l.cost = l.cost.Plus(list[i].Cost)
	}
	left := l.cost
	for i := 0; maxLosses > 0 && left >= maxLosses && i < len(list); i++ {
		left -= list[i].Cost
		l.until = list[i].At.Add(lossPeriod)
	}
	return l
}

// refuseUpTo refuses scheme upto for a payment that must be settled first, and states when it is accepted again.
func (t *Till) refuseUpTo(p *pay.Payment) *pay.Refusal {
	_, until := t.Losses()
	if until.IsZero() || t.SettleFirst > 0 && p.Value >= t.SettleFirst {
		return p.Refuse(pay.ReasonScheme, "payments of %s USD and more are settled before their requests are served, which scheme upto cannot be: pay by scheme exact", t.SettleFirst)
	}
	wait := until.Sub(t.Now()).Truncate(time.Second) + time.Second
	return &pay.Refusal{
		Reason: pay.ReasonLosses, RetryAfter: wait,
		Detail: "too many payments to this gateway did not arrive, so that payments are settled before their requests are served, which scheme upto cannot be: pay by scheme exact, or come back in " + wait.String(),
	}
}
