// Package extproc is the state machine of a request: it admits it, routes it, makes or plans its calls, sends the answer and settles. A Gateway serves
// the requests that a package below extproc/stream passes on; one request is one exchange.
//
// What can be decided without the state machine is in the packages below: extproc/request (the request and its candidates), extproc/attempt (one
// call), extproc/review (checks of answers), extproc/meter (limits and money), extproc/record (what happened). On the native path (native.go) Envoy
// makes the calls; on the driven path (driven.go) the gateway makes them through Envoy's egress listener.
package extproc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/cors"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/passthrough"
	"bardo.money/gateway/extproc/probe"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upload"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/session"
)

// Health is the health of providers: the gateway reports results and asks for the order. Safe for concurrent use.
type Health interface {
	// Report notes one attempt's outcome.
	Report(r policy.Result)
	// Plan orders one request's candidates, healthy ones first, disabled ones left out. An unhealthy provider that is due for a trial keeps its place for
	// this request; done ends the trial and must be called when the request has ended.
	Plan(candidates []policy.ProviderID) (order []policy.ProviderID, done func())
	// State is a provider's health for display: healthy, degraded, down, disabled or unknown.
	State(p policy.ProviderID) string
}

// Deps are what a gateway works with. All but Draining, Checks, Finished, Events, Sessions, Deferred and Governor are required.
type Deps struct {
	Verifier auth.Verifier
	Limiter  *quota.Limiter
	Ledger   *ledger.Ledger
	Answers  *cache.Store // stored answers, which callers may list and delete
	Health   Health
	Metrics  *telemetry.Metrics
	Log      *slog.Logger
	Egress   *http.Client             // see upstream.NewEgressClient
	Listener *http.Client             // of the egress listener, where Egress is not; see attempt.Writer
	Draining func() bool              // /readyz answers 503 while it is true; nil means never
	Checks   func() []api.ReadyDetail // of /readyz?verbose; may be nil
	Finished *event.Feed[record.Finished]
	Events   *event.Sink        // may be nil
	Sessions *session.Book      // nil: there are none
	Deferred *deferred.Service  // of requests that are answered later; nil: none are
	Governor *governor.Governor // of the layers; nil: there is none

	Questions *semantic.Index // whose answers are stored; required, as Answers is
}

// Gateway serves exchanges. Safe for concurrent use.
type Gateway struct {
	Deps
	runtime       atomic.Pointer[runtime.Config]
	exchanges     registry
	gone          catalog.Quarantine
	meter         *meter.Meter
	searches      budget.Cycles
	conversations *conversation.Memory
	reasonings    api.ReasoningStore
	api           api.Server
	resources     passthrough.Server
	bodies        upload.Memory
	live          atomic.Int64
	served        atomic.Uint64
}

var _ stream.Handler = (*Gateway)(nil)

// New makes a gateway with the configuration rt.
func New(rt *runtime.Config, d Deps) *Gateway {
	g := &Gateway{Deps: d}
	if g.Draining == nil {
		g.Draining = func() bool { return false }
	}
	g.exchanges.init()
	g.conversations = conversation.New()
	g.meter = meter.New(d.Limiter, d.Ledger, budget.NewMeter(budget.Options{Spent: g.spentByAgent}))
	g.api = api.Server{
		Ledger: d.Ledger, Limiter: d.Limiter, Answers: d.Answers, Questions: d.Questions, State: g.state, Quarantine: &g.gone, Reasonings: &g.reasonings, Draining: g.Draining, Checks: d.Checks,
		Rated: g.rated,
	}
	if g.Governor != nil {
		g.Governor.Changed = g.knobChanged
		g.Governor.Configure(rt.Governor)
	}
	g.resources = passthrough.Server{Ledger: d.Ledger, Health: d.Health, Egress: d.listener(), Log: d.Log}
	g.api.Sessions = d.Sessions
	if d.Deferred != nil {
		g.api.Later = d.Deferred
		d.Deferred.Runner, d.Deferred.Tell = deferredRunner{g}, g.tellDeferred
	}
	g.runtime.Store(rt)
	return g
}

// state is a provider's health for display.
func (g *Gateway) state(p policy.ProviderID) string { return g.Health.State(p) }

// Use replaces the configuration. Exchanges in flight keep theirs.
func (g *Gateway) Use(rt *runtime.Config) {
	for id, p := range g.runtime.Load().Providers {
		rt.Providers[id].Ring.Inherit(p.Ring)
	}
	if g.Governor != nil {
		g.Governor.Configure(rt.Governor)
	}
	g.runtime.Store(rt)
}

// Leaves implements module.Leaver: whatever may wait for others than the client goes through Client.Leave.
func (*Gateway) Leaves() bool { return true }

// Serve implements stream.Handler.
func (g *Gateway) Serve(ctx context.Context, d stream.Client, hd stream.Head, bodyless bool) error {
	x := g.newExchange(hd)
	if p := x.cors(); p.Allows() {
		d = cors.Client{Client: d, Policy: p}
	}
	return x.serve(ctx, d, func() error { return x.run(ctx, d, bodyless) })
}

// serve runs the request, or its rest, to its end.
func (x *exchange) serve(ctx context.Context, d stream.Client, run func() error) error {
	err := x.guarded(run)
	if l, ok := errors.AsType[*stream.Leaving](err); ok {
		return &stream.Leaving{Rest: func() error { return x.serve(ctx, d, l.Rest) }}
	}
	defer x.closeGuarded()
	if late, ok := errors.AsType[upload.AnsweredError](err); ok {
		x.refused(late.Fault)
		return nil
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, stream.ErrTruncated) || errors.Is(err, stream.ErrDisconnected) {
		return err
	}
	var f *fault.Fault
	if !errors.As(err, &f) {
		f = fault.From(err)
	}
	x.refused(f)
	return d.Reply(x.errorReply(f))
}

// cors is which web pages may read the answer.
func (x *exchange) cors() cors.Policy { return cors.Policy{Origins: x.Config.Origins, Head: &x.Head} }

// options answers OPTIONS.
func (x *exchange) options() (stream.Reply, error) {
	methods := endpoint.Methods(x.Head.Path)
	if methods == "" {
		_, err := endpoint.Find(&x.Head)
		return stream.Reply{}, err
	}
	return x.cors().Options(methods, x.idHeaders())
}

// listener is the client of the egress listener. Calls through it wait for a slow client, and outlive one that disconnects.
func (d *Deps) listener() *http.Client { return cmp.Or(d.Listener, d.Egress) }

// Prober makes calls of providers outside of requests, with the configuration now in force.
func (g *Gateway) Prober() *probe.Client {
	return &probe.Client{Config: g.runtime.Load(), Egress: g.listener()}
}

// Opened implements stream.Handler.
func (g *Gateway) Opened() { g.Metrics.StreamOpened() }

// Closed implements stream.Handler.
func (g *Gateway) Closed() { g.Metrics.StreamClosed() }

// Panicked implements stream.Handler.
func (g *Gateway) Panicked(value any) { _ = g.panicked("", value) }

// Live is the number of exchanges in flight.
func (g *Gateway) Live() int64 { return g.live.Load() }

// BodyBytes is the memory of the bodies of requests in flight.
func (g *Gateway) BodyBytes() int64 { return g.bodies.Held() }

// Served is the number of requests with a body since the start.
func (g *Gateway) Served() uint64 { return g.served.Load() }

// idlePoll is how often Idle looks.
const idlePoll = 20 * time.Millisecond

// Idle waits until no exchange is in flight. The error is the context's.
func (g *Gateway) Idle(ctx context.Context) error {
	tick := time.NewTicker(idlePoll)
	defer tick.Stop()
	for g.Live() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// registry finds live exchanges by id, for the streams of their later attempts.
type registry struct {
	shards [16]struct {
		sync.RWMutex
		m map[string]*exchange
	}
}

func (r *registry) init() {
	for i := range r.shards {
		r.shards[i].m = map[string]*exchange{}
	}
}

func (r *registry) shard(id string) int { return int(id[len(id)-1]) % len(r.shards) }

func (r *registry) add(x *exchange) {
	s := &r.shards[r.shard(x.ID)]
	s.Lock()
	s.m[x.ID] = x
	s.Unlock()
}

func (r *registry) remove(x *exchange) {
	s := &r.shards[r.shard(x.ID)]
	s.Lock()
	delete(s.m, x.ID)
	s.Unlock()
}

// get returns nil for an id that is not live.
func (r *registry) get(id string) *exchange {
	if id == "" {
		return nil
	}
	s := &r.shards[r.shard(id)]
	s.RLock()
	defer s.RUnlock()
	return s.m[id]
}
