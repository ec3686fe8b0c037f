// Package api serves the gateway's own endpoints: a key's balance and requests, models, schemas, stored answers, stored reasoning, readiness. None of
// them calls a provider.
package api

import (
	"context"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/extproc/epoch"
	"bardo.money/gateway/extproc/localembed"
	"bardo.money/gateway/extproc/memory"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/attestation"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/resolve"
	"bardo.money/gateway/policy/session"
)

// Caller is one request to one of the gateway's own endpoints.
type Caller struct {
	Principal policy.Principal // zero if the endpoint needs no authentication
	Head      *stream.Head
	Catalog   *resolve.Resolver   // of the request's configuration
	Local     *localembed.Model   // of the request's configuration; nil for none
	Barred    []policy.ProviderID // that the caller's plan excludes
	Spread    int                 // percent on providers' costs
	Body      []byte              // of the request, if the endpoint reads one
	Cognition cognition.Settings
	Epochs    epoch.Rules

	Follow Follower // set by an endpoint that answers with a stream of events
}

// Server answers callers. Its methods that take a Caller are endpoints; their errors are faults. All fields but Checks, Later, Sessions, Memory,
// Identities, Rated and WrongHit are required. Safe for concurrent use.
type Server struct {
	Ledger       *ledger.Ledger
	Limiter      *quota.Limiter
	Answers      *cache.Store
	Semantic     *semantic.Index                // the index of the semantic cache
	State        func(policy.ProviderID) string // a provider's health, for display
	Quarantine   *catalog.Quarantine
	Reasonings   *ReasoningStore
	Later        Later             // nil: requests cannot be deferred
	Sessions     *session.Book     // nil: sessions are off
	Memory       *memory.Memory    // of sessions; nil without them
	Identities   *Identities       // nil: none are linked
	Plane        *cognition.Bridge // events of the private provider
	Tokens       *cognition.Tokens // for its stream
	Epochs       *epoch.Coordinator
	Events       *event.Sink // may be nil
	Draining     func() bool
	Checks       func() []ReadyDetail // details of /readyz?verbose; nil: none
	Rated        Rated                // may be nil
	Paid         Paid                 // nil: no payments per request
	Attestations *attestation.Book    // attestations of enclaves' answers; nil: none
	WrongHit     func(request string) // called with the request of a semantic hit that its caller removed as wrong; must not block; may be nil
}

// Paid reads the payments of single requests.
type Paid interface {
	// Of returns the state of a request's payment as JSON; ok is false if there was none.
	Of(ctx context.Context, requestID string) (state []byte, ok bool, err error)
}

// Welcome lists the generation endpoints.
func (*Server) Welcome(_ context.Context, c *Caller) (stream.Reply, error) {
	return c.Head.JSON([]byte(`{"name":"bardo","endpoints":["/v1/chat/completions","/v1/completions","/v1/embeddings","/v1/messages","/v1/responses","/v1beta/models","/v1/models"]}`)), nil
}

// Alive is GET /healthz.
func (*Server) Alive(_ context.Context, c *Caller) (stream.Reply, error) {
	return c.Head.JSON([]byte(`{"status":"ok"}`)), nil
}
