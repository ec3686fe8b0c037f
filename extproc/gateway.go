// Package extproc is the state machine of a request: it admits and routes it, makes or plans its calls, sends the answer and settles the charge. A
// Gateway serves the requests that a package below extproc/stream passes to it; one request is one exchange.
//
// Decisions that need no state machine are in the packages below: extproc/request (the request and its candidates), extproc/attempt (one call),
// extproc/review (checks of answers), extproc/meter (limits and money), extproc/record (what happened). On the native path (native.go) Envoy makes
// the calls; on the driven path (driven.go) the gateway makes them through Envoy's egress listener.
package extproc

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/effects"
	"bardo.money/gateway/extproc/epoch"
	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/extproc/hedge"
	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/extproc/memory"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/outcome"
	"bardo.money/gateway/extproc/passthrough"
	"bardo.money/gateway/extproc/probe"
	"bardo.money/gateway/extproc/ranking"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/toolaccess"
	"bardo.money/gateway/extproc/upload"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/live"
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
	outcome.Health
	ranking.Health
	// State returns a provider's health for display: healthy, degraded, down, disabled or unknown.
	State(p policy.ProviderID) string
}

// Deps are the dependencies of a gateway. All but Draining, Checks, Finished, Events, Sessions, Memory, Deferred, Governor, Payments, Identities and
// Pages are required.
type Deps struct {
	Verifier auth.Verifier
	Limiter  *quota.Limiter
	Ledger   *ledger.Ledger
	Answers  *cache.Store // stored answers, which callers can list and delete
	Health   Health
	Metrics  *telemetry.Metrics
	Log      *slog.Logger
	Egress   *http.Client             // see upstream.NewEgressClient
	Listener *http.Client             // client of the egress listener if Egress is another; see attempt.Writer
	Draining func() bool              // /readyz answers 503 while it is true; nil means never
	Checks   func() []api.ReadyDetail // details of /readyz?verbose; may be nil
	Finished *event.Feed[record.Finished]
	Events   *event.Sink        // may be nil
	Sessions *session.Book      // nil: sessions are off
	Memory   *memory.Memory     // memory of sessions; nil without Sessions
	Deferred *deferred.Service  // deferred requests; nil: off
	Governor *governor.Governor // governor of the layers; nil: off

	Semantic *semantic.Index // the semantic index of Answers; required
	Payments meter.Payments  // payments per request; nil: every request needs a key

	Secret func() []byte // returns the bytes that token keys are derived from; required

	Attestations *attestation.Keeper // attestations of enclaves' answers; required if a provider's are attested

	Identities *api.Identities   // identities linked to accounts; nil: off
	Pages      http.Handler      // the dashboard; nil: off
	MCPTokens  toolaccess.Tokens // access tokens of MCP clients; nil: off
	Version    string            // of the program, for MCP servers and clients
}

// Gateway serves exchanges. Safe for concurrent use.
type Gateway struct {
	Deps
	runtime       atomic.Pointer[runtime.Config]
	exchanges     live.Set[exchange] // exchanges that streams of later attempts look up
	quarantine    catalog.Quarantine
	meter         *meter.Meter
	searches      budget.Cycles
	hedges        hedge.Share
	conversations *conversation.Memory
	epochs        epoch.Coordinator
	reasonings    api.ReasoningStore
	sinks         outcome.Sinks
	api           api.Server
	mcp           *mcp.Gateway
	resources     passthrough.Server
	bodies        upload.Memory
	live          atomic.Int64
	served        atomic.Uint64
}

var _ stream.Handler = (*Gateway)(nil)

// state returns a provider's health for display.
func (g *Gateway) state(p policy.ProviderID) string { return g.Health.State(p) }

// listener returns the client of the egress listener. Calls through it wait for a slow client, and outlive a client disconnect.
func (d *Deps) listener() *http.Client { return cmp.Or(d.Listener, d.Egress) }

// Prober returns a client that calls providers outside of requests, with the current configuration.
func (g *Gateway) Prober() *probe.Client {
	return &probe.Client{Config: g.runtime.Load(), Egress: g.listener()}
}

// MCPServers returns whether the configured MCP servers answer; see mcp.Gateway.States.
func (g *Gateway) MCPServers(wait time.Duration) []mcp.State {
	rt := g.runtime.Load()
	return g.mcp.States(rt.MCP, rt.EgressSecret, wait)
}

// Live returns the number of exchanges in flight.
func (g *Gateway) Live() int64 { return g.live.Load() }

// BodyBytes returns the memory used by the bodies of requests in flight.
func (g *Gateway) BodyBytes() int64 { return g.bodies.Held() }

// Served returns the number of requests with a body since the start.
func (g *Gateway) Served() uint64 { return g.served.Load() }

// idlePoll is how often Idle checks.
const idlePoll = 20 * time.Millisecond

// Idle waits until no exchange is in flight. The error is the context's.
func (g *Gateway) Idle(ctx context.Context) error {
	ticker := time.NewTicker(idlePoll)
	defer ticker.Stop()
	for g.Live() > 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// panicked logs and counts the panic of a request (its id; "" if unknown); the error is the client's. The stack holds no content of the request; the
// panic's value might, and is only logged if it is a runtime error.
func (g *Gateway) panicked(request string, r any) error {
	g.Metrics.Panicked()
	cause, ok := r.(error)
	if !ok {
		cause = fmt.Errorf("a panic with a %T", r)
	}
	g.Log.Error("a request ended in a fault of the program", "request", request, "error", cause, "stack", string(debug.Stack()))
	return fault.New(fault.Internal, "the gateway failed to handle this request", cause)
}

// spentByAgent returns what an agent's subsystems were charged on a day.
func (g *Gateway) spentByAgent(ctx context.Context, a budget.Agent, day time.Time) (map[string]policy.Micro, error) {
	return g.Ledger.SpentByPart(ctx, a.Account, a.ID, day)
}

// notifyKnobChanged notifies operators of a knob that was changed, or would be.
func (g *Gateway) notifyKnobChanged(c *governor.Change) {
	g.Metrics.KnobChanged(c.Knob, c.Applied)
	g.Log.Info("the governor changes a setting of a layer", "task", c.Task, "knob", c.Knob, "from", c.From, "to", c.To, "applied", c.Applied)
	effects.EventGovernor.Emit(g.Events, "", c)
}

// emitDeferred emits the event of a deferred request.
func (g *Gateway) emitDeferred(account policy.Account, e *deferred.Event) {
	deferred.Events[e.State].Emit(g.Events, account, *e)
}
