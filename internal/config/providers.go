package config

import (
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/policy"
)

// Providers are the places where models are served.
type Providers struct {
	Order      []policy.ProviderID `key:"order" doc:"Provider names and custom ids, first choice first. Those it does not name come after, in order of appearance."`
	OpenAI     *Ordinary           `key:"openai" doc:"OpenAI, on the operator's key."`
	Anthropic  *Ordinary           `key:"anthropic" doc:"Anthropic, on the operator's key."`
	Google     *Ordinary           `key:"google" doc:"Google (Gemini), on the operator's key."`
	DeepSeek   *Ordinary           `key:"deepseek" doc:"DeepSeek, on the operator's key."`
	Qwen       *Ordinary           `key:"qwen" doc:"Qwen (Alibaba Model Studio), on the operator's key."`
	BlockRun   *BlockRun           `key:"blockrun" doc:"BlockRun: models of many vendors through one API."`
	OpenRouter *OpenRouter         `key:"openrouter" doc:"OpenRouter: models of many vendors, on the operator's key."`
	Venice     *Venice             `key:"venice" doc:"Venice, the private plane: what is sent there is not retained."`
	Bankr      *Bankr              `key:"bankr" doc:"Bankr: inference that an agent pays from what it earns."`
	Direct     *Direct             `key:"direct" doc:"Users' own keys: their requests pass as they are, without pipeline and spread."`
	Custom     []Custom            `key:"custom" doc:"Any other server that speaks one of the known formats."`
}

// Ordinary is a provider whose address and models are known; it needs only the operator's key.
type Ordinary struct {
	APIKey  Secret   `key:"api_key" doc:"The operator's key. Without it, the usual variable of the environment."`
	APIKeys []Secret `key:"api_keys" doc:"Further keys, of equal rights: requests are spread over all, and one that is asked too often rests."`
	BaseURL URL      `key:"base_url" doc:"Base URL up to and including the version. Without it, the provider's own."`
}

// BlockRun is a gateway to models of many vendors.
type BlockRun struct {
	Endpoint URL      `key:"endpoint" doc:"Base URL. Without a path, /v1 is meant."`
	APIKey   Secret   `key:"api_key" doc:"Account key."`
	APIKeys  []Secret `key:"api_keys" doc:"Further account keys."`
	Models   []Model  `key:"models" doc:"What it serves. Without a list, its own list of models, else every model of the catalog."`
}

// OpenRouter is a gateway to models of many vendors.
type OpenRouter struct {
	Endpoint  URL      `key:"endpoint" doc:"Base URL up to and including the version. Without it, the provider's own."`
	APIKey    Secret   `key:"api_key" doc:"The operator's key. Without it, OPENROUTER_API_KEY."`
	APIKeys   []Secret `key:"api_keys" doc:"Further keys."`
	BYOK      bool     `key:"byok" default:"false" doc:"Requests may bring a key of their own in X-Bardo-Upstream-Key."`
	Fallbacks []string `key:"fallbacks" doc:"Models that it may answer with itself where the one that it is asked for is not to be had, by its own names, first choice first."`
	Allow     []string `key:"allow" oneof:"models plugins route preset" doc:"Members of requests that may choose models which Models does not list, or that cost more than tokens, and that callers may use all the same: what OpenRouter says that such an answer cost is charged, and not reserved. plugins also allows ids that end in :online, preset those with @preset/."`
	Sort      string   `key:"sort" oneof:"price throughput latency" doc:"How it chooses among the hosts of a model. Without it, by each request's cost sensitivity."`
	Models    []Model  `key:"models" doc:"What it serves. Without a list, its own list of models, else any id."`
}

// Venice is the private plane.
type Venice struct {
	BaseURL            URL               `key:"base_url" doc:"Base URL up to and including the version. Without it, the provider's own."`
	APIKey             Secret            `key:"api_key" doc:"The operator's key. Without it, VENICE_API_KEY."`
	APIKeys            []Secret          `key:"api_keys" doc:"Further keys."`
	DIEMStaked         bool              `key:"diem_staked" default:"false" doc:"Staked DIEM pays: its inference costs nothing, and it is preferred for everything."`
	DIEMDaily          policy.Micro      `key:"diem_daily_usd" doc:"What the staked DIEM pays for in a UTC day, in USD at Venice's prices. Beyond it nobody's inference is paid by it until the next day. Without it, or at 0, all that callers say is there."`
	DefaultPrivacyTier string            `key:"default_privacy_tier" oneof:"private tee e2e" doc:"The tier of requests that name none. Only private is built; the others are taken with a warning."`
	Characters         map[string]string `key:"characters" doc:"The Venice character that a role is played by."`
	Models             []Model           `key:"models" doc:"What it serves. Without a list, its own list of models, else those of the catalog that it is known to serve."`
}

// Bankr is a gateway whose bills are paid by a wallet's earnings.
type Bankr struct {
	Endpoint        URL          `key:"endpoint" doc:"Base URL up to and including the version. Without it, the provider's own."`
	APIKey          Secret       `key:"api_key" doc:"The operator's key. Without it, BANKR_API_KEY."`
	APIKeys         []Secret     `key:"api_keys" doc:"Further keys."`
	Wallet          string       `key:"wallet" doc:"Address of the wallet that earns and pays."`
	Subsystems      []string     `key:"subsystems" doc:"The parts of an agent that it serves: autonomous and social, if nothing is said."`
	RevenueBalance  policy.Micro `key:"revenue_balance_usd" doc:"What is there to be spent, in USD: a tenth of it, more or less by what is earned, is the most that one request may cost."`
	LifetimeRevenue policy.Micro `key:"lifetime_revenue_usd" doc:"All that was ever earned, in USD."`
	LifetimeCost    policy.Micro `key:"lifetime_cost_usd" doc:"All that inference ever cost, in USD."`
	Models          []Model      `key:"models" doc:"What it serves. Without a list, the models that the sources of the catalog name for it."`
}

// Direct holds users' own keys.
type Direct struct {
	Keys []DirectKey `key:"keys" doc:"The keys, first choice first. Keys of one vendor, address and list of models are spread over."`
}

// DirectKey is a user's own key at a vendor.
type DirectKey struct {
	Provider           string   `key:"provider" oneof:"openai anthropic google deepseek qwen local" doc:"The vendor."`
	APIKey             Secret   `key:"api_key" doc:"The key."`
	BaseURL            URL      `key:"base_url" doc:"Base URL up to and including the version. Without it, the vendor's own."`
	Models             []string `key:"models" doc:"Models that it may be used for, by id or by a part of it. Without a list, all of the vendor's."`
	ContextEngineering bool     `key:"context_engineering" default:"false" doc:"The pipeline runs for its requests, too."`
}

// Custom is a server that the operator describes.
type Custom struct {
	ID           policy.ProviderID `key:"id" doc:"Its name in order, in provider/model ids and in answers."`
	Format       string            `key:"format" default:"openai" doc:"The API it speaks: openai, anthropic or gemini."`
	Endpoints    []URL             `key:"endpoints" doc:"Base URLs up to and including the version, of equal servers."`
	APIKey       Secret            `key:"api_key" doc:"Its key, if it wants one."`
	APIKeys      []Secret          `key:"api_keys" doc:"Further keys, of equal rights."`
	Private      bool              `key:"private" default:"false" doc:"Prompts sent here stay with the operator."`
	Betas        []string          `key:"betas" doc:"Flags of anthropic-beta headers that it gets to see, if it speaks anthropic. Without the key, all of them; with an empty list, none."`
	CacheControl bool              `key:"cache_control" doc:"It speaks openai and understands Anthropic's cache_control on content parts, tools and tool calls."`
	Responses    bool              `key:"responses" default:"false" doc:"It speaks openai and OpenAI's Responses beside it: clients of that are served in it, with what it keeps of responses."`
	Completions  *bool             `key:"completions" doc:"It speaks openai and completes prompts (/completions), which go there as they came. Without the key, it is asked, and for a turn of a conversation where it answers 404 or 405; with false, only for that."`
	Catalog      string            `key:"catalog" oneof:"openai openrouter venice blockrun" doc:"The form of its list of models (GET /models), which is read every models.refresh: what it lists is what it serves, at the prices that it names. Without it, the list is not read."`
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
	Lacks         []policy.Feature `key:"lacks" doc:"Features that it does not have there, whatever else is said of it."`
	SchemaAlone   *bool            `key:"schema_alone" doc:"It takes a schema of the answer or functions, not both, as Gemini's models before the third generation."`
	Quality       string           `key:"quality" oneof:"minimum low medium high maximum" doc:"Quality class."`
	Reasoning     string           `key:"reasoning" oneof:"auto none anthropic openai responses gemini deepseek qwen openrouter venice vllm mistral kimi seed gemma tags" doc:"Where its reasoning is found: by who answers and how, nowhere, or as in the answers of a kind of provider or model."`
	ImplicitOpen  *bool            `key:"implicit_open" doc:"Answers begin inside reasoning: the prompt has the opening tag."`
	ResponsesOnly *bool            `key:"responses_only" doc:"It is served in Responses alone, as OpenAI's pro, codex and deep-research models are: where its provider speaks that, all clients are served in it."`
	NamedOnly     *bool            `key:"named_only" doc:"It serves those who ask for it by name; the gateway does not choose it by itself."`
	FixedSampling *bool            `key:"fixed_sampling" doc:"It refuses temperature, top_p, penalties and max_tokens, as many of OpenAI's models that reason do: they are left out, and the limit is called max_completion_tokens."`
	ToolFormat    string           `key:"tool_format" oneof:"native hermes qwen json" doc:"How it calls tools: native, or written into its text in the format of hermes, qwen or plain json. Without it, as the catalog says, else native."`
	LatencyP50MS  int              `key:"latency_p50_ms" min:"0" max:"3600000" doc:"Usual time to the first token, in milliseconds."`
	Vendor        string           `key:"vendor" doc:"The ordinary provider that serves it (openai, anthropic, google, deepseek, qwen), or none. Without it, the one of its family."`
	Strengths     *Strengths       `key:"strengths" doc:"How good it is at what, from 0 to 1. Without a quality, their mean says it: below 0.25 minimum, 0.45 low, 0.65 medium, 0.85 high, else maximum."`
	Thinking      *Thinking        `key:"thinking" doc:"How it is told how hard to think."`
	MinCache      int              `key:"min_cache" min:"0" max:"1000000000" doc:"Least tokens of a prompt that its provider caches."`
}

// Strengths say how good a model is at what, from 0 to 1. What is nil is not known.
type Strengths struct {
	Reasoning            *float64 `key:"reasoning" min:"0" max:"1" doc:"Long chains of thought."`
	CodeGeneration       *float64 `key:"code_generation" min:"0" max:"1" doc:"Writing code."`
	ToolCallAccuracy     *float64 `key:"tool_call_accuracy" min:"0" max:"1" doc:"The right call with the right arguments."`
	SchemaAdherence      *float64 `key:"schema_adherence" min:"0" max:"1" doc:"Answers that follow a schema."`
	DeFiKnowledge        *float64 `key:"defi_knowledge" min:"0" max:"1" doc:"What it knows of decentralised finance."`
	InstructionFollowing *float64 `key:"instruction_following" min:"0" max:"1" doc:"Doing what it was told, and nothing else."`
}

// Known are the strengths that are known, by their keys. A nil value knows none.
func (s *Strengths) Known() map[string]float64 {
	if s == nil {
		return nil
	}
	out := map[string]float64{}
	for name, v := range map[string]*float64{
		"reasoning": s.Reasoning, "code_generation": s.CodeGeneration, "tool_call_accuracy": s.ToolCallAccuracy,
		"schema_adherence": s.SchemaAdherence, "defi_knowledge": s.DeFiKnowledge, "instruction_following": s.InstructionFollowing,
	} {
		if v != nil {
			out[name] = *v
		}
	}
	return out
}

// Thinking says how a model is told how hard to think.
type Thinking struct {
	Control policy.ReasoningControl `key:"control" oneof:"none always effort toggle streamed template slash budget level adaptive" doc:"By what. Without it, as is usual at its provider."`
	Efforts []string                `key:"efforts" doc:"The efforts that it takes, least first; an empty list for none. Without it, whatever comes."`
	Default policy.ThinkingDefault  `key:"default" oneof:"on always" doc:"What it does where nobody says how hard to think: on, it thinks until it is told not to; always, whatever it is told. Without it, it does not."`
	Display *bool                   `key:"display" doc:"Whether its thinking can be asked for in the answer."`
}

// Price is USD per million tokens. Input and output are given together.
type Price struct {
	Input        *policy.Price `key:"input" doc:"Input tokens."`
	Output       *policy.Price `key:"output" doc:"Output tokens, reasoning included."`
	CachedInput  *policy.Price `key:"cached_input" doc:"Input tokens read from the provider's cache. Without it, as input."`
	CacheWrite   *policy.Price `key:"cache_write" doc:"Input tokens written to a five-minute cache. Without it, as input."`
	CacheWrite1h *policy.Price `key:"cache_write_1h" doc:"Input tokens written to a one-hour cache. Without it, as cache_write."`
	PerRequest   *policy.Micro `key:"per_request" doc:"USD for each request, besides its tokens."`
	PerSearch    *policy.Micro `key:"per_search" doc:"USD for each search of the web that the provider makes."`

	Above        []LongPrice          `key:"above" doc:"What requests cost whose prompts are longer, the whole of them. An empty list: no more than others."`
	ServiceTiers map[string]TierPrice `key:"service_tiers" doc:"What requests cost that ask for another tier of service and get it, by the provider's name of the tier: priority, flex."`

	Source  string    // where the price was read; not a key: whoever read it says so
	Updated time.Time // when
}

// LongPrice is what requests cost whose prompts are longer than a number of tokens.
type LongPrice struct {
	Tokens       int           `key:"tokens" min:"1" max:"1000000000" doc:"Longer than so many tokens, those of the provider's cache included."`
	Input        *policy.Price `key:"input" doc:"Input tokens."`
	Output       *policy.Price `key:"output" doc:"Output tokens, reasoning included."`
	CachedInput  *policy.Price `key:"cached_input" doc:"Input tokens read from the provider's cache. Without it, as input."`
	CacheWrite   *policy.Price `key:"cache_write" doc:"Input tokens written to a five-minute cache. Without it, as input."`
	CacheWrite1h *policy.Price `key:"cache_write_1h" doc:"Input tokens written to a one-hour cache. Without it, as cache_write."`
}

// TierPrice is what requests cost in a tier of service.
type TierPrice struct {
	Input        *policy.Price `key:"input" doc:"Input tokens."`
	Output       *policy.Price `key:"output" doc:"Output tokens, reasoning included."`
	CachedInput  *policy.Price `key:"cached_input" doc:"Input tokens read from the provider's cache. Without it, as input."`
	CacheWrite   *policy.Price `key:"cache_write" doc:"Input tokens written to a five-minute cache. Without it, as input."`
	CacheWrite1h *policy.Price `key:"cache_write_1h" doc:"Input tokens written to a one-hour cache. Without it, as cache_write."`
	Above        []LongPrice   `key:"above" doc:"What longer prompts cost there. Without it, no more than others."`
}

// The kinds of provider: which adapter serves them.
const (
	KindOpenAI     = "openai"
	KindAnthropic  = "anthropic"
	KindGoogle     = "google"
	KindDeepSeek   = "deepseek"
	KindQwen       = "qwen"
	KindBlockRun   = "blockrun"
	KindOpenRouter = "openrouter"
	KindVenice     = "venice"
	KindBankr      = "bankr"
	KindCustom     = "custom"
	KindDemo       = "demo"
)

// The formats that a provider can be spoken to in.
const (
	FormatOpenAI    = "openai"
	FormatAnthropic = "anthropic"
	FormatGemini    = "gemini"
)

// Provider is one enabled provider, whatever section it was configured in.
type Provider struct {
	ID           policy.ProviderID
	Kind         string // which adapter serves it: KindOpenAI …
	Format       string // what it speaks: FormatOpenAI … ; "" for the demo provider
	Endpoints    []URL  // equal servers; none for the demo provider
	Key          Secret
	Keys         []Secret // all of its keys, Key first; nil where there is none
	Private      bool     // it retains nothing
	Betas        []string // the only beta flags that it gets to see; nil: all
	CacheControl bool     // understands cache_control in OpenAI's format
	Models       []Model  // what it lists; ordinary providers list the models that the catalog knows of their vendor
	Any          bool     // serves any id that no other provider lists
	Vendor       bool     // an ordinary provider: ID is also the vendor of the models it serves
	Free         bool     // costs nothing, whatever model it is asked for

	Of     policy.ProviderID // the vendor whose models it lists; "" for none
	Broad  bool              // serves models of many vendors: without Models and without a list of its own, the catalog's
	Direct bool              // a user's own key: no pipeline, no spread, unless ContextEngineering
	Only   []string          // parts of ids of the models that it may be asked for; nil: all

	ContextEngineering bool
	Responses          bool // it speaks OpenAI's Responses API
	NoCompletions      bool // it does not complete prompts
	DIEM               bool // paid by staked credit
	BYOK               bool // requests may bring their own key
	Subsystems         []string
	Earnings           Earnings
	Characters         map[string]string
	Sort               string
	Fallbacks          []string
	Allow              []string // members that its requests may have beyond what is priced

	Catalog string // the form of its own list of models: CatalogOpenRouter …; "": it has none that is read
}

// The forms of providers' lists of models.
const (
	CatalogOpenAI     = "openai"
	CatalogOpenRouter = "openrouter"
	CatalogVenice     = "venice"
	CatalogBlockRun   = "blockrun"
)

// Earnings are what a wallet that pays for inference has and had, in USDC base units.
type Earnings struct{ Balance, Revenue, Cost policy.Micro }

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
		"google", KindGoogle, FormatGemini,
		URL{"https", "generativelanguage.googleapis.com", "/v1beta"},
		[]string{"GOOGLE_API_KEY", "GEMINI_API_KEY"},
		func(p *Providers) **Ordinary { return &p.Google },
	},
	{
		"deepseek", KindDeepSeek, FormatOpenAI,
		URL{"https", "api.deepseek.com", "/v1"},
		[]string{"DEEPSEEK_API_KEY"},
		func(p *Providers) **Ordinary { return &p.DeepSeek },
	},
	{
		"qwen", KindQwen, FormatOpenAI,
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

// variablesOf are the variables of the environment that enable a provider, the first one wins; nil for one that takes more than a key.
func variablesOf(id policy.ProviderID) []string {
	if i := slices.IndexFunc(ordinaries, func(o ordinary) bool { return o.id == id }); i >= 0 {
		return ordinaries[i].vars
	}
	switch id {
	case KindOpenRouter:
		return []string{"OPENROUTER_API_KEY"}
	case KindVenice:
		return []string{"VENICE_API_KEY"}
	case KindBankr:
		return []string{"BANKR_API_KEY"}
	}
	return nil
}

// EnabledBy says what enables a known provider: "set OPENAI_API_KEY, or providers.openai in the configuration".
func EnabledBy(id policy.ProviderID) string {
	section := "providers." + string(id) + " in the configuration"
	if vars := variablesOf(id); vars != nil {
		return "set " + strings.Join(vars, " or ") + ", or " + section
	}
	return "set " + section
}

// KeyAdvice says where to correct the provider's key: "correct OPENAI_API_KEY, or providers.openai.api_key in the configuration".
func (p Provider) KeyAdvice() string {
	at := "providers." + string(p.ID) + ".api_key"
	switch {
	case p.Direct:
		at = "providers.direct.keys, the api_key of " + string(p.Of) + ","
	case p.Kind == KindCustom:
		at = "providers.custom, the api_key of " + string(p.ID) + ","
	}
	at += " in the configuration"
	vars := variablesOf(p.ID)
	if p.Direct {
		vars = variablesOf(p.Of)
	}
	if len(vars) == 0 || p.Kind == KindCustom && !p.Direct {
		return "correct " + at
	}
	return "correct " + strings.Join(vars, " or ") + " and start the gateway again, or " + at
}

// Known tells whether a name is one of the providers that this schema knows, enabled or not.
func Known(id policy.ProviderID) bool { return slices.Contains(defaultOrder, id) || id == Demo }
