package config

import (
	"cmp"
	"slices"

	"bardo.money/gateway/policy"
)

// Providers are the places where models are served.
type Providers struct {
	Order     []policy.ProviderID `key:"order" doc:"Provider names and custom ids, first choice first. Those it does not name come after, in order of appearance."`
	OpenAI    *Ordinary           `key:"openai" doc:"OpenAI, on the operator's key."`
	Anthropic *Ordinary           `key:"anthropic" doc:"Anthropic, on the operator's key."`
	DeepSeek  *Ordinary           `key:"deepseek" doc:"DeepSeek, on the operator's key."`
	Qwen      *Ordinary           `key:"qwen" doc:"Qwen (Alibaba Model Studio), on the operator's key."`
	Custom    []Custom            `key:"custom" doc:"Any other server that speaks one of the known formats."`
}

// Ordinary is a provider whose address and models are known; it needs only the operator's key.
type Ordinary struct {
	APIKey  Secret `key:"api_key" doc:"The operator's key. Without it, the usual variable of the environment."`
	BaseURL URL    `key:"base_url" doc:"Base URL up to and including the version. Without it, the provider's own."`
}

// Custom is a server that the operator describes.
type Custom struct {
	ID           policy.ProviderID `key:"id" doc:"Its name in order, in provider/model ids and in answers."`
	Format       string            `key:"format" default:"openai" doc:"The API it speaks: openai or anthropic."`
	Endpoints    []URL             `key:"endpoints" doc:"Base URLs up to and including the version, of equal servers."`
	APIKey       Secret            `key:"api_key" doc:"Its key, if it wants one."`
	Private      bool              `key:"private" default:"false" doc:"Prompts sent here stay with the operator."`
	Betas        []string          `key:"betas" doc:"Flags of anthropic-beta headers that it gets to see, if it speaks anthropic. Without the key, all of them; with an empty list, none."`
	CacheControl bool              `key:"cache_control" doc:"It speaks openai and understands Anthropic's cache_control on content parts, tools and tool calls."`
	Models       []Model           `key:"models" doc:"What it serves. Without a list, any id that no other provider lists."`
}

// Model is what the operator, or the embedded catalog, says about a model. Only ID is required; what is not said is nil,
// zero or empty, and comes from the catalog.
type Model struct {
	ID            string           `key:"id" doc:"The id that clients use."`
	UpstreamID    string           `key:"upstream_id" doc:"The name that the provider knows the model by. Without it, the id."`
	Aliases       []string         `key:"aliases" doc:"Other ids for the same model."`
	Family        string           `key:"family" doc:"The family: gpt, o, claude, gemini, deepseek, qwen or a name of your own."`
	Context       int              `key:"context" min:"0" max:"1000000000" doc:"Window in tokens."`
	MaxOutput     int              `key:"max_output" min:"0" max:"1000000000" doc:"Most output tokens of one answer."`
	Price         *Price           `key:"price" doc:"USD per million tokens."`
	Capabilities  []policy.Feature `key:"capabilities" doc:"Features of the model."`
	Quality       string           `key:"quality" oneof:"minimum low medium high maximum" doc:"Quality class."`
	Reasoning     string           `key:"reasoning" doc:"Where its reasoning is found: auto, none, or the name of a dialect."`
	ImplicitOpen  *bool            `key:"implicit_open" doc:"Answers begin inside reasoning, without an opening tag."`
	FixedSampling *bool            `key:"fixed_sampling" doc:"It refuses temperature, top_p, penalties and max_tokens, as many of OpenAI's models that reason do: they are left out, and the limit is called max_completion_tokens."`
	LatencyP50MS  int              `key:"latency_p50_ms" min:"0" max:"3600000" doc:"Usual time to the first token, in milliseconds."`
}

// Price is USD per million tokens. Input and output are given together.
type Price struct {
	Input        *policy.Price `key:"input" doc:"Input tokens."`
	Output       *policy.Price `key:"output" doc:"Output tokens, reasoning included."`
	CachedInput  *policy.Price `key:"cached_input" doc:"Input tokens read from the provider's cache. Without it, as input."`
	CacheWrite   *policy.Price `key:"cache_write" doc:"Input tokens written to a five-minute cache. Without it, as input."`
	CacheWrite1h *policy.Price `key:"cache_write_1h" doc:"Input tokens written to a one-hour cache. Without it, as cache_write."`
}

// The kinds of provider: which adapter serves them.
const (
	KindOpenAI    = "openai"
	KindAnthropic = "anthropic"
	KindCustom    = "custom"
	KindDemo      = "demo"
)

// The formats that a provider can be spoken to in.
const (
	FormatOpenAI    = "openai"
	FormatAnthropic = "anthropic"
)

// Provider is one enabled provider, whatever section it was configured in.
type Provider struct {
	ID           policy.ProviderID
	Kind         string // which adapter serves it: KindOpenAI …
	Format       string // what it speaks: FormatOpenAI … ; "" for the demo provider
	Endpoints    []URL  // equal servers; none for the demo provider
	Key          Secret
	Private      bool
	Betas        []string // the only beta flags that it gets to see; nil: all
	CacheControl bool     // understands cache_control in OpenAI's format
	Models       []Model  // what it lists; ordinary providers list the models that the catalog knows of their vendor
	Any          bool     // serves any id that no other provider lists
	Vendor       bool     // an ordinary provider: ID is also the vendor of the models it serves
	Free         bool     // costs nothing, whatever model it is asked for
}

// ordinary describes a provider that needs only a key.
type ordinary struct {
	id      policy.ProviderID
	kind    string
	format  string
	baseURL URL
	vars    []string // variables of the environment that hold its key, first one wins
	at      func(*Providers) **Ordinary
}

var ordinaries = []ordinary{
	{
		"anthropic", KindAnthropic, FormatAnthropic,
		URL{"https", "api.anthropic.com", "/v1"},
		[]string{"ANTHROPIC_API_KEY"},
		func(p *Providers) **Ordinary { return &p.Anthropic },
	},
	{
		"openai", KindOpenAI, FormatOpenAI,
		URL{"https", "api.openai.com", "/v1"},
		[]string{"OPENAI_API_KEY"},
		func(p *Providers) **Ordinary { return &p.OpenAI },
	},
	{
		"deepseek", KindCustom, FormatOpenAI,
		URL{"https", "api.deepseek.com", "/v1"},
		[]string{"DEEPSEEK_API_KEY"},
		func(p *Providers) **Ordinary { return &p.DeepSeek },
	},
	{
		"qwen", KindCustom, FormatOpenAI,
		URL{"https", "dashscope-intl.aliyuncs.com", "/compatible-mode/v1"},
		[]string{"DASHSCOPE_API_KEY", "QWEN_API_KEY"},
		func(p *Providers) **Ordinary { return &p.Qwen },
	},
}

// Demo is the id of the built-in provider that answers when no other is configured.
const Demo policy.ProviderID = "demo"

// defaultOrder is the order of providers that no file names: those that a variable of the environment enabled.
var defaultOrder = []policy.ProviderID{"blockrun", "anthropic", "openai", "google", "openrouter", "venice", "bankr", "direct", "deepseek", "qwen"}

// reserved are the names that a custom provider cannot take.
func reserved() []policy.ProviderID { return append(slices.Clone(defaultOrder), Demo, "custom") }

// Known tells whether a name is one of the providers that this schema knows, enabled or not.
func Known(id policy.ProviderID) bool { return slices.Contains(defaultOrder, id) || id == Demo }

// DemoOnly tells whether no real provider is configured, so that the demo provider answers.
func (c *Config) DemoOnly() bool {
	if len(c.Providers.Custom) > 0 {
		return false
	}
	return !slices.ContainsFunc(ordinaries, func(o ordinary) bool { return *o.at(&c.Providers) != nil })
}

// Enabled lists the enabled providers, first choice first: those in providers.order, then the others in order of
// appearance in the file, then those that only a variable of the environment enabled. It is never empty: with no other,
// the demo provider is enabled.
func (c *Config) Enabled() []Provider {
	if c.DemoOnly() {
		return []Provider{{ID: Demo, Kind: KindDemo, Models: []Model{{ID: string(Demo)}}, Any: true, Free: true}}
	}
	var out []Provider
	for _, o := range ordinaries {
		if p := *o.at(&c.Providers); p != nil {
			out = append(out, Provider{
				ID: o.id, Kind: o.kind, Format: o.format, Endpoints: []URL{p.BaseURL}, Key: p.APIKey, Vendor: true,
			})
		}
	}
	for _, p := range c.Providers.Custom {
		out = append(out, Provider{
			ID: p.ID, Kind: KindCustom, Format: p.Format, Endpoints: p.Endpoints, Key: p.APIKey, Private: p.Private,
			Betas: p.Betas, CacheControl: p.CacheControl,
			Models: p.Models, Any: len(p.Models) == 0,
		})
	}
	order := slices.Concat(c.Providers.Order, c.appeared, defaultOrder)
	slices.SortStableFunc(out, func(a, b Provider) int {
		return cmp.Compare(slices.Index(order, a.ID), slices.Index(order, b.ID))
	})
	return out
}
