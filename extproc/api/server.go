// Package api serves the gateway's own endpoints: what a key has and did, models, schemas, stored answers, kept reasoning, readiness. None of
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
	Principal policy.Principal // zero where the endpoint is open to all
	Head      *stream.Head
	Catalog   *resolve.Resolver   // of the configuration that the request began with
	Local     *localembed.Model   // of the same; nil for none
	Barred    []policy.ProviderID // that the caller's plan excludes
	Body      []byte              // of a request to an endpoint that takes one
	Cognition cognition.Settings
	Epochs    epoch.Rules

	Follow Follower // set by an endpoint whose answer is a stream of events
}

// Server answers callers. Its methods that take a Caller are endpoints; their errors are faults. All fields but Checks, Later, Sessions, Memory, Identities, Rated and WrongHit are required. Safe for
// concurrent use.
type Server struct {
	Ledger       *ledger.Ledger
	Limiter      *quota.Limiter
	Answers      *cache.Store
	Questions    *semantic.Index                // of the semantic cache
	State        func(policy.ProviderID) string // of a provider's health, for display
	Quarantine   *catalog.Quarantine
	Reasonings   *ReasoningStore
	Later        Later             // nil: requests are not deferred
	Sessions     *session.Book     // nil: there are none
	Memory       *memory.Memory    // of sessions; nil where these are
	Identities   *Identities       // nil: none are linked
	Plane        *cognition.Bridge // what is told of the private provider
	Tokens       *cognition.Tokens // of its stream
	Epochs       *epoch.Coordinator
	Events       *event.Sink // may be nil
	Draining     func() bool
	Checks       func() []ReadyDetail // of /readyz?verbose; nil: there are none
	Rated        Rated                // nil: nobody is told
	Paid         Paid                 // nil: requests are not paid for by themselves
	Attestations *attestation.Book    // of answers of enclaves; nil: there are none
	WrongHit     func(request string) // is told of a semantic hit that its caller removed as wrong; must not block; nil: nobody is told
}

// Paid knows the payments for single requests.
type Paid interface {
	// Of is how the payment for a request stands, as JSON; ok is false where none was made.
	Of(ctx context.Context, requestID string) (state []byte, ok bool, err error)
}

// Welcome names the endpoints that generate.
func (*Server) Welcome(_ context.Context, c *Caller) (stream.Reply, error) {
	return c.Head.JSON([]byte(`{"name":"bardo","endpoints":["/v1/chat/completions","/v1/completions","/v1/embeddings","/v1/messages","/v1/responses","/v1beta/models","/v1/models"]}`)), nil
}

// Alive is GET /healthz.
func (*Server) Alive(_ context.Context, c *Caller) (stream.Reply, error) {
	return c.Head.JSON([]byte(`{"status":"ok"}`)), nil
}
