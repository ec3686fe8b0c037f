// Package kind says what other packages must know of a kind of provider without knowing its adapter. The values stand beside the adapters, in
// extproc/provider/<name>/kind.go, and cmd/bardo/parts lists them. Nothing here names a provider.
package kind

import (
	"time"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// Kind describes a kind of provider.
type Kind struct {
	Name    string  // of its adapter, and of its section in the configuration
	Section Section // which keys its section has
	Doc     string  // what the documentation says of the section

	BaseURL     string   // its own, up to and including the version; "": the operator names one
	URLVariable string   // variable of the environment that holds the base URL; "": none
	APIVersion  string   // the version that its requests name in their query unless the operator names another; "": they name none
	Variables   []string // variables of the environment that hold its key, the first one that is set counts
	Keyless     bool     // it may be called without a key

	Format       string // the format of its API: openai, anthropic, gemini
	List         string // the form of its own list of models: openai, openrouter, venice, blockrun; "": it has none that is read
	Private      bool   // it retains nothing
	Broad        bool   // it serves models of many vendors: without models and without a list, the catalog's
	AnyModel     bool   // it serves any id that is asked of it by its name: groq/llama-4
	Responses    bool   // it speaks OpenAI's Responses beside Chat Completions
	CacheControl bool   // it speaks openai and understands cache_control on content
	CountsTokens bool   // it counts the tokens of a request
	Batches      string // the form of its batch API: openai, anthropic; "": it has none that is used

	Endpoints []Endpoint // that it has besides those of conversations and embeddings

	PromptCache PromptCache
	Reasoning   Reasoning
	Traits      Traits
}

// Reasoning is how the answers of a kind of provider return reasoning: names of dialects of extproc/reasoning. The zero value leaves it to the
// API format and the model's family.
type Reasoning struct {
	Dialect string            // of all its models that Vendors does not list
	Vendors map[string]string // of a marketplace: by the vendor in the model's upstream id, vendor/model
}

// PromptCache is the terms of a provider's prompt cache, for models whose entry and list do not say them. The zero value has no known terms.
type PromptCache struct {
	Terms    CacheTerms            // for all families that Families does not list
	Families map[string]CacheTerms // by family
	OfVendor bool                  // a marketplace that passes on the terms of the vendor of the model's family
}

// CacheTerms are what a prompt cache saves and costs, and what it keeps.
type CacheTerms struct {
	MinDiscount, MaxDiscount int           // percent off the input price for cached tokens
	WritePremium             int           // percent added to the input price for tokens that are written to the cache
	MinTokens                int           // length of the shortest prefix that is cached
	MinTTL, MaxTTL           time.Duration // since the last use
	Explicit                 bool          // only prefixes that the request marks are cached; otherwise every prefix is
}

// Endpoint is an endpoint that is neither for conversations nor for embeddings, by its path below the base URL. Requests to it go unchanged
// to providers that have it.
type Endpoint string

// The endpoints, as OpenAI's API has them; rerank as Cohere's has it.
const (
	Moderations     Endpoint = "/moderations"
	Rerank          Endpoint = "/rerank"
	ImageGeneration Endpoint = "/images/generations"
	ImageEdit       Endpoint = "/images/edits"
	ImageVariation  Endpoint = "/images/variations"
	Speech          Endpoint = "/audio/speech"
	Transcription   Endpoint = "/audio/transcriptions"
	Translation     Endpoint = "/audio/translations"
	Sealed          Endpoint = "/e2ee/chat/completions" // of requests that their senders encrypted for an enclave
)

// Endpoints are all of them, in the order of the documentation.
func Endpoints() []Endpoint {
	return []Endpoint{Moderations, Rerank, ImageGeneration, ImageEdit, ImageVariation, Speech, Transcription, Translation, Sealed}
}

// Section says which keys the configuration of a kind of provider has.
type Section uint8

// The sections.
const (
	NoSection     Section = iota // it is not configured by its name
	VendorSection                // a key and an address: it serves the catalog's models of its name
	HostSection                  // besides, a list of models
	OwnSection                   // keys of its own, which internal/config knows
)

// Traits are what the choice of a provider depends on. The zero value is a server of the operator's choice, of which nothing is known.
type Traits struct {
	Lacks  []policy.Feature // no model has them there, whatever is known of the model elsewhere
	Gives  []policy.Feature // every model has them there
	OwnKey []policy.Feature // every model has them there for requests on a user's own key, besides
	First  Preference       // the requests that it serves before others
	Rank   int              // among providers of equal scores: lower ones come first (D-10)

	ComparedByCost bool // it serves so many models that only their cost is compared
	ReadsDocuments bool // it reads documents for models that do not
	Marketplace    bool // it serves the models of many vendors: where no provider serves a model, this one is named
}

// Preference says which requests a provider serves before others.
type Preference uint8

// The preferences.
const (
	ForNone    Preference = iota // it stands in the configured order
	ForPrivacy                   // those that want privacy, and all while staked credit pays; it competes for nothing else
	ForWallet                    // those of the subsystems that a wallet's earnings pay for
)

// Earnings are what a wallet that pays for inference has and had, in USDC base units. A balance below 0 says that its provider was asked, and nothing is left.
type Earnings struct{ Balance, Revenue, Cost policy.Micro }

// Provider is an enabled provider as the choice of one sees it.
type Provider struct {
	ID      policy.ProviderID
	Traits  Traits
	Private bool              // it retains nothing
	Free    bool              // costs nothing, whatever model it is asked for
	Vendor  bool              // it is the vendor of the models that it serves, or a user's own key at one
	Of      policy.ProviderID // the vendor whose models it lists; "" for none
	Direct  bool              // a user's own key: no pipeline, no spread, unless ContextEngineering

	ContextEngineering bool

	Models   []modelfile.Model // what it lists; vendors list the models that the catalog knows of them
	Catalog  string            // the form of its own list of models: openai, openrouter, venice, blockrun; "": it has none that is read
	Any      bool              // serves any id that no other provider lists
	AnyNamed bool              // serves any id that is asked of it by its name
	Broad    bool              // serves models of many vendors: without Models and without a list of its own, the catalog's
	Only     []string          // parts of ids of the models that it may be asked for; nil: all

	DIEM       bool     // paid by staked credit
	Subsystems []string // that its wallet pays for
	Earnings   Earnings // of its wallet
}
