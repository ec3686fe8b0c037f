package till

import (
	"context"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// A wallet whose payment never arrived owes it, and a thief takes another wallet, which owes nothing. So what all of them have cost together within an hour is bounded: from there on every
// payment is settled first, which cannot be lost, until it is less again.

// lossTime is how long a loss counts.
const lossTime = time.Hour

// losses are what was lost, as the loop knows it.
type losses struct {
	cost  policy.Micro
	until time.Time // payments are settled first until then; zero: they are not
}

// Losses are what requests of the last hour have cost whose payments did not arrive, and until when payments are settled first for that; zero if they are not.
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

// watchLosses looks whether too much was lost.
func (t *Till) watchLosses(ctx context.Context) error {
	list, err := t.Book.Losses(ctx, t.Now().Add(-lossTime))
	if err != nil {
		return err
	}
	_, before := t.Losses()
	now := boundOf(list, t.MostLosses)
	t.lost.Store(&now)
	if _, until := t.Losses(); before.IsZero() && !until.IsZero() {
		t.Log.Warn("too many payments did not arrive: all payments are settled before their requests are served", "lost_usd", now.cost.String(), "most_usd", t.MostLosses.String(), "until", until)
	}
	return nil
}

// boundOf is what losses come to, and when they will be less than the most that is allowed: as the earliest ones do not count any more. 0 allows any.
func boundOf(list []book.Loss, most policy.Micro) (l losses) {
	for i := range list {
		l.cost = l.cost.Plus(list[i].Cost)
	}
	left := l.cost
	for i := 0; most > 0 && left >= most && i < len(list); i++ {
		left -= list[i].Cost
		l.until = list[i].At.Add(lossTime)
	}
	return l
}

// refuseUpTo refuses scheme upto for payments that are settled first, and says when it is taken again.
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
