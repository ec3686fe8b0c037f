// Package provider is the contract between the gateway and a provider's API: how a request is written, and how its answer is read. Adapters
// are in subpackages; they know nothing of Envoy, of the storage of keys, or of each other.
package provider

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// Secret is a credential. It cannot be printed; Reveal returns the bytes to send.
type Secret = secret.Text

// Endpoint is a provider's address and configuration.
type Endpoint struct {
	Provider  policy.ProviderID
	Authority string // host[:port] for the Host header
	BasePath  string // path of the base URL, without trailing slash: "/v1"
	Key       Secret
	Dialect   chat.Dialect // configured format of a custom provider; adapters with one format ignore it

	Betas        []string // of a custom provider with Anthropic's format: the beta flags that may be sent to it; nil: all
	CacheControl bool     // of a custom provider with OpenAI's format: it supports cache_control on content
	Responses    bool     // it has OpenAI's Responses API next to Chat Completions, and stores responses

	APIVersion    string // of Azure: the API version of its requests
	Region        string // of Bedrock: the region that requests are signed for
	NoCompletions bool   // of a custom provider with OpenAI's format: it is known to lack /completions

	Characters  map[string]string // of Venice: the character for each role
	Preferences []byte            // of OpenRouter: a JSON object with its preferences for hosts
	Fallbacks   []string          // of OpenRouter: models with which it may answer instead
	Allow       []string          // of OpenRouter: unpriced members that its requests may contain
}

// Call is the request of one attempt.
type Call struct {
	Path     string      // with BasePath and query
	Header   header.List // the headers that this provider requires besides the content type, credentials included
	Body     []byte
	Degraded []string // names of what the provider's format cannot express
	Model    string   // the provider's name of the model that is called; set by adapters that are Attesting
}

// StrictSchemas is implemented by adapters of providers that accept only strict schemas.
type StrictSchemas interface{ RequiresStrictSchemas() }

// Adapter translates between the canonical form and one provider's API. Stateless, safe for concurrent use.
type Adapter interface {
	// Name is the provider kind: "openai", "anthropic", "custom", "demo".
	Name() string
	// Dialect is the format in which this provider is called for a model and a client of dialect d.
	Dialect(to policy.Resolution, at Endpoint, d chat.Dialect) chat.Dialect
	// Encode writes one attempt, always from the client's request, never from a previous attempt. It appends the body to buf, which may be
	// nil. Errors are faults.
	Encode(buf []byte, req *chat.Request, to policy.Resolution, at Endpoint) (*Call, error)
	// Ping is the cheapest GET request that a working provider answers: its list of models. It has no body.
	Ping(at Endpoint) *Call
	// NewDecoder returns a decoder of the answer to such a call. Status and headers are the provider's.
	NewDecoder(req *chat.Request, to policy.Resolution, at Endpoint, status int, h header.List) Decoder
}

// Described is an adapter with a description of its kind, for the configuration and for routing. The gateway and the conformance test
// require it.
type Described interface {
	Adapter
	Kind() kind.Kind
}

// Gateway is implemented by adapters of providers that are gateways of this kind: their calls have the request's hints, and the number of gateways that
// it has passed.
type Gateway interface{ IsGateway() }

// Relay is implemented by adapters of providers with endpoints that are not for conversations: the Endpoints of their kind.
type Relay interface {
	// Relay returns a call of an endpoint, without its body; nil if this provider does not have the endpoint. model is the provider's name.
	Relay(e kind.Endpoint, model string, at Endpoint) *Call
}

// Retention is implemented by adapters of private providers whose answers confirm in their headers that nothing of the call is retained.
type Retention interface {
	// Retains returns which header of a successful answer is missing or contradicts; "" if the headers confirm that nothing is retained. It
	// quotes no header values.
	Retains(h header.List) string
}

// Attesting is implemented by adapters of providers whose enclaves sign their answers.
type Attesting interface {
	// AskReceipt returns the headers that request a signed answer, with the nonce.
	AskReceipt(nonce string) header.List
	// ReceiptHeader is the name, in lower case, of the header or trailer with the receipt of an answer.
	ReceiptHeader() string
}

// Amender is implemented by adapters that can repeat a refused request without the refused part.
type Amender interface {
	// Amend returns the resolution for another attempt without what the provider refused. ok is false if the refusal is final.
	Amend(req *chat.Request, to policy.Resolution, at Endpoint, refusal *chat.ProviderError) (amended policy.Resolution, ok bool)
}

// Decoder turns one response body into events. The body may be cut at any byte; the events do not depend on the cuts. The answer of a
// streamed request ends with an End event or an Error event; a body that ends before its terminator yields an Error event with Type
// "truncated". A JSON answer yields its events once end is true. A status other than 2xx yields one Error event at the end. A body over its
// limit is an Error event, too. Decoding never fails otherwise: unreadable frames are Other events. The returned slice and what it points
// to are valid until the next call. Not safe for concurrent use.
type Decoder interface {
	Decode(chunk []byte, end bool) []chat.Event
}

// RemovedHeaders are removed from every attempt before the adapter's own headers are set, including those that Envoy does not show: keys,
// and headers that belong to the account of another attempt. The client's other headers are removed by name unless the attempt keeps them.
var RemovedHeaders = slices.Concat(header.ProviderKeys(), []string{
	"anthropic-version", "anthropic-beta", "openai-organization", "openai-project", "proxy-authorization", "cookie",
	"x-amz-content-sha256", "x-amz-date", "x-amz-security-token", "http-referer", "x-title", header.Forwarded,
})
