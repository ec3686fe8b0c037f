package config

import (
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// Providers configures where models are served.
type Providers struct {
	Order      []policy.ProviderID `key:"order" doc:"Provider names and custom ids, most preferred first. Others follow in order of appearance."`
	CAFile     string              `key:"ca_file" path:"file" doc:"File on Envoy's machine with the authorities (PEM) that providers' certificates are judged by. Without it, the system's."`
	Proxy      URL                 `key:"proxy" doc:"An HTTP proxy, such as http://10.0.0.1:3128, with an IP address. Providers with an https address are reached through it, by CONNECT with the name, which the proxy resolves. Others, hooks and MCP servers are reached directly."`
	NoProxy    []policy.ProviderID `key:"no_proxy" doc:"Providers that are reached without the proxy: names as in order."`
	BlockRun   *BlockRun           `key:"blockrun" doc:"BlockRun: models of many vendors through one API."`
	OpenRouter *OpenRouter         `key:"openrouter" doc:"OpenRouter: models of many vendors, on the operator's key."`
	Venice     *Venice             `key:"venice" doc:"Venice, a private provider: it does not retain requests."`
	Bankr      *Bankr              `key:"bankr" doc:"Bankr: inference that an agent pays from what it earns."`
	Direct     *Direct             `key:"direct" doc:"Users' own keys: their requests are forwarded unchanged, without pipeline and spread."`
	Custom     []Custom            `key:"custom" doc:"Any other server with one of the supported formats."`

	Hosts map[policy.ProviderID]*Host // by kind name: kinds with a vendor's or a host's keys
}

// Host is a provider that needs only the operator's key: its address is known, or is its only other setting.
type Host struct {
	APIKey  Secret   `key:"api_key" doc:"The operator's key. Without it, the provider's usual environment variable."`
	APIKeys []Secret `key:"api_keys" doc:"Further equivalent keys: requests are spread over all, and a rate-limited one is not used for a while."`
	BaseURL URL      `key:"base_url" doc:"Base URL up to and including the version. Without it, the provider's own."`

	BYOK       bool    `key:"byok" default:"false" doc:"Requests may send their own key in X-Bardo-Upstream-Key."`
	Models     []Model `key:"models" doc:"The models that the gateway may choose there, and that it serves without the provider being named. Without a list, those that requests name: groq/ID."`
	APIVersion string  `key:"api_version" doc:"Version of the API that requests name in their query. Without it, 2024-10-21."`

	Region          string `key:"region" doc:"The AWS region, such as us-east-1. Without it, AWS_REGION, else AWS_DEFAULT_REGION."`
	AccessKeyID     Secret `key:"access_key_id" doc:"Instead of api_key: the id of an AWS access key, with which requests are signed. Without any key, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN."`
	SecretAccessKey Secret `key:"secret_access_key" doc:"The secret of the access key."`
	SessionToken    Secret `key:"session_token" doc:"The session token of a temporary access key. It is not renewed."`
}

// BlockRun is a gateway to models of many vendors.
type BlockRun struct {
	Endpoint URL      `key:"endpoint" doc:"Base URL. Without a path, /v1 is added."`
	APIKey   Secret   `key:"api_key" doc:"Account key."`
	APIKeys  []Secret `key:"api_keys" doc:"Further account keys."`
	Models   []Model  `key:"models" doc:"Its models. Without a list, its own model list, else every model of the catalog."`

	WalletKey  Secret       `key:"wallet_key" start:"true" doc:"Private key, as 64 hexadecimal digits, of the wallet that pays for single calls (x402, scheme exact), where the provider asks for it. Read at the start."`
	MaxRequest policy.Micro `key:"max_usd_per_request" default:"0.5" doc:"With wallet_key: the most that one call may cost, in USD. It is bounded as well by what the call can cost at the catalog's prices, a quarter and $0.002 more."`
	Payment    Payment      `key:"payment" doc:"With wallet_key: what is paid for."`
}

// Payment limits what a wallet may pay a provider.
type Payment struct {
	PayTo        []string     `key:"pay_to" doc:"The addresses that may be paid: 0x and 40 hexadecimal digits. Without any, nothing is paid."`
	Network      string       `key:"network" default:"base" oneof:"base base-sepolia" doc:"The chain that is paid on."`
	Asset        string       `key:"asset" doc:"The token, of 6 decimals: 0x and 40 hexadecimal digits. Without it, the network's USDC."`
	AssetName    string       `key:"asset_name" default:"USD Coin" doc:"With asset: the name in the token's EIP-712 domain."`
	AssetVersion string       `key:"asset_version" default:"2" doc:"With asset: the version in the token's EIP-712 domain."`
	RPC          Secret       `key:"rpc" doc:"The JSON-RPC address of a node of the chain, which is asked what became of payments whose calls were not answered. Without it, these count as spent."`
	MaxDay       policy.Micro `key:"max_usd_per_day" default:"10" doc:"The most that calls may cost in 24 hours, in USD, those without a known outcome included."`
}

// OpenRouter is a gateway to models of many vendors.
type OpenRouter struct {
	Endpoint  URL      `key:"endpoint" doc:"Base URL up to and including the version. Without it, the provider's own."`
	APIKey    Secret   `key:"api_key" doc:"The operator's key. Without it, OPENROUTER_API_KEY."`
	APIKeys   []Secret `key:"api_keys" doc:"Further keys."`
	BYOK      bool     `key:"byok" default:"false" doc:"Requests may send their own key in X-Bardo-Upstream-Key."`
	Fallbacks []string `key:"fallbacks" doc:"Models that it may use instead if the requested one is unavailable, by its own names, most preferred first."`
	Allow     []string `key:"allow" oneof:"models plugins route preset" doc:"Request members that callers may use although they may select models that are not listed here, or cost more than tokens: the cost that OpenRouter reports is charged, but not reserved. plugins also allows ids that end in :online, preset those with @preset/."`
	Sort      string   `key:"sort" oneof:"price throughput latency" doc:"How it selects the host of a model. Without it, by each request's cost sensitivity."`
	Models    []Model  `key:"models" doc:"Its models. Without a list, its own model list, else any id."`
}

// Venice is the private plane.
type Venice struct {
	BaseURL                 URL               `key:"base_url" doc:"Base URL up to and including the version. Without it, the provider's own."`
	APIKey                  Secret            `key:"api_key" doc:"The operator's key. Without it, VENICE_API_KEY."`
	APIKeys                 []Secret          `key:"api_keys" doc:"Further keys."`
	DIEMStaked              bool              `key:"diem_staked" default:"false" doc:"Staked DIEM pays: its inference costs nothing, and it is preferred for everything."`
	DIEMDaily               policy.Micro      `key:"diem_daily_usd" doc:"Amount that the staked DIEM pays for per UTC day, in USD at Venice's prices. Beyond it, requests are charged until the next day. Without it, or at 0, unlimited."`
	DefaultPrivacyTier      string            `key:"default_privacy_tier" oneof:"private tee e2e" doc:"The privacy tier of requests that ask for privacy and have none, by their task class or a hint: the constraints of that tier apply to them. Dreams are not concerned."`
	AttestationPubkey       string            `key:"attestation_pubkey" doc:"The public key (Ed25519, in base64 or hexadecimal) that signs the receipts of its enclaves. With it, answers of enclaves are attested, and discarded where their receipts are not valid. Without it, they are named in X-Bardo-Degraded."`
	AttestationPubkeys      []string          `key:"attestation_pubkeys" doc:"Further keys, for the time of a rotation."`
	AttestationMeasurements []string          `key:"attestation_measurements" doc:"The enclaves that are trusted, by their measurements (SHA-384, in hexadecimal). With a key, at least one is needed."`
	E2EEKeys                []string          `key:"e2ee_keys" doc:"The public keys (X25519, in base64 or hexadecimal) of its enclave that requests of tier e2e are encrypted with: the first, and the next ones once the enclave says that it has not the first any more. Without keys, it has no end-to-end encryption."`
	Credit                  *float64          `key:"credit" min:"0" doc:"API credits that the staked VVV has left, as the operator knows them. Below min_credit, inference.provider_mode both sends nothing to its enclaves: inference.on_privacy_exhausted says what happens then. Without it, credit is not limited."`
	MinCredit               float64           `key:"min_credit" default:"100" min:"0" doc:"The credit below which its enclaves are not used."`
	CreditRate              float64           `key:"creditRatePerVvv" min:"0" doc:"API credits per staked VVV and day. Needed with staking."`
	USDRate                 float64           `key:"dailyUsdcRate" min:"0" doc:"USD that an API credit pays for. Needed with staking."`
	Staking                 *Staking          `key:"staking" doc:"With this section, a position of staked VVV takes the place of api_key and credit: keys are made through Venice's key API, with a daily limit that follows the position and the agent's phase."`
	Characters              map[string]string `key:"characters" doc:"The Venice character for each role."`
	Cache                   *VeniceCache      `key:"cache" doc:"With this section, an agent's prompts have one key per epoch in providers' caches (prompt_cache_key), instead of one per subsystem."`
	Multimodal              *Multimodal       `key:"multimodal" doc:"With this section, agents have embeddings, speech and images of it on these occasions alone. Without it, always."`
	Models                  []Model           `key:"models" doc:"Its models. Without a list, its own model list, else those of the catalog that it is known to serve."`
}

// Multimodal configures when agents may use more than text at Venice.
type Multimodal struct {
	Embeddings bool `key:"embeddings" default:"true" doc:"Agents have embeddings, to compare what they know with others."`
	Alerts     bool `key:"tts_alerts" default:"true" doc:"Agents have alerts spoken, in the phases conservation, declining and terminal."`
	Artifacts  bool `key:"image_generation" default:"false" doc:"Agents have images made, in the dreams of the phase terminal: what is left of them."`
}

// VeniceCache configures when an epoch of prompt cache keys ends.
type VeniceCache struct {
	KernelTTL int      `key:"stable_kernel_ttl_s" default:"300" min:"1" doc:"Seconds without a request of the agent after which the provider's cache has forgotten its prompts, so that an epoch begins."`
	AdvanceOn []string `key:"session_epoch_advance_on" oneof:"dream_cycle_start phase_transition" doc:"What begins an epoch besides POST /venice/cache/advance. Without the key, both."`
}

// Advances reports whether an event starts a new epoch.
func (c *VeniceCache) Advances(on string) bool {
	return c.AdvanceOn == nil || slices.Contains(c.AdvanceOn, on)
}

// LowCredit reports whether its credit is known to be below the minimum. v may be nil.
func (v *Venice) LowCredit() bool { return v != nil && v.Credit != nil && *v.Credit < v.MinCredit }

// Bankr is a gateway that is paid from a wallet's earnings.
type Bankr struct {
	Endpoint        URL          `key:"endpoint" doc:"Base URL up to and including the version. Without it, the provider's own."`
	APIKey          Secret       `key:"api_key" doc:"The operator's key. Without it, BANKR_API_KEY."`
	APIKeys         []Secret     `key:"api_keys" doc:"Further keys."`
	Wallet          string       `key:"wallet" doc:"Address of the wallet."`
	Subsystems      []string     `key:"subsystems" doc:"The subsystems that it serves. Default: autonomous and social."`
	RevenueBalance  policy.Micro `key:"revenue_balance_usd" doc:"The wallet's balance in USD: a tenth of it, scaled by its sustainability, is the maximum cost of one request. With credit_interval, the credit that was read takes its place."`
	LifetimeRevenue policy.Micro `key:"lifetime_revenue_usd" doc:"Lifetime revenue, in USD."`
	LifetimeCost    policy.Micro `key:"lifetime_cost_usd" doc:"Lifetime cost of inference, in USD. With credit_interval, the cost before this gateway: what the ledger has of Bankr is added."`

	CreditInterval  time.Duration `key:"credit_interval" doc:"How often the credit is read, and the report of usage compared with the ledger. Without it, or at 0, never; with auto_topup, 5m."`
	UsageDays       int           `key:"usage_days" default:"7" min:"1" max:"90" doc:"How many days of the report of usage are compared."`
	AutoTopup       bool          `key:"auto_topup" default:"false" doc:"More credit is bought from the wallet when little is left. Of several gateways with one wallet, one buys."`
	TopupAmount     policy.Micro  `key:"auto_topup_amount_usd" default:"25" doc:"Amount of a purchase, in USD, at most 1000."`
	TopupThreshold  policy.Micro  `key:"auto_topup_threshold_usd" default:"5" doc:"Credit in USD below which more is bought, or without auto_topup a warning is logged."`
	TopupToken      string        `key:"auto_topup_token" default:"USDC" doc:"Token that is paid with: a symbol, or the address of its contract."`
	TopupDaily      policy.Micro  `key:"auto_topup_daily_usd" default:"50" doc:"Maximum of all purchases of a UTC day, in USD."`
	AccountEndpoint URL           `key:"account_endpoint" doc:"Base URL of the API that credit is bought at. Without it, Bankr's own (https://api.bankr.bot), unless endpoint is another's."`

	Models []Model `key:"models" doc:"Its models. Without a list, the models that the catalog names for it."`
}

// bankrAccount is the address at which Bankr sells credit.
var bankrAccount = URL{Scheme: "https", Host: "api.bankr.bot"}

// Buys reports whether credit is bought. b may be nil.
func (b *Bankr) Buys() bool { return b != nil && b.AutoTopup && b.AccountEndpoint != URL{} }

// Key returns the key for reading the account and buying credit.
func (b *Bankr) Key() Secret {
	if !b.APIKey.IsSet() && len(b.APIKeys) > 0 {
		return b.APIKeys[0]
	}
	return b.APIKey
}

// completeAccount sets the account's endpoint and defaults; own reports that the endpoint is Bankr's own.
func (b *Bankr) completeAccount(own bool) {
	const usual = 5 * time.Minute
	if b.AutoTopup && b.CreditInterval <= 0 {
		b.CreditInterval = usual
	}
	if own {
		b.AccountEndpoint = b.AccountEndpoint.Or(bankrAccount)
	}
}

// Direct holds users' own keys.
type Direct struct {
	Keys []DirectKey `key:"keys" doc:"The keys, most preferred first. Requests are spread over keys with the same vendor, address and model list."`
}

// DirectKey is a user's own key at a vendor.
type DirectKey struct {
	Provider           string   `key:"provider" oneof:"$vendors local" doc:"The vendor."`
	APIKey             Secret   `key:"api_key" doc:"The key."`
	BaseURL            URL      `key:"base_url" doc:"Base URL up to and including the version. Without it, the vendor's own."`
	Models             []string `key:"models" doc:"Models that it may be used for, by id or part of an id. Without a list, all of the vendor's."`
	ContextEngineering bool     `key:"context_engineering" default:"false" doc:"The pipeline runs for its requests too."`
}

// Custom is a server that the operator describes.
type Custom struct {
	ID           policy.ProviderID `key:"id" doc:"Its name in providers.order, in provider/model ids and in responses."`
	Format       string            `key:"format" default:"openai" doc:"The API it speaks: openai, anthropic or gemini; or bardo for another gateway of this kind, which is called in the format of each client. Its model list is read without a catalog here."`
	Endpoints    []URL             `key:"endpoints" doc:"Base URLs up to and including the version, of equal servers."`
	APIKey       Secret            `key:"api_key" doc:"Its key, if it requires one."`
	APIKeys      []Secret          `key:"api_keys" doc:"Further equivalent keys."`
	Private      bool              `key:"private" default:"false" doc:"It retains no prompts and discloses none: private requests may be sent here, and requests that ask for privacy are sent here first."`
	Betas        []string          `key:"betas" doc:"Flags of anthropic-beta headers that are forwarded, if its format is anthropic. Without the key, all of them; with an empty list, none."`
	CacheControl bool              `key:"cache_control" doc:"Its format is openai and it supports Anthropic's cache_control on content parts, tools and tool calls."`
	Responses    bool              `key:"responses" default:"false" doc:"Its format is openai and it also supports OpenAI's Responses API, which is used for clients of that API, including stored responses."`
	Completions  *bool             `key:"completions" doc:"Its format is openai and it supports /completions, to which prompts are forwarded unchanged. Without the key, it is tried, with a chat turn as fallback after 404 or 405; with false, only the chat turn is used."`
	E2EEKeys     []string          `key:"e2ee_keys" doc:"The public keys (X25519, in base64 or hexadecimal) of its enclave that requests of tier e2e are encrypted with: the first, and the next ones once the enclave says that it has not the first any more. Without keys, it has no end-to-end encryption."`
	Catalog      string            `key:"catalog" oneof:"openai openrouter venice blockrun bardo" doc:"The format of its model list (GET /models), which is read every models.refresh: it serves the listed models at the listed prices. Without it, the list is not read."`
	Models       []Model           `key:"models" doc:"Its models. Without a list, any id that no other provider lists."`
}

type (
	// Model is the operator's entry for a model.
	Model = modelfile.Model
	// ModelFile is a file of such entries.
	ModelFile = modelfile.File
)

// The kinds of provider whose sections have keys of their own, and those without a section.
const (
	KindBlockRun   = "blockrun"
	KindOpenRouter = "openrouter"
	KindVenice     = "venice"
	KindBankr      = "bankr"
	KindCustom     = "custom"
	KindDemo       = "demo"
)

// The API formats of providers.
const (
	FormatOpenAI    = "openai"
	FormatAnthropic = "anthropic"
	FormatGemini    = "gemini"
	FormatBardo     = "bardo" // another gateway: the client's format
)

// Provider is one enabled provider, from any section.
type Provider struct {
	kind.Provider

	Kind         string // selects the adapter
	Format       string // FormatOpenAI …; "" for the demo provider
	Endpoints    []URL  // equal servers; none for the demo provider
	Key          Secret
	Keys         []Secret // all keys, Key first; nil if there are none
	Betas        []string // the only beta flags that are sent to it; nil: all
	CacheControl bool     // understands cache_control in OpenAI's format

	Responses     bool // it supports OpenAI's Responses API
	NoCompletions bool // it has no legacy completions endpoint
	BYOK          bool // requests may bring their own key
	Characters    map[string]string
	Sort          string
	Fallbacks     []string
	Allow         []string // unpriced members that its requests may have
	APIVersion    string   // sent in its requests; "" for none
	Region        string   // of AWS, that its requests are signed for; "" for none
	CountsTokens  bool     // it can count the tokens of a request
	Attestation   Attestation
	E2EEKeys      []string // of its enclave

	variables []string // environment variables for its key
	realtime  bool
}

// HasRealtime reports whether the provider may have realtime sessions.
func (p Provider) HasRealtime() bool {
	return p.realtime || p.Kind == KindCustom && p.Format != FormatAnthropic && p.Format != FormatGemini
}

// Demo is the id of the built-in provider that answers if no other is configured.
const Demo policy.ProviderID = "demo"

// kindsOf are kinds of providers by name.
type kindsOf []kind.Kind

// find returns the kind with a name; the zero value if there is none.
func (ks kindsOf) find(name string) kind.Kind {
	if i := slices.IndexFunc(ks, func(k kind.Kind) bool { return k.Name == name }); i >= 0 {
		return ks[i]
	}
	return kind.Kind{Name: name}
}

// vendors returns the names of the kinds that are vendors.
func (ks kindsOf) vendors() (out []string) {
	for _, k := range ks {
		if k.Section == kind.VendorSection {
			out = append(out, k.Name)
		}
	}
	return out
}

// hosts returns the kinds whose sections are a Host.
func (ks kindsOf) hosts() (out []kind.Kind) {
	for _, k := range ks {
		if k.Section == kind.VendorSection || k.Section == kind.HostSection {
			out = append(out, k)
		}
	}
	return out
}

// names returns the providers that have sections, in the default order: that of the kinds, then users' own keys.
func (ks kindsOf) names() (out []policy.ProviderID) {
	for _, k := range ks {
		if k.Section != kind.NoSection {
			out = append(out, policy.ProviderID(k.Name))
		}
	}
	return append(out, directSection)
}

// reserved returns the names that a custom provider cannot use. It can use a host's name: it then replaces that host.
func (ks kindsOf) reserved() []policy.ProviderID {
	return slices.DeleteFunc(append(ks.names(), Demo, KindCustom), func(id policy.ProviderID) bool {
		return ks.find(string(id)).Section == kind.HostSection
	})
}

// EnabledBy returns how to enable a known provider: "set OPENAI_API_KEY, or providers.openai in the configuration".
func (c *Config) EnabledBy(id policy.ProviderID) string {
	section := "providers." + string(id) + " in the configuration"
	if k := c.kinds.find(string(id)); k.Variables != nil && k.BaseURL != "" && !k.Keyless {
		region := ""
		if k.Regional() {
			region = " and AWS_REGION"
		}
		return "set " + strings.Join(k.Variables, " or ") + region + ", or " + section
	}
	return "set " + section
}

// KeyAdvice returns how to correct the provider's key: "correct OPENAI_API_KEY, or providers.openai.api_key in the configuration".
func (p Provider) KeyAdvice() string {
	at := "providers." + string(p.ID) + ".api_key"
	switch {
	case p.Direct:
		at = "providers.direct.keys, the api_key of " + string(p.Of) + ","
	case p.Kind == KindCustom:
		at = "providers.custom, the api_key of " + string(p.ID) + ","
	}
	at += " in the configuration"
	if len(p.variables) == 0 {
		return "correct " + at
	}
	return "correct " + strings.Join(p.variables, " or ") + " and start the gateway again, or " + at
}

// Known lists the providers that this schema knows, enabled or not, users' own keys as "direct".
func (c *Config) Known() []policy.ProviderID { return append(c.kinds.names(), Demo) }
