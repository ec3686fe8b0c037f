package extproc

import (
	"context"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/cors"
	"bardo.money/gateway/extproc/effects"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/outcome"
	"bardo.money/gateway/extproc/passthrough"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
)

// New makes a gateway with the configuration rt.
func New(rt *runtime.Config, d Deps) *Gateway {
	g := &Gateway{Deps: d}
	if g.Draining == nil {
		g.Draining = func() bool { return false }
	}
	g.conversations = conversation.New()
	g.meter = meter.New(d.Limiter, d.Ledger, budget.NewMeter(budget.Options{Spent: g.spentByAgent}))
	g.meter.CountBudgets(d.Ledger.SpentOf)
	g.api = api.Server{
		Ledger: d.Ledger, Limiter: d.Limiter, Answers: d.Answers, Semantic: d.Semantic, State: g.state, Quarantine: &g.quarantine, Reasonings: &g.reasonings, Draining: g.Draining, Checks: d.Checks,
		Rated: func(f, before *ledger.Feedback) { effects.Rated(g.Governor, f, before) }, WrongHit: g.Governor.Wrong, Plane: cognition.NewBridge(), Tokens: &cognition.Tokens{Secret: d.Secret}, Epochs: &g.epochs, Events: d.Events,
	}
	g.sinks = outcome.Sinks{
		Health: d.Health, Ledger: d.Ledger, Meter: g.meter, Conversations: g.conversations, Reasonings: &g.reasonings, Attestations: d.Attestations,
		Governor: d.Governor, Feed: d.Finished,
	}
	if k := d.Attestations; k != nil {
		g.api.Attestations, k.Plane = k.Book, g.api.Plane
	}
	if g.Payments != nil {
		g.api.Paid = g.Payments
	}
	if g.Governor != nil {
		g.Governor.Changed = g.notifyKnobChanged
		g.Governor.Configure(rt.Governor)
	}
	g.mcp = mcp.New(mcp.Options{Client: d.listener(), Secret: d.Secret, Meter: d.Metrics, Log: d.Log, Version: d.Version})
	g.resources = passthrough.Server{Ledger: d.Ledger, Health: d.Health, Egress: d.listener(), Log: d.Log}
	g.api.Sessions, g.api.Memory, g.api.Identities = d.Sessions, d.Memory, d.Identities
	if d.Deferred != nil {
		g.api.Later = d.Deferred
		d.Deferred.Runner, d.Deferred.Emit = deferredRunner{g}, g.emitDeferred
	}
	g.runtime.Store(rt)
	return g
}

// Use replaces the configuration. Exchanges in flight keep theirs.
func (g *Gateway) Use(rt *runtime.Config) {
	for id, p := range g.runtime.Load().Providers.All() {
		rt.Provider(id).Ring.Inherit(p.Ring)
	}
	if g.Governor != nil {
		g.Governor.Configure(rt.Governor)
	}
	g.mcp.Keep(rt.MCP)
	g.runtime.Store(rt)
}

// Serve implements stream.Handler.
func (g *Gateway) Serve(ctx context.Context, d stream.Client, hd stream.Head, bodyless bool) error {
	x := g.newExchange(d, hd)
	if p := x.cors(); p.Allows() {
		x.client = cors.Client{Client: d, Policy: p}
	}
	return x.serve(ctx, func() error { return x.run(ctx, bodyless) })
}

// Opened implements stream.Handler.
func (g *Gateway) Opened() { g.Metrics.StreamOpened() }

// Closed implements stream.Handler.
func (g *Gateway) Closed() { g.Metrics.StreamClosed() }

// Panicked implements stream.Handler.
func (g *Gateway) Panicked(value any) { _ = g.panicked("", value) }

// Held implements stream.Handler.
func (g *Gateway) Held(h coroutine.Hold) {
	g.Metrics.Held()
	if h.Stacks != "" {
		g.Log.Warn("one request occupies a thread that serves many: they wait", "thread", h.Thread, "since", h.Lasted, "stacks", h.Stacks)
	}
}

// options answers OPTIONS.
func (x *exchange) options() (stream.Reply, error) {
	methods := endpoint.Methods(x.Head.Path)
	if methods == "" {
		_, err := endpoint.Find(&x.Head)
		return stream.Reply{}, err
	}
	return x.cors().Options(methods, x.report.IDHeaders())
}
