// Package passthrough serves requests about the resources that a provider stores, such as files, batches and stored responses. A resource belongs to
// the key that created it, so these requests are sent with users' own keys, unchanged, and cost nothing here. It does not know generations.
package passthrough

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Server serves requests about stored resources. Safe for concurrent use.
type Server struct {
	Ledger *ledger.Ledger // owners of resources, and the records
	Health Health
	Egress *http.Client // see upstream.NewEgressClient
	Log    *slog.Logger
}

// Health is the state of the providers.
type Health interface {
	// Report records one attempt's outcome.
	Report(r policy.Result)
	// Plan removes disabled providers; done must be called when the request has ended.
	Plan(candidates []policy.ProviderID) (order []policy.ProviderID, done func())
}

// Provider is a configured provider with a user's own key.
type Provider struct {
	Adapter  provider.Adapter
	Endpoint provider.Endpoint
	Cluster  policy.ProviderID // its name in the control plane's state
}

// Request is one request about a stored resource, with its configuration.
type Request struct {
	ID           string
	Head         *stream.Head
	Account      policy.Account
	Started      time.Time
	OwnKey       bool                                     // it has a provider key of its own, which is not supported here
	Body         func() ([]byte, error)                   // reads the whole body; nil if there is none
	Direct       func(policy.ProviderID) (Provider, bool) // returns a provider with a user's own key
	Timeout      time.Duration                            // until the last byte of the answer
	MaxAnswer    int64                                    // bytes
	EgressSecret string
	Header       header.List // headers of every answer
	Redactor     *secret.Redactor
	Sink         Sink
}

// Sink receives the outcome of a request, for the metrics and the client's error.
type Sink interface {
	// Attempted is called for each attempt.
	Attempted(a record.Attempt)
	// Ended is called with the outcome, at most once, and not for errors that Serve returns before a provider is called.
	Ended(e record.End)
}

// CostDirect is the value of X-Bardo-Cost for what the caller pays to the provider.
const CostDirect = "direct"

// call is one request in progress.
type call struct {
	*Request
	s    *Server
	path Path
	id   policy.ProviderID // the key's provider
	p    Provider
	body []byte

	attempts    []record.Attempt
	contentType string // of the body
}

// Serve answers one request. An error that is a fault was not sent yet.
func (s *Server) Serve(ctx context.Context, d stream.Client, r *Request) error {
	path, _ := ParsePath(r.Head.Path)
	switch {
	case !path.WellFormed():
		return fault.Newf(fault.NotFound, "there is no endpoint %s %s", fault.Clip(r.Head.Method), fault.Clip(r.Head.Path))
	case r.OwnKey:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Upstream-Key: only generations take a key of the request's own, %s does not", path.collection)
	case !plainQuery(r.Head.Query):
		return fault.Newf(fault.InvalidRequest, "the query must not hold parameters that begin with $: they are another request in this one")
	}
	c := call{Request: r, s: s, path: path}
	if err := c.choose(ctx); err != nil {
		return err
	}
	if err := c.readBody(ctx); err != nil {
		return err
	}
	order, done := s.Health.Plan([]policy.ProviderID{c.id})
	defer done()
	if len(order) == 0 {
		return fault.Newf(fault.NoProvider, "the provider %s is disabled", c.id)
	}
	return c.do(ctx, d)
}

// directSection is the prefix of the names of providers with users' own keys.
const directSection = "direct/"

// headerProvider selects among users' own keys of one vendor.
const headerProvider = "x-bardo-provider"

// choose selects the key: the one that created a known resource, the one that the request names, or the vendor's first.
func (c *call) choose(ctx context.Context) error {
	vendor := c.path.vendor(c.Head)
	id := directSection + vendor
	if named := c.Head.Header.Get(headerProvider); named != "" {
		id = policy.ProviderID(named)
	}
	if name := c.path.name(); name != "" {
		k, ok, err := c.s.Ledger.StoredResource(ctx, name)
		if err != nil {
			return err
		}
		if !ok || k.Account != c.Account {
			if err := c.use(id, vendor); err != nil {
				return err
			}
			return fault.Newf(fault.NotFound, "there is no %q that this key made through the gateway", fault.Clip(name))
		}
		id = k.Provider
	}
	return c.use(id, vendor)
}

// use selects a provider, if it has a user's own key at the vendor whose API the request uses.
func (c *call) use(id, vendor policy.ProviderID) error {
	p, ok := c.Direct(id)
	if !ok || p.Adapter.Name() != string(vendor) {
		return fault.Newf(fault.RequiresDirectKey, "%s %s concerns data that a provider stores, and needs a key of your own there (providers.direct)",
			c.Head.Method, fault.Clip(c.Head.Path))
	}
	c.id, c.p = id, p
	return nil
}
