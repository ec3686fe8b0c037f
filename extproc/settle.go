package extproc

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
)

// How an exchange ended, in its record and in the metrics.
const (
	outcomeOK        = "ok"
	outcomeCut       = "cut"       // the provider broke off after the first content
	outcomeCancelled = "cancelled" // the client left after the first content
	outcomeInvalid   = "invalid"   // no answer had the form that was asked for
	outcomeFailed    = "failed"    // the client got an error and nothing else
	outcomeLeft      = "left"      // the client left before the first content
)

// summary is what a settled answer cost.
type summary struct {
	x        *exchange
	to       policy.Resolution
	usage    chat.Usage
	outcome  string
	cost     policy.Pico // the provider's
	charged  policy.Micro
	staked   policy.Micro // what staked credit paid for, at its provider's prices
	saved    policy.Micro // what a stored answer would have been charged
	balance  policy.Micro
	prepaid  bool
	standing quota.Standing
}

// settle charges for an answer, once. It returns when the charge is durable (prepaid keys) or queued (metered ones), so that the
// last byte may go out. The client's leaving does not undo it.
func (x *exchange) settle(ctx context.Context, a *answer, outcome string) (*summary, error) {
	x.unsaid = a.enc.Lost()
	if x.stored != nil {
		return x.settleStored(ctx, outcome)
	}
	s := &summary{x: x, to: a.res, outcome: outcome, prepaid: x.Principal.Prepaid}
	x.settled = s
	if !x.isTokenCount() { // a count uses nothing and costs nothing
		s.usage, s.cost = x.owed(a)
		s.charged = s.cost.Charge(x.rt.spread(x.Principal.Tier))
		s.staked = x.stakedBy(a)
	}
	if outcome != outcomeCut && !a.counted {
		x.attempted(a.res, attemptWord(outcome), telemetry.Served)
		x.gw.Health.Report(policy.Result{Provider: a.res.Provider, Outcome: policy.Succeeded, Latency: cmp.Or(x.firstToken, time.Since(x.started))})
		x.remember(a)
	}
	if err := s.book(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	x.tellAnswer(a, &s.usage)
	x.tellReasoning(a)
	x.keepReasoning(a)
	s.standing = x.grant.Done(time.Now(), s.usage.TotalInput()+s.usage.Output, s.charged)
	x.account(s.charged)
	if err := x.keepResponse(context.WithoutCancel(ctx), a); err != nil {
		return nil, err
	}
	return s, nil
}

// costOf is what a provider asks for an answer: what it says itself, else what its usage comes to. What the caller pays itself costs
// nothing here.
func (x *exchange) costOf(to *policy.Resolution, u *chat.Usage) policy.Pico {
	if x.direct(to.Provider) {
		return 0
	}
	if u.Cost > 0 {
		return u.Cost
	}
	p := x.pricesOf(to, u)
	return p.Cost(u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h, u.Output) + p.PerSearch*policy.Pico(u.Searches)
}

// book writes the charge and the request's record.
func (s *summary) book(ctx context.Context) error {
	x := s.x
	if x.isTokenCount() {
		return nil
	}
	c := ledger.Charge{
		RequestID: x.ID, Account: x.Principal.Account, Amount: s.charged, ProviderCost: s.cost,
		Tokens:   ledger.Tokens(s.used()),
		Provider: s.to.Provider, Model: s.to.Model, Subsystem: x.Hints.Subsystem, Status: s.outcome, Record: s.record(), At: x.started,
		Agent: x.Hints.GolemID, Part: budget.PartOf(x.Hints.Subsystem).String(), Staked: s.staked,
	}
	if x.hold == nil {
		return x.gw.Ledger.Record(c)
	}
	r, err := x.gw.Ledger.Capture(ctx, x.hold, c)
	if err != nil {
		return err
	}
	s.charged, s.balance = r.Charged, r.Balance
	return nil
}

// giveBack frees what an exchange still holds of its key's money and limits. One that was settled holds nothing any more.
func (x *exchange) giveBack() {
	x.grant.Done(time.Now(), 0, 0)
	x.account(0)
	x.gw.Ledger.Release(x.hold)
}

// finish gives back what an exchange still holds, leaves a record of one that failed, and counts it.
func (x *exchange) finish() {
	x.giveBack()
	if x.settled == nil && x.Request != nil {
		x.settled = &summary{x: x, outcome: outcomeFailed}
		if x.fault == nil {
			x.settled.outcome = outcomeLeft
		}
		if len(x.Order) > 0 {
			x.settled.to = x.Order[0]
		}
		x.hold = nil
		if err := x.settled.book(context.Background()); err != nil {
			x.gw.Log.Error("a failed request has no record", "request", x.ID, "error", err)
		}
	}
	x.count()
}

// count adds the exchange to the metrics.
func (x *exchange) count() {
	r := telemetry.Request{Duration: time.Since(x.started), FirstToken: x.firstToken, Overhead: x.overhead}
	r.Status, r.Code = x.verdict()
	if x.Request != nil {
		r.Model, r.Streamed, r.Operation = x.Request.Model, x.Request.Stream, x.operation()
	}
	if s := x.settled; s != nil && s.outcome != outcomeFailed && s.outcome != outcomeLeft {
		r.Provider, r.Model = string(s.to.Provider), string(s.to.Model)
		r.Tokens = s.used()
		r.ProviderCost, r.Charged = int64(s.cost), int64(s.charged)
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
	return tokens(s.usage)
}

// tokens are a usage by type; both lifetimes of cache writes count as one.
func tokens(u chat.Usage) telemetry.Tokens {
	return telemetry.Tokens{Input: u.Input, Cached: u.Cached, CacheWrite: u.CacheWrite + u.CacheWrite1h, Output: u.Output, Reasoning: u.Reasoning}
}

// statusClientClosed is what a request counts as whose client left before it was answered; no client ever sees it.
const statusClientClosed = 499

// verdict is the status, and the code of the fault, that the exchange counts as.
func (x *exchange) verdict() (status int, code string) {
	switch {
	case x.fault != nil:
		return x.fault.HTTPStatus(), string(x.fault.Kind)
	case x.settled != nil && x.settled.outcome == outcomeLeft:
		return statusClientClosed, "client_closed"
	}
	return http.StatusOK, ""
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
		slog.String("provider", r.Provider), slog.String("model", r.Model), slog.Int("attempts", len(x.attempts)),
		slog.Duration("took", r.Duration),
	}
	if x.fault != nil {
		attrs = append(attrs, slog.String("error", x.fault.Error()))
	}
	x.gw.Log.LogAttrs(ctx, level, "request", attrs...)
}

func (x *exchange) operation() telemetry.Operation {
	if x.isTokenCount() {
		return telemetry.CountTokens
	}
	return telemetry.Chat
}

// attemptWord is what the record calls the last attempt of an exchange that ended so.
func attemptWord(outcome string) string {
	if outcome == outcomeInvalid {
		return "schema"
	}
	return outcomeOK
}
