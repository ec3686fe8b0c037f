// Package extproc is the data path: it decides for every request who pays, what is sent to which provider, and what the client gets. A
// Gateway serves the requests that a package below extproc/stream brings; one request is one exchange.
//
// native.go is the path on which Envoy carries the bytes; driven.go the one on which the gateway answers by itself and calls providers
// through Envoy's egress listener.
package extproc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
)

// Health is what the gateway tells about providers, and asks.
type Health interface {
	// Report notes one attempt's outcome.
	Report(r policy.Result)
	// Plan orders one request's candidates, healthy ones first and disabled ones left out. A provider in trouble that is due to be
	// tried again stands in its place for this request; done frees that trial and must be called when the request has ended.
	Plan(candidates []policy.ProviderID) (order []policy.ProviderID, done func())
	// State is a provider's health for display: healthy, degraded, down, disabled or unknown.
	State(p policy.ProviderID) string
}

// Deps are what a gateway works with. All but Draining, Checks, Finished and Events are required.
type Deps struct {
	Verifier auth.Verifier
	Limiter  *quota.Limiter
	Ledger   *ledger.Ledger
	Answers  *cache.Store // what its callers may list and delete; the layers serve and fill it
	Health   Health
	Metrics  *telemetry.Metrics
	Log      *slog.Logger
	Egress   *http.Client             // see NewEgressClient
	Draining func() bool              // /readyz answers 503 while it is true; nil means never
	Checks   func() []api.ReadyDetail // of /readyz?verbose; may be nil
	Finished *event.Feed[record.Finished]
	Events   *event.Sink // may be nil
}

// Gateway serves exchanges. Safe for concurrent use.
type Gateway struct {
	Deps
	runtime       atomic.Pointer[Runtime]
	exchanges     registry
	gone          catalog.Quarantine
	meter         *meter.Meter
	searches      budget.Cycles
	conversations *conversation.Memory
	reasonings    api.ReasoningStore
	api           api.Server
	bodies        bodies
	live          atomic.Int64
	served        atomic.Uint64
}

var _ stream.Handler = (*Gateway)(nil)

// New makes a gateway that begins with rt.
func New(rt *Runtime, d Deps) *Gateway {
	g := &Gateway{Deps: d}
	if g.Draining == nil {
		g.Draining = func() bool { return false }
	}
	g.exchanges.init()
	g.conversations = conversation.New()
	g.meter = meter.New(d.Limiter, d.Ledger, budget.NewMeter(budget.Options{Spent: g.spentByAgent}))
	g.api = api.Server{
		Ledger: d.Ledger, Limiter: d.Limiter, Answers: d.Answers, State: g.state, Quarantine: &g.gone, Reasonings: &g.reasonings, Draining: g.Draining, Checks: d.Checks,
	}
	g.runtime.Store(rt)
	return g
}

// state is a provider's health for display.
func (g *Gateway) state(p policy.ProviderID) string { return g.Health.State(p) }

// Use swaps the configuration. Exchanges under way keep the one they began with.
func (g *Gateway) Use(rt *Runtime) {
	for id, p := range g.runtime.Load().Providers {
		rt.Providers[id].Ring.Inherit(p.Ring)
	}
	g.runtime.Store(rt)
}

// Serve implements stream.Handler.
func (g *Gateway) Serve(ctx context.Context, d stream.Client, hd stream.Head, bodyless bool) error {
	x := g.newExchange(hd)
	defer x.shut()
	if x.crossOrigin() != nil {
		d = sharing{d, x}
	}
	err := x.guarded(ctx, d, bodyless)
	if late, ok := errors.AsType[answeredError](err); ok {
		x.refused(late.told)
		return nil
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, errCut) {
		return err
	}
	var f *fault.Fault
	if !errors.As(err, &f) {
		f = fault.From(err)
	}
	x.refused(f)
	return d.Reply(x.errorReply(f))
}

// Opened implements stream.Handler.
func (g *Gateway) Opened() { g.Metrics.StreamOpened() }

// Closed implements stream.Handler.
func (g *Gateway) Closed() { g.Metrics.StreamClosed() }

// Panicked implements stream.Handler.
func (g *Gateway) Panicked(value any) { _ = g.panicked("", value) }

// Live is how many exchanges are under way.
func (g *Gateway) Live() int64 { return g.live.Load() }

// BodyBytes is the memory that the bodies of the requests under way take.
func (g *Gateway) BodyBytes() int64 { return g.bodies.held.Load() }

// Served is how many requests with a body have come in since the start.
func (g *Gateway) Served() uint64 { return g.served.Load() }

// idlePoll is how often Idle looks.
const idlePoll = 20 * time.Millisecond

// Idle waits until no exchange is under way. The error is the context's.
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
