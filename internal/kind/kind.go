// Package kind has the properties of a kind of provider that other packages need without knowing its adapter. The values are beside the adapters, in
// extproc/provider/<name>/kind.go, and cmd/bardo/parts lists them. Nothing here names a provider.
package kind

import (
	"strings"
	"time"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// Kind describes a kind of provider.
type Kind struct {
	Name    string  // of its adapter, and of its section in the configuration
	Section Section // the keys of its section
	Doc     string  // the documentation of the section

	BaseURL     string   // default, up to and including the version; "": the operator must set one. Region in it: of one of AWS's regions
	URLVariable string   // environment variable with the base URL; "": none
	APIVersion  string   // default version in the query of its requests; "": none
	Variables   []string // environment variables for its key; the first one that is set counts
	Keyless     bool     // it may be called without a key

	Format       string // the format of its API: openai, anthropic, gemini
	List         string // the form of its own list of models: openai, openrouter, venice, blockrun; "": it has none that can be read
	Private      bool   // it retains nothing
	Broad        bool   // it serves models of many vendors: without models and without a list, the catalog's
	AnyModel     bool   // it serves any id requested with its name: groq/llama-4
	Responses    bool   // it supports OpenAI's Responses beside Chat Completions
	CacheControl bool   // it speaks openai and understands cache_control on content
	CountsTokens bool   // it can count the tokens of a request
	Batches      string // the form of its batch API: openai, anthropic; "": none that is supported

	Endpoints []Endpoint // other than those of conversations and embeddings

	PromptCache PromptCache
	Reasoning   Reasoning
	Traits      Traits
}

// Region stands for the region in the base URL of a kind whose servers are in AWS's regions. Its requests are signed with AWS credentials, if the
// operator has no key.
const Region = "{region}"

// Regional reports whether the kind's servers are in AWS's regions.
func (k *Kind) Regional() bool { return strings.Contains(k.BaseURL, Region) }

// Reasoning defines how a kind of provider returns reasoning: names of dialects of extproc/reasoning. The zero value leaves it to the API format and
// the model's family.
type Reasoning struct {
	Dialect string            // of all its models that Vendors does not list
	Vendors map[string]string // of a marketplace: by the vendor in the model's upstream id, vendor/model
}

// PromptCache is the terms of a provider's prompt cache, for models whose entry and list do not state them. The zero value has no known terms.
type PromptCache struct {
	Terms    CacheTerms            // for all families that Families does not list
	Families map[string]CacheTerms // by family
	OfVendor bool                  // a marketplace with the terms of the vendor of the model's family
}

// CacheTerms are the price, the saving and the limits of a prompt cache.
type CacheTerms struct {
	MinDiscount, MaxDiscount int           // percent off the input price for cached tokens
	WritePremium             int           // percent added to the input price for tokens that are written to the cache
	MinTokens                int           // length of the shortest prefix that is cached
	MinTTL, MaxTTL           time.Duration // since the last use
	Explicit                 bool          // only prefixes that the request marks are cached; otherwise every prefix is
}

// Endpoint is an endpoint that is neither for conversations nor for embeddings, by its path below the base URL. Requests to it are forwarded
// unchanged to providers that have it.
type Endpoint string

// The endpoints, as in OpenAI's API; rerank as in Cohere's.
const (
	Moderations     Endpoint = "/moderations"
	Rerank          Endpoint = "/rerank"
	ImageGeneration Endpoint = "/images/generations"
	ImageEdit       Endpoint = "/images/edits"
	ImageVariation  Endpoint = "/images/variations"
	Speech          Endpoint = "/audio/speech"
	Transcription   Endpoint = "/audio/transcriptions"
	Translation     Endpoint = "/audio/translations"
	Realtime        Endpoint = "/realtime"              // sessions over WebSocket
	Sealed          Endpoint = "/e2ee/chat/completions" // requests that their senders encrypted for an enclave
)

// Endpoints returns all of them, in the order of the documentation.
func Endpoints() []Endpoint {
	return []Endpoint{Moderations, Rerank, ImageGeneration, ImageEdit, ImageVariation, Speech, Transcription, Translation, Realtime, Sealed}
}

// Section defines the keys in the configuration section of a kind of provider.
type Section uint8

// The sections.
const (
	NoSection     Section = iota // no section
	VendorSection                // a key and an address: it serves the catalog's models of its name
	HostSection                  // as VendorSection, with a list of models
	OwnSection                   // keys of its own, defined in internal/config
)

// Traits are the properties that the choice of a provider depends on. The zero value is an unknown server of the operator's choice.
type Traits struct {
	Lacks  []policy.Feature // no model has them there, even if it has them elsewhere
	Gives  []policy.Feature // every model has them there
	OwnKey []policy.Feature // in addition, every model has them for requests with a user's own key
	First  Preference       // requests that it serves before others
	Rank   int              // among providers of equal scores: lower ones come first (D-10)

	ComparedByCost bool // its models are so many that only their cost is compared
	ReadsDocuments bool // it reads documents for models that do not
	Marketplace    bool // it serves the models of many vendors: errors suggest it if no provider serves a model
}

// Preference is which requests a provider serves before others.
type Preference uint8

// The preferences.
const (
	ForNone    Preference = iota // none: the configured order applies
	ForPrivacy                   // requests that need privacy, and all while staked credit pays; no others
	ForWallet                    // requests of the subsystems that a wallet's earnings pay for
)

// Earnings are the balance, revenue and cost of a wallet that pays for inference, in USDC base units. A negative balance means that the provider was
// queried, and nothing is left.
type Earnings struct{ Balance, Revenue, Cost policy.Micro }

// Provider is an enabled provider, with the properties that the choice depends on.
type Provider struct {
	ID      policy.ProviderID
	Traits  Traits
	Private bool              // it retains nothing
	Free    bool              // every model is free
	Vendor  bool              // it is the vendor of its models, or a user's own key at one
	Of      policy.ProviderID // the vendor whose models it lists; "" for none
	Direct  bool              // a user's own key: no pipeline, no spread, unless ContextEngineering

	ContextEngineering bool

	Models   []modelfile.Model // its listed models; for vendors, the catalog's models
	Catalog  string            // the form of its own list of models: openai, openrouter, venice, blockrun; "": it has none that can be read
	Any      bool              // serves any id that no other provider lists
	AnyNamed bool              // serves any id requested with its name
	Broad    bool              // serves models of many vendors: without Models and without a list of its own, the catalog's
	Only     []string          // substrings of the ids that may be requested; nil: all

	DIEM       bool     // paid by staked credit
	Subsystems []string // that its wallet pays for
	Earnings   Earnings // of its wallet
}
