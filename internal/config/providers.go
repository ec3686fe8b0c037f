package config

import (
	"slices"
	"strings"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/modelfile"
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

// Model is what the operator says about a model, and ModelFile a file of such entries.
type (
	Model     = modelfile.Model
	ModelFile = modelfile.File
)

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
	kind.Provider

	Kind         string // which adapter serves it: KindOpenAI …
	Format       string // what it speaks: FormatOpenAI … ; "" for the demo provider
	Endpoints    []URL  // equal servers; none for the demo provider
	Key          Secret
	Keys         []Secret // all of its keys, Key first; nil where there is none
	Betas        []string // the only beta flags that it gets to see; nil: all
	CacheControl bool     // understands cache_control in OpenAI's format

	Responses     bool // it speaks OpenAI's Responses API
	NoCompletions bool // it does not complete prompts
	BYOK          bool // requests may bring their own key
	Characters    map[string]string
	Sort          string
	Fallbacks     []string
	Allow         []string // members that its requests may have beyond what is priced
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

// Known lists the providers that this schema knows, enabled or not, users' own keys as "direct".
func Known() []policy.ProviderID { return append(slices.Clone(defaultOrder), Demo) }
