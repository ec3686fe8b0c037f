package extproc

import (
	"context"
	"net/http"
	"strings"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/dryrun"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/localembed"
	"bardo.money/gateway/extproc/modality"
	"bardo.money/gateway/extproc/passthrough"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// modality serves a request to an endpoint other than conversations and embeddings.
func (x *exchange) modality(ctx context.Context, op *modality.Operation, bodyless bool) error {
	if x.dryRun {
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Route: %s cannot be explained", op.Path())
	}
	body, err := x.readBody(bodyless)
	if err != nil {
		return err
	}
	r, err := modality.Parse(op, x.Head.Header.Get("content-type"), body)
	if err != nil {
		return err
	}
	x.Request = &chat.Request{Dialect: x.Dialect.Name(), Op: chat.Modality, Model: r.Model, Stream: r.Stream, Choices: 1, Doc: r.Doc}
	if err := x.ParseBodyHints(); err != nil {
		return err
	}
	if err := x.funds.FindSession(ctx); err != nil {
		return err
	}
	if r.Op.Sealed() {
		if err := x.funds.MayBeSealed(); err != nil {
			return err
		}
	}
	if err := x.findModality(ctx, r); err != nil {
		return err
	}
	if r, err = modality.Protect(ctx, &x.View, r); err != nil {
		return err
	}
	if err := x.payModality(ctx, r); err != nil {
		return err
	}
	call := modality.Call{Request: r, View: &x.View, Egress: x.gw.listener(), Sink: &modalitySink{x, r}}
	x.trace.StartFirstAttempt(x.Arrived, x.Waited)
	return call.Do(ctx, x.client)
}

// findModality finds the candidates, best first.
func (x *exchange) findModality(ctx context.Context, r *modality.Request) error {
	x.ClientModel = r.Model
	if r.Model == "" || intent.Auto(r.Model) {
		if x.Request.Model = modality.Cheapest(&x.View, r); x.Request.Model == "" {
			f := fault.Newf(fault.ModelNotFound, "no model that %s is listed: name one", r.Op.Makes())
			f.Param = "model"
			return f
		}
	}
	f := hint.Facts(x.Request, 0)
	built := x.Config.Needs(&x.Hints, &f, &x.Principal)
	if r.Op.Sealed() {
		built.PrivacyTier = policy.PrivacyEndToEnd
	}
	decided := x.Config.Resolver.Decide(&built.Intent)
	if decided.Err != nil {
		return decided.Err
	}
	x.Found, x.Intent = decided.Order, built.Intent
	for _, filter := range []func() error{
		func() error { return modality.FilterByModel(&x.View, r) }, x.FilterByPayer, func() error { return x.FilterByStored(ctx, x.gw.Ledger.StoredResources) },
		func() error { return modality.FilterByPrice(&x.View, r) }, x.funds.FilterBySession, x.CheckKeyless,
	} {
		if err := filter(); err != nil {
			return err
		}
	}
	return x.ranking.Arrange()
}

// payModality checks the request against its key's limits, and reserves its highest possible cost.
func (x *exchange) payModality(ctx context.Context, r *modality.Request) error {
	if x.funds.OwnKeysPay(x.Order) {
		return x.funds.HoldNothing(ctx)
	}
	maxCost, tokens, err := modality.MaxOf(&x.View, r)
	if err != nil {
		return err
	}
	charge := maxCost.Charge(x.Config.Spread(&x.Principal))
	if err := x.funds.Allot(ctx, x.Order, tokens, charge); err != nil {
		return err
	}
	if err := x.gw.Ledger.Writable(); err != nil && maxCost > 0 {
		return err
	}
	if err := x.funds.HoldSession(ctx, charge); err != nil {
		return err
	}
	return x.bill.Reserve(ctx, charge)
}

// modalitySink records the bill and trace of such a call on its exchange.
type modalitySink struct {
	x *exchange
	r *modality.Request
}

var _ modality.Sink = (*modalitySink)(nil)

// Endpoint implements modality.Sink.
func (s *modalitySink) Endpoint(id policy.ProviderID) provider.Endpoint {
	return s.x.calls.Endpoint(&s.x.View, id)
}

// AttemptStarts implements modality.Sink.
func (s *modalitySink) AttemptStarts(*policy.Resolution) { s.x.trace.AttemptStarted = time.Now() }

// Attested implements modality.Sink.
func (s *modalitySink) Attested(ctx context.Context, to *policy.Resolution, p *attestation.Proof) error {
	return s.x.outcome.KeepProof(ctx, to, p)
}

// Void implements modality.Sink.
func (s *modalitySink) Void(ctx context.Context, to *policy.Resolution, p *attestation.Proof) {
	s.x.outcome.VoidCall(ctx, to, p)
}

// Failed implements modality.Sink.
func (s *modalitySink) Failed(to *policy.Resolution, f *upstream.Failure, next upstream.Decision) {
	s.x.outcome.RecordFailed(*to, f)
	s.x.outcome.RecordDecision(next)
}

// Exhausted implements modality.Sink.
func (s *modalitySink) Exhausted(failures []*upstream.Failure) error {
	return s.x.outcome.NoAnswer(failures)
}

// Headers implements modality.Sink.
func (s *modalitySink) Headers(to *policy.Resolution) header.List {
	h := s.x.answerHeaders(*to)
	if s.x.trace.Settled == nil && s.x.CallerPays(to.Provider) {
		h = append(h, header.Field{Name: "x-bardo-cost", Value: passthrough.CostDirect})
	}
	return h
}

// Settle implements modality.Sink.
func (s *modalitySink) Settle(ctx context.Context, to *policy.Resolution, u *modality.Used, outcome string) (header.List, error) {
	x := s.x
	cost, err := modality.CostOf(&x.View, s.r, to, u)
	if err != nil {
		return nil, err
	}
	usage := u.Usage()
	if x.CallerPays(to.Provider) && !u.Reported {
		usage = chat.Usage{Final: true}
	}
	x.bill.AddPriced(to, usage, cost)
	x.gw.Health.Report(policy.Result{Provider: to.Provider, Outcome: policy.Succeeded, Latency: time.Since(x.trace.AttemptStarted)})
	x.outcome.RecordAttempt(*to, record.OK, "", telemetry.Served)
	sum, err := x.outcome.Settle(ctx, nil, outcome)
	if err != nil {
		return nil, err
	}
	return sum.Headers(nil), nil
}

// passthrough serves a request about a resource that a provider stores.
func (x *exchange) passthrough(ctx context.Context, bodyless bool) error {
	r := passthrough.Request{
		ID: x.ID, Head: &x.Head, Account: x.Principal.Account, Started: x.Started, OwnKey: x.OwnKey.IsSet(), Direct: x.userProvider,
		Timeout: x.Config.Timeouts.Total, MaxAnswer: x.Config.MaxAnswer, EgressSecret: x.Config.EgressSecret,
		Header: x.report.IDHeaders(), Redactor: x.Redactor(), Sink: (*passthroughSink)(x),
	}
	if !bodyless {
		r.Body = func() ([]byte, error) { return x.receive(x.Config.MaxBody) }
	}
	return x.gw.resources.Serve(ctx, x.client, &r)
}

// userProvider returns a provider whose requests are paid with users' own keys.
func (x *exchange) userProvider(id policy.ProviderID) (passthrough.Provider, bool) {
	p := x.Config.Provider(id)
	return passthrough.Provider{Adapter: p.Adapter, Endpoint: p.Endpoint, Cluster: p.Cluster}, p.Direct
}

// passthroughSink records the outcome of a passthrough request on its exchange.
type passthroughSink exchange

var _ passthrough.Sink = (*passthroughSink)(nil)

// Attempted implements passthrough.Sink.
func (s *passthroughSink) Attempted(a record.Attempt) { s.trace.Attempts = append(s.trace.Attempts, a) }

// Ended implements passthrough.Sink.
func (s *passthroughSink) Ended(e record.End) {
	s.trace.Unbilled = &e
}

// Explain returns how a request would be served. Nothing is sent, counted or charged.
func (g *Gateway) Explain(query *dryrun.Query) dryrun.Result {
	plan := func(ids []policy.ProviderID) []policy.ProviderID {
		order, done := g.Health.Plan(ids)
		done()
		return order
	}
	rt := g.runtime.Load()
	if rt.Classifier.Applies(&query.Hints, &query.Facts) {
		query.Facts.Reading, query.Unread = rt.Classifier.Classify(context.Background(), query.Principal.Account, query.Facts.Text)
	}
	return dryrun.Run(rt, query, plan, g.Health.State)
}

// explain answers with how the request would be served. It counts as a lookup: no provider is called, and nothing is charged.
func (x *exchange) explain(ctx context.Context) error {
	x.trace.Operation = telemetry.Explain
	_, tier := x.RequestedTier()
	x.Hints.CacheKey = x.gw.epochs.Peek(x.Principal.Account, x.Hints.GolemID)
	e := x.gw.Explain(&dryrun.Query{
		Hints: x.Hints, Facts: hint.Facts(x.Request, int64(x.Request.MaxTokens)), Principal: x.Principal, At: x.Started, ServiceTier: tier,
		Request: x.Request, Broke: x.funds.BalanceEmpty(ctx), OwnKey: x.OwnKey,
		Affinity: func(built *intent.Built) policy.ServedBy {
			turn := x.gw.turnOf(x.Request, &x.Hints, x.Principal.Account, built)
			return x.gw.conversations.Find(&turn)
		},
	})
	r := stream.Reply{Status: http.StatusOK, Header: append(x.report.IDHeaders(), header.Field{Name: "content-type", Value: header.JSON}), Body: e.JSON()}
	if strings.HasPrefix(x.Head.Header.Get("accept"), "text/plain") {
		r.Header[len(r.Header)-1].Value = "text/plain; charset=utf-8"
		r.Body = []byte(e.Text())
		if e.Error != "" {
			r.Body = append(r.Body, "\nerror: "+e.Error+"\n"...)
		}
	}
	return x.reply(r)
}

// localModel returns the local model that serves the request; nil if a provider does. For embeddings with model auto, that is the operator's choice,
// local or at a provider.
func (x *exchange) localModel() *localembed.Model {
	r, e := x.Request, &x.Config.Embeddings
	if r.Op != chat.Embed {
		return nil
	}
	if m := e.Local; m != nil && (intent.Auto(r.Model) || strings.EqualFold(r.Model, string(m.ID))) {
		return m
	}
	if e.Remote != "" && intent.Auto(r.Model) {
		r.Model = e.Remote
	}
	return nil
}

// embed answers a request for embeddings by the local model. No data leaves this machine, so private requests are allowed.
func (x *exchange) embed(ctx context.Context, m *localembed.Model) error {
	if x.dryRun {
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Route: %s runs in the gateway: it has no route to explain", m.ID)
	}
	r, err := m.Parse(&x.Request.Doc)
	if err != nil {
		return err
	}
	to := policy.Resolution{Provider: localembed.Provider, Model: m.ID, Upstream: m.About.Name, Context: m.About.Window, Prices: policy.Prices{Known: true}}
	x.ClientModel, x.Request.Model = x.Request.Model, string(m.ID)
	x.Found, x.Order = []policy.Resolution{to}, []policy.Resolution{to}
	if err := x.funds.Allot(ctx, x.Order, x.Request.InputTokens, 0); err != nil {
		return err
	}
	if err := x.funds.HoldNothing(ctx); err != nil {
		return err
	}
	x.trace.StartFirstAttempt(x.Arrived, x.Waited)
	timeoutCtx, cancel := context.WithTimeout(ctx, x.Config.Timeouts.Total)
	defer cancel()
	a, err := m.Do(timeoutCtx, &r)
	if err != nil {
		return err
	}
	x.bill.AddPriced(&to, chat.Usage{Input: a.Tokens, Final: true}, 0)
	x.outcome.RecordAttempt(to, record.OK, "", telemetry.Served)
	sum, err := x.outcome.Settle(ctx, nil, record.OK)
	if err != nil {
		return err
	}
	reply := x.Head.JSON(a.Body)
	reply.Header = append(append(reply.Header, x.answerHeaders(to)...), sum.Headers(nil)...)
	return x.client.Reply(reply)
}

// countTokens answers a token count locally.
func (x *exchange) countTokens() error {
	r := api.CountTokens(x.Request, x.Order[0].Model, &x.Head, x.gw.meter.Corrected(x.Order[0].Model, x.Request.InputTokens))
	r.Header = append(r.Header, x.report.IDHeaders()...)
	return x.reply(r)
}
