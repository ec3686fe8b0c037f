// Package provider is the contract between the gateway and a provider's API: how a request is written for it, and how
// its answer is read. Adapters live in the folders below; they know nothing of Envoy, of keys' storage, or of each other.
package provider

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// Secret is a credential. It cannot be printed; Reveal gives the bytes that go on the wire.
type Secret = secret.Text

// Endpoint is where a provider lives and what it asks for.
type Endpoint struct {
	Provider  policy.ProviderID
	Authority string // host[:port] for the Host header
	BasePath  string // path of the base URL, without trailing slash: "/v1"
	Key       Secret
	Dialect   chat.Dialect // the format a custom provider was configured with; adapters with one format ignore it

	Betas        []string // of a custom provider that speaks Anthropic's format: the only beta flags it may see; nil: all
	CacheControl bool     // of one that speaks OpenAI's: it understands cache_control on content
	Responses    bool     // it speaks OpenAI's Responses beside Chat Completions, and keeps responses

	APIVersion    string // the version of its API that its requests name, of Azure's
	NoCompletions bool   // of a custom provider that speaks OpenAI's: it is known to lack the endpoint for a prompt

	Characters  map[string]string // of Venice: the character that a role is played by
	Preferences []byte            // of OpenRouter: a JSON object, how it chooses its own providers
	Fallbacks   []string          // of OpenRouter: models that it may answer with instead
	Allow       []string          // of OpenRouter: members that its requests may have beyond what is priced
}

// Call is one attempt's request.
type Call struct {
	Path     string      // with BasePath and query
	Header   header.List // everything this provider needs beyond content-type, credentials included
	Body     []byte
	Degraded []string // what the provider's format could not say
}

// StrictSchemas is implemented by adapters of providers that answer by strict schemas alone.
type StrictSchemas interface{ TakesStrictSchemasAlone() }

// Adapter translates between the canonical form and one provider's API. Stateless, safe for concurrent use.
type Adapter interface {
	// Name is the provider kind: "openai", "anthropic", "custom", "demo".
	Name() string
	// Dialect is the format that this provider would be called in for this model, and a client of dialect d.
	Dialect(to policy.Resolution, at Endpoint, d chat.Dialect) chat.Dialect
	// Encode writes one attempt, always from the client's request, never from an earlier attempt. It appends the body
	// to buf (which may be nil). Errors are faults.
	Encode(buf []byte, req *chat.Request, to policy.Resolution, at Endpoint) (*Call, error)
	// Ping is the cheapest GET that a working provider answers: its list of models. It has no body.
	Ping(at Endpoint) *Call
	// NewDecoder reads the answer of such a call. Status and headers are the provider's.
	NewDecoder(req *chat.Request, to policy.Resolution, at Endpoint, status int, h header.List) Decoder
}

// Described is an adapter with what the configuration and the choice of a provider must know of its kind. The conformance test and the gateway
// take no others.
type Described interface {
	Adapter
	Kind() kind.Kind
}

// Amender is implemented by adapters that know of refusals which are no reason to give up.
type Amender interface {
	// Amend says how to ask once more after a provider refused a request: the same resolution without what it refused.
	// ok is false when the refusal stands.
	Amend(req *chat.Request, to policy.Resolution, at Endpoint, refusal *chat.ProviderError) (again policy.Resolution, ok bool)
}

// Decoder turns one response body into events. It is fed bytes cut anywhere; where they are cut changes nothing.
// The answer of a streamed request ends with an End event, or with an Error event; a body that ends before its
// terminator yields an Error event with Type "truncated". A JSON answer yields its events once end is true.
// For a status other than 2xx it yields one Error event at the end. A body over its limit is an Error event, too.
// Decoding never fails otherwise: frames it cannot read are Other events.
// The returned slice and what it points to are valid until the next call. Not safe for concurrent use.
type Decoder interface {
	Decode(chunk []byte, end bool) []chat.Event
}

// CredentialHeaders are removed from every attempt before the adapter's own are set.
var CredentialHeaders = []string{
	"authorization", "x-api-key", "api-key", "x-goog-api-key", "anthropic-version", "anthropic-beta",
	"openai-organization", "openai-project", "proxy-authorization", "cookie",
}
