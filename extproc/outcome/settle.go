package outcome

import (
	"context"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/passthrough"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
)

// Settle ends the request's bill. Every way in which a request can end comes here, once. a is the client's answer, complete or not; nil for none. It
// returns when the charge is durable (prepaid keys) or queued (others), before the last byte is sent. A client disconnect does not undo it.
func (o *Outcome) Settle(ctx context.Context, a *reading.Answer, outcome string) (*report.Summary, error) {
	if o.Trace.Settled != nil {
		return o.Summary(o.Trace.Settled), nil
	}
	o.Calls.Answered()
	var by *policy.Resolution
	if a != nil {
		by, o.DegradedAnswer = &a.By, a.Encoder.Degraded()
	}
	if o.Stored != nil {
		return o.settleStored(ctx, outcome)
	}
	s := o.newSummary(outcome)
	if !o.IsTokenCount() { // a token count costs nothing
		o.billLastCall(a, outcome)
	}
	total := o.Bill.Total()
	s.Usage, s.Cost, s.Charged, s.By = total.Usage, total.Cost, total.Charged, o.By(by)
	if outcome == record.OK {
		s.Savings, s.Saved = o.Effects.Saved(&s.By)
	}
	if outcome == record.OK || outcome == record.Invalid || outcome == record.Refused || outcome == record.Cancelled && a != nil && a.Content {
		o.recordServed(a, outcome)
	}
	o.Owner.Yield()
	if err := o.book(ctx, s, &total); err != nil {
		o.voidStoredProof()
		return nil, err
	}
	if a == nil {
		o.Cognition(s, cognition.Seen{})
		return s, nil
	}
	o.Cognition(s, a.Seen)
	o.Answered(&a.By, &s.Usage)
	o.reportReasoning(a)
	o.keepReasoning(a)
	if err := o.recordStoredOwners(ctx, a); err != nil {
		return nil, err
	}
	return s, nil
}

// settleStored charges only for layers' side calls, and writes the record.
func (o *Outcome) settleStored(ctx context.Context, outcome string) (*report.Summary, error) {
	e := o.Stored
	s := o.newSummary(outcome)
	s.By, s.Usage = e.By, e.Usage // its original usage is reported, but not charged
	s.Savings, s.Saved = o.Effects.SavedByCache()
	o.Cache.Hit(e, s.Saved)
	total := o.Bill.Total()
	if err := o.book(ctx, s, &total); err != nil {
		return nil, err
	}
	if err := o.Bill.Payer().ReadBalance(ctx); err != nil { // the answer is sent even if that fails
		o.Logger.Warn("a balance cannot be read", "request", o.ID, "error", err)
	}
	o.keepReasoning(o.Current)
	return s, nil
}

// recordStoredOwners records the owner of what a provider stored with its answer: the response, its items, and resources such as a container. It is
// recorded before the client has the whole answer.
func (o *Outcome) recordStoredOwners(ctx context.Context, a *reading.Answer) error {
	if !o.storedByProvider(a) {
		return nil
	}
	ids := a.StoredIDs
	if o.StoredAt(&a.By) && a.ID != "" {
		ids = append(ids, a.ID)
	}
	return o.Ledger.AddStoredResources(context.WithoutCancel(ctx), passthrough.Owned(o.Principal.Account, a.By.Provider, ids)...)
}

// storedByProvider reports whether the provider stored anything with its answer whose owner has to be recorded.
func (o *Outcome) storedByProvider(a *reading.Answer) bool {
	return !o.OwnKey.IsSet() && (len(a.StoredIDs) > 0 || o.StoredAt(&a.By) && a.ID != "")
}

// SettlesSlowly reports whether settle waits for the ledger: to record an owner, or to reserve more money.
func (o *Outcome) SettlesSlowly(a *reading.Answer) bool {
	return o.storedByProvider(a) || !o.Bill.Reserved(a.RequestTotal().Charged)
}

// newSummary returns a summary of the request's outcome; settle fills in the cost.
func (o *Outcome) newSummary(outcome string) *report.Summary {
	o.Trace.Settled = &record.Settlement{Outcome: outcome, Stored: o.Stored != nil}
	return o.Summary(o.Trace.Settled)
}

// book writes the charge of a total and the request's record.
func (o *Outcome) book(ctx context.Context, s *report.Summary, t *meter.Total) error {
	if o.IsTokenCount() {
		return nil
	}
	r, err := o.Bill.Settle(ctx, t, ledger.Charge{
		Tokens:   ledger.Tokens(s.Tokens()),
		Provider: s.By.Provider, Model: s.By.Model, Subsystem: o.Hints.Subsystem, Status: s.Outcome, Record: s.Record(o.Owner.Path()), At: o.Started,
		Agent: o.Hints.GolemID, Part: budget.PartOf(o.Hints.Subsystem).String(), Savings: s.Savings,
	})
	if err != nil {
		return err
	}
	o.Later.Note()
	o.Funds.SpendSession(ctx, r.Charged)
	s.Charged, s.Standing = r.Charged, o.Bill.Standing()
	return nil
}

// SettleRefused charges for the calls of a request that ends in an error, while its reservation is still held: the providers billed them. It returns
// nil for a request without calls.
func (o *Outcome) SettleRefused(f *fault.Fault) *report.Summary {
	if o.Trace.Settled != nil || o.Bill.Answers() == 0 || o.Later.Waits(f) {
		return nil
	}
	o.Trace.Fault = f
	sum, err := o.Settle(context.Background(), nil, record.Invalid)
	if err != nil {
		o.Logger.Error("a refused request was not charged", "request", o.ID, "error", err)
		return nil
	}
	return sum
}

// SettleRefusal bills a refused answer: the provider billed it.
func (o *Outcome) SettleRefusal(ctx context.Context, a *reading.Answer, f *fault.Fault) (*report.Summary, error) {
	o.Current, o.Trace.Fault, o.Unanswered = a, f, f
	return o.Settle(context.WithoutCancel(ctx), a, record.Refused)
}

// RecordRefused records the error that the client gets. The record is written and the reservation released before the error is sent, because the
// client may read or retry immediately.
func (o *Outcome) RecordRefused(f *fault.Fault) {
	if f.Status == upstream.StatusOverloaded && o.Dialect.Name() != chat.Anthropic {
		f.Status = 0 // only Anthropic's clients know this status
	}
	o.Trace.Fault = f
	o.voidStoredProof()
	o.settleUnfinished()
	o.Bill.Release()
}
