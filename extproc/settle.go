package extproc

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
)

// summary is what a settled answer cost.
type summary struct {
	meter.Total

	x        *exchange
	to       policy.Resolution
	outcome  string
	saved    policy.Micro // what a stored answer would have been charged
	balance  policy.Micro
	prepaid  bool
	standing quota.Standing
}

// settle ends the request's bill: of all the ways in which a request may end, each comes here, once. a is the answer that the client gets,
// or what there is of it; nil where there is none. It returns when the charge is durable (prepaid keys) or queued (others), so that the last
// byte may go out. A client disconnect does not undo it.
func (x *exchange) settle(ctx context.Context, a *answer, outcome string) (*summary, error) {
	if x.settled != nil {
		return x.settled, nil
	}
	if a != nil {
		x.unsaid = a.enc.Lost()
	}
	if x.stored != nil {
		return x.settleStored(ctx, outcome)
	}
	s := &summary{x: x, outcome: outcome, prepaid: x.Principal.Prepaid}
	x.settled = s
	if !x.isTokenCount() { // a count uses nothing and costs nothing
		x.bring(a, outcome)
	}
	s.Total, s.to = x.bill.Total(), x.billed(a)
	if outcome == record.OK || outcome == record.Invalid || outcome == record.Cancelled && a != nil && a.content {
		x.served(a, outcome)
	}
	if err := s.book(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	if a == nil {
		return s, nil
	}
	x.tellAnswer(a, &s.Usage)
	x.tellReasoning(a)
	x.keepReasoning(a)
	if err := x.keepMade(context.WithoutCancel(ctx), a); err != nil {
		return nil, err
	}
	return s, nil
}

// bring puts the call that the request ends with on the bill.
func (x *exchange) bring(a *answer, outcome string) {
	switch {
	case a != nil && !a.counted && (outcome == record.OK || outcome == record.Invalid):
		x.owe(a, a.total())
	case outcome == record.Cut || outcome == record.Cancelled || outcome == record.Disconnected:
		x.interrupt(a)
	}
}

// interrupt puts the call under way on the bill, if there is one: the request ends in the middle of it.
func (x *exchange) interrupt(a *answer) {
	to, since := x.bill.InFlight()
	if to == nil {
		return
	}
	var c *meter.Count
	if a != nil && !a.counted {
		a.counted, c = true, &a.count
	}
	if c == nil || !a.content {
		x.attempts = append(x.attempts, record.Attempt{Provider: to.Provider, Model: to.Model, Outcome: record.ClientClosed})
	}
	u := x.bill.Interrupted(to, c, since)
	x.bill.Over()
	if x.bill.Add(to, u) {
		x.tellCapped(to, &u)
	}
}

// billed is who is named in the request's record: who gave the answer, else whose call came last, else who would have been called.
func (x *exchange) billed(a *answer) policy.Resolution {
	calls := x.bill.Calls()
	switch {
	case a != nil:
		return a.res
	case len(calls) > 0:
		return calls[len(calls)-1].To
	case len(x.Order) > 0:
		return x.Order[0]
	}
	return policy.Resolution{}
}

// served notes that a candidate answered.
func (x *exchange) served(a *answer, outcome string) {
	if a == nil || a.noted {
		return
	}
	a.noted = true
	x.attempted(a.res, attemptWord(outcome), telemetry.Served)
	x.gw.Health.Report(policy.Result{Provider: a.res.Provider, Outcome: policy.Succeeded, Latency: cmp.Or(x.firstToken, time.Since(x.started))})
	x.remember(a)
	if outcome == record.OK {
		x.gw.meter.Learn(&a.res, a.count.Reported.Output, time.Since(a.began))
	}
}

// book writes the charge and the request's record.
func (s *summary) book(ctx context.Context) error {
	x := s.x
	if x.isTokenCount() {
		return nil
	}
	t := s.Total
	if x.stored != nil { // what it took once is shown, and owed to nobody
		t = meter.Total{}
	}
	r, err := x.bill.Settle(ctx, &t, ledger.Charge{
		Tokens:   ledger.Tokens(s.used()),
		Provider: s.to.Provider, Model: s.to.Model, Subsystem: x.Hints.Subsystem, Status: s.outcome, Record: s.record(), At: x.started,
		Agent: x.Hints.GolemID, Part: budget.PartOf(x.Hints.Subsystem).String(),
	})
	if err != nil {
		return err
	}
	s.Charged, s.balance, s.standing = r.Charged, r.Balance, x.bill.Standing()
	return nil
}

// finish ends a request that nobody ended, one whose client disconnected, and counts it.
func (x *exchange) finish() {
	x.end()
	x.settleSearch()
	x.bill.Release()
	x.count()
}

// end settles a request that was not answered, or whose client disconnected, unless that was done before.
func (x *exchange) end() {
	switch {
	case x.settled != nil || x.unmetered != nil || !x.operation.Metered():
		return
	case x.neverCalled():
		x.refuse()
		return
	case x.Request == nil:
		return
	}
	if _, err := x.settle(context.Background(), x.partial(), x.unfinished()); err != nil {
		x.gw.Log.Error("a request that ended early was not charged", "request", x.ID, "error", err)
	}
}

// partial is what there is of an answer; nil for nothing.
func (x *exchange) partial() *answer {
	if x.fault != nil {
		return nil
	}
	return x.current
}

// unfinished is how a request ended that nobody ended.
func (x *exchange) unfinished() string {
	switch {
	case x.fault != nil:
		return record.Failed
	case x.current != nil && x.current.content || len(x.bill.Calls()) > 0:
		return record.Cancelled
	}
	return record.Disconnected
}

// settleRefused charges for the calls of a request that ends in an error, while its money is still reserved: the models did their work.
// It is nil where there are none.
func (x *exchange) settleRefused(f *fault.Fault) *summary {
	if x.settled != nil || len(x.bill.Calls()) == 0 {
		return nil
	}
	x.fault = f
	sum, err := x.settle(context.Background(), nil, record.Invalid)
	if err != nil {
		x.gw.Log.Error("a refused request was not charged", "request", x.ID, "error", err)
		return nil
	}
	return sum
}

// count adds the exchange to the metrics.
func (x *exchange) count() {
	r := telemetry.Request{Duration: time.Since(x.started), FirstToken: x.firstToken, Overhead: x.overhead}
	r.Status, r.Code = x.verdict()
	r.Operation = x.operation
	if x.Request != nil {
		r.Model, r.Streamed = x.Request.Model, x.Request.Stream
	}
	if a := x.unmetered; a != nil {
		r.Provider = string(a.provider)
	}
	if s := x.settled; s != nil && (s.outcome == record.OK || len(x.bill.Calls()) > 0) {
		r.Provider, r.Model = string(s.to.Provider), string(s.to.Model)
		r.Tokens = s.used()
		r.ProviderCost, r.Charged = int64(s.Cost), int64(s.Charged)
	}
	for _, e := range x.Log {
		x.gw.Metrics.LayerDone(e.Layer, e.Took)
	}
	if c, ok := x.known.measure(); ok {
		x.gw.Metrics.CacheAsked(c)
		if c == telemetry.CacheMiss {
			x.Cache.Miss()
		}
	}
	x.gw.Metrics.RequestDone(&r)
	x.tell(&r)
	x.log(&r)
	x.gw.Metrics.ExchangeEnded()
}

// used are the tokens that a provider was asked for: none for a stored answer.
func (s *summary) used() telemetry.Tokens {
	if s.x.stored != nil {
		return telemetry.Tokens{}
	}
	return tokens(s.Usage)
}

// tokens are a usage by type; both lifetimes of cache writes count as one.
func tokens(u chat.Usage) telemetry.Tokens {
	return telemetry.Tokens{Input: u.Input, Cached: u.Cached, CacheWrite: u.CacheWrite + u.CacheWrite1h, Output: u.Output, Reasoning: u.Reasoning}
}

// verdict is the status, and the code of the fault, that the exchange counts as.
func (x *exchange) verdict() (status int, code string) {
	switch {
	case x.fault != nil:
		return x.fault.HTTPStatus(), string(x.fault.Kind)
	case x.unmetered != nil:
		return x.unmetered.status, x.unmetered.code
	case x.settled != nil && x.settled.outcome != record.Disconnected:
		return http.StatusOK, ""
	}
	return record.StatusClientClosed, record.CodeClientClosed
}

// log says how the exchange ended: what went wrong on our side or a provider's as a warning, with its cause; the rest for debugging.
func (x *exchange) log(r *telemetry.Request) {
	level := slog.LevelDebug
	if r.Status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !x.gw.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", x.ID), slog.String("account", string(x.Principal.Account)), slog.Int("status", r.Status),
		slog.String("operation", r.Operation.String()), slog.String("provider", r.Provider), slog.String("model", r.Model), slog.Int("attempts", len(x.attempts)),
		slog.Duration("took", r.Duration),
	}
	if x.fault != nil {
		attrs = append(attrs, slog.String("error", x.fault.Error()))
	}
	x.gw.Log.LogAttrs(ctx, level, "request", attrs...)
}
