// Package config reads the gateway's configuration: one schema for YAML and TOML, overridden by environment variables, and each mistake reported with
// its file, line, key and the expected value. It is pure: its input is bytes and a lookup of variables, its output a value. It opens no file, and
// does not know what the parts do with their settings.
//
// The structs below are the schema. A field's tags define its key, default, limits and documentation; decoding, printing and the published schema use
// those tags.
package config

import (
	"maps"
	"time"

	"bardo.money/gateway/policy"
)

// Config is the effective configuration: the file, the environment and the defaults, validated. It is not changed after Parse returned it, so it may
// be shared.
type Config struct {
	DataPath  DataPath  `key:"data_path" default:"extproc" oneof:"extproc module" start:"true" doc:"Where requests are processed by bardo up: extproc, in this program, which Envoy calls by ext_proc; or module, inside Envoy's process, where libbardo.so runs as a dynamic module. Read at the start."`
	Listen    Listen    `key:"listen" doc:"Addresses that clients and operators connect to."`
	Auth      Auth      `key:"auth" doc:"Who may call."`
	Providers Providers `key:"providers" doc:"Where models are served. If none is configured, the built-in demo provider answers."`
	Models    Models    `key:"models" doc:"The model catalog, and the models that run on this machine."`
	Routing   Routing   `key:"routing" doc:"Order of candidates, retries, timeouts and health."`
	Inference Inference `key:"inference" doc:"Parameters of answers, and the response cache."`
	Pipeline  Pipeline  `key:"pipeline" doc:"The layers that run between client and provider."`
	MCP       MCP       `key:"mcp" doc:"Servers of the Model Context Protocol whose tools clients use through this gateway, at /mcp."`
	Billing   Billing   `key:"billing" doc:"Prices for callers."`
	Limits    Limits    `key:"limits" doc:"Default limits of API keys, which a key's own limits override, and limits of request bodies."`
	Store     Store     `key:"store" doc:"Where state lives."`
	Sessions  Sessions  `key:"sessions" doc:"Agents' sessions (POST /v1/sessions)."`
	Deferred  Deferred  `key:"deferred" doc:"Requests that are answered later (X-Bardo-Defer)."`
	Extproc   Extproc   `key:"extproc" start:"true" doc:"The sidecar, when it is a process separate from the control plane. Read at the start."`
	XDS       XDS       `key:"xds" start:"true" doc:"The control plane, when it is a process separate from the sidecar. Read at the start."`
	Telemetry Telemetry `key:"telemetry" doc:"Logs and events."`
	Audit     Audit     `key:"audit" doc:"The audit log."`

	Notifications Notifications `key:"notifications" doc:"Notifications of operators by Telegram, Discord or webhooks (bardo notify test sends one)."`

	kinds    kindsOf             // of the providers that can be configured
	appeared []policy.ProviderID // in the order in which the file names them
}

// DataPath is the process in which requests are served.
type DataPath string

// The data paths.
const (
	DataPathExtproc DataPath = "extproc" // the Go program, over Envoy's external processing filter
	DataPathModule  DataPath = "module"  // Envoy's process, as a dynamic module
)

// Listen holds the gateway's own addresses.
type Listen struct {
	HTTP       Addr   `key:"http" default:"127.0.0.1:8080" doc:"Clients, in clear text. Port 0 picks a free one; off closes it."`
	HTTPS      Addr   `key:"https" default:"127.0.0.1:8443" doc:"Clients, with TLS terminated by Envoy."`
	Admin      Addr   `key:"admin" default:"127.0.0.1:9090" start:"true" doc:"Metrics, health and profiles of the Go program, and the admin API. Read at the start."`
	EnvoyAdmin Addr   `key:"envoy_admin" default:"off" start:"true" doc:"Envoy's own admin interface. Read at the start."`
	AdminToken Secret `key:"admin_token" doc:"What requests to the admin API must carry, of at least 32 characters. Without it, one is made at the first start, in the file admin-token of the state directory."`
	PublicURL  URL    `key:"public_url" doc:"The address that clients use, if it differs from the http address."`
	TLS        TLS    `key:"tls" doc:"The certificate of the https address; without one, a development certificate is generated."`

	CORSOrigins []string `key:"cors_origins" doc:"Origins of web pages that may use the gateway from a browser, as https://app.example or http://localhost:3000. They need a key, except where auth.anonymous or the demo admits programs on this machine without one. * is every origin, for requests with a key only; it is refused together with auth.anonymous."`

	UI string `key:"ui" default:"on" oneof:"on off" start:"true" doc:"Whether the dashboard is served at /ui. A change takes effect at the next start."`

	Drain time.Duration `key:"drain" default:"30s" doc:"How long requests in flight may take to finish after SIGTERM. The whole stop takes at most 10 s more."`
}

// TLS names the files of a certificate.
type TLS struct {
	Cert     string `key:"cert" path:"file" doc:"PEM file with the certificate chain."`
	Key      string `key:"key" path:"file" doc:"PEM file with the private key."`
	ClientCA string `key:"client_ca" path:"file" doc:"PEM file with the authorities whose client certificates are required."`
}

// Auth configures admission.
type Auth struct {
	Anonymous bool `key:"anonymous" default:"false" doc:"Programs on this machine need no key; web pages of other origins, and names other than localhost, loopback addresses and the host of public_url, do. Refused unless every listener is on loopback."`

	Privy *Privy `key:"privy" start:"true" doc:"An app at Privy: its users may send their access tokens in place of a key, once they are linked to an account. Read at the start."`

	ERC8004 *ERC8004 `key:"erc8004" start:"true" doc:"Registries of agents (ERC-8004): agents that are linked to an account lower its spread by their reputation. Read at the start."`
}

// Models configures the operator's additions to the model catalog, and the local models.
type Models struct {
	Catalog string   `key:"catalog" path:"file" doc:"File with additions and overrides to the model catalog."`
	Refresh Interval `key:"refresh" default:"1h" doc:"Interval between reads of providers' model lists; 0 or off: never."`

	Embedding string `key:"embedding" default:"auto" start:"true" doc:"The local model that turns texts into vectors, by its name in bardo models local; auto: the usual one, if it is installed; off: none. Read at the start."`
	Injection string `key:"injection" default:"auto" start:"true" doc:"The local model that finds instructions in texts; as embedding. Read at the start."`
	Second    string `key:"second_opinion" default:"off" start:"true" doc:"A further local model that finds instructions in texts, by its name in bardo models local: it scores what models.injection and patterns are in doubt about, beside requests, and changes no verdict. Only with data_path: extproc. Read at the start."`
	Entities  string `key:"entities" default:"off" start:"true" doc:"The local model that finds names of people and places in texts, for pipeline.pii, by its name in bardo models local; auto: the usual one, if it is installed; off: none. Read at the start."`
	Dir       string `key:"dir" path:"file" start:"true" doc:"Directory of the local models' files. Without it, models in $BARDO_HOME, then those that make models installs, then share/bardo/models beside the program's directory. Read at the start."`
	Runtime   string `key:"runtime" path:"file" start:"true" doc:"ONNX Runtime library that runs the local models. Without it, the one among the models' files. Read at the start."`
	Threads   int    `key:"threads" default:"1" min:"1" max:"64" start:"true" doc:"How many texts a local model works on at a time, with a thread and its own memory each. Read at the start."`
	Load      string `key:"load" default:"first_use" oneof:"first_use start" start:"true" doc:"When local models are read: when one is needed first, or at the start. Read at the start."`
}

// Routing configures the choice of providers and failover.
type Routing struct {
	Strategy     string        `key:"strategy" default:"auto" oneof:"auto ordered score" doc:"How candidates are ordered."`
	MaxRetries   int           `key:"max_retries" default:"3" min:"0" max:"10" doc:"Maximum number of extra attempts of one request, all providers together."`
	Classifier   string        `key:"classifier" default:"off" oneof:"off on" doc:"Whether a classifier on this machine judges English prompts for model auto, and corrects the needed quality where it is sure; it needs the model of models.embedding."`
	PingInterval time.Duration `key:"ping_interval" default:"30s" start:"true" doc:"Time between two health probes of a provider. Read at the start."`
	Timeouts     Timeouts      `key:"timeouts" doc:"How long each step of an attempt may take."`
	Hedging      Hedging       `key:"hedging" doc:"When a second candidate is called because the first is slow; the first of the two that gives content answers."`
}

// Hedging configures hedged requests.
type Hedging struct {
	After    Interval `key:"after" default:"off" doc:"How long the first candidate may give no content, or no answer if the request does not stream; off: only failures lead to another candidate. Both calls cost money."`
	SharePct int      `key:"share_pct" default:"5" min:"1" max:"100" doc:"Maximum percentage of the requests of the last five minutes that have two calls."`
}

// Timeouts limit the steps of an attempt.
type Timeouts struct {
	Connect             time.Duration `key:"connect" default:"5s" doc:"To connect to a provider."`
	FirstToken          time.Duration `key:"first_token" default:"30s" doc:"To the first token of an answer."`
	FirstTokenReasoning time.Duration `key:"first_token_reasoning" default:"180s" doc:"To the first token when the caller asked for high effort."`
	Idle                time.Duration `key:"idle" default:"60s" doc:"Between two chunks of an answer."`
	Total               time.Duration `key:"total" default:"15m" doc:"For the whole request."`
	Heartbeat           time.Duration `key:"heartbeat" default:"15s" doc:"Silence after which a stream gets a comment line."`
}

// Inference configures how answers are made.
type Inference struct {
	ProviderMode       string             `key:"provider_mode" oneof:"venice bardo both" doc:"Which providers serve the tasks of agents: only venice, all but venice, or venice for tasks that need an enclave and the others for the rest. Without it, the order of providers decides."`
	DreamProvider      policy.ProviderID  `key:"dream_provider" doc:"The preferred provider of dreams."`
	OnPrivacyExhausted string             `key:"on_privacy_exhausted" default:"continue" oneof:"continue fail continue_e2e" doc:"What happens to tasks for venice's enclaves when its credit is used up: continue at other providers, or fail; continue_e2e also continues tasks that were to be encrypted end to end."`
	Tiers              map[string]Tier    `key:"tiers" doc:"The models of the tiers T1 and T2 of heartbeats."`
	Profiles           map[string]Profile `key:"profiles" doc:"Parameter profiles of subsystems, over the built-in table. Those of risk, death_reflect and operator are locked."`
	Caching            Caching            `key:"caching" doc:"The response cache, and marks for providers' prompt caches."`

	Embeddings Embeddings `key:"embeddings" doc:"What makes embeddings for requests that name no model."`

	StructuredOutputs StructuredOutputs `key:"structured_outputs" doc:"Structured outputs: JSON that follows a caller's schema or that of a subsystem."`

	Verification Verification `key:"verification" doc:"When a second model, of another family, verifies an answer, and the stricter one is returned."`
	Escalation   Escalation   `key:"escalation" doc:"When an answer of tier T1 is replaced by one of tier T2."`

	WebSearchEnabled            bool         `key:"web_search_enabled" default:"false" doc:"REM dreams may search the web at Venice if their scenario asks for it."`
	WebSearchBudget             policy.Micro `key:"web_search_budget_per_cycle_usdc" default:"0.05" doc:"Maximum cost of the web searches of one dream cycle, in USD."`
	SealedTestament             bool         `key:"sealed_testament" default:"false" doc:"Testaments require attested hardware."`
	IntegrationPhaseAttestation bool         `key:"integration_phase_attestation" default:"false" doc:"The integration phase of dreams requires attested hardware."`
	ReannealFactor              float64      `key:"reanneal_factor" default:"0.95" min:"0" max:"1" doc:"Factor by which the highest temperature of a hypnagogic cycle decreases in the next one."`
}

// Embeddings configures how embeddings are made.
type Embeddings struct {
	Provider    string `key:"provider" oneof:"local venice" doc:"local: the model of models.embedding, on this machine, which is also listed and served by its name; venice: a model there. Without it, a request has to name a provider's model."`
	VeniceModel string `key:"venice_model" default:"text-embedding-bge-m3" doc:"The model at Venice."`
}

// Verification configures which answers are verified without a request by the client.
type Verification struct {
	Risk string `key:"risk" default:"auto" oneof:"auto always off" doc:"Whether requests of the subsystem risk are verified: if a provider for verification (bankr) can serve them, always, or only with the hint verify."`
}

// Escalation configures when heartbeats of tier T1 are sent again at tier T2.
type Escalation struct {
	Mode            string  `key:"mode" default:"off" oneof:"off auto" doc:"Whether heartbeats of tier T1 whose decision asks for escalation are answered by tier T2; the hint escalate overrides it."`
	ConfidenceFloor float64 `key:"confidence_floor" default:"0" min:"0" max:"1" doc:"A decision with a lower confidence escalates too."`
}

// StructuredOutputs configures structured outputs.
type StructuredOutputs struct {
	Enabled                  bool `key:"enabled" default:"true" doc:"Subsystems get answers in their schemas, and callers' schemas are enforced at every provider; false forwards callers' schemas unchanged."`
	PreferSchemaEnforcement  bool `key:"prefer_schema_enforcement" default:"true" doc:"A provider's own schema enforcement is preferred to a synthetic tool; false prefers the tool."`
	Validation               bool `key:"validation" default:"true" doc:"Answers are validated against their schemas; false returns the extracted answer without validation."`
	RetryOnValidationFailure bool `key:"retry_on_validation_failure" default:"true" doc:"The request is retried with the list of violations."`
	MaxRetries               int  `key:"max_retries" default:"1" min:"0" max:"3" doc:"Maximum number of such retries."`
}

// Retries returns how often a model is asked again for an answer that matches its schema.
func (s StructuredOutputs) Retries() int {
	if !s.Validation || !s.RetryOnValidationFailure {
		return 0
	}
	return s.MaxRetries
}

// Tier names the model of a tier.
type Tier struct {
	Provider string `key:"provider" doc:"The model, as provider/model or as a model's id alone."`
}

// Profile is the operator's override of a subsystem's inference parameters. Unset fields keep the table's values.
type Profile struct {
	Temperature      *float64 `key:"temperature" min:"0" max:"2" doc:"Randomness."`
	TopP             *float64 `key:"top_p" min:"0" max:"1" doc:"Nucleus sampling."`
	TopK             *int     `key:"top_k" min:"1" max:"1000000" doc:"Number of the most probable tokens considered."`
	MinP             *float64 `key:"min_p" min:"0" max:"1" doc:"Least probability, relative to the most probable token."`
	FrequencyPenalty *float64 `key:"frequency_penalty" min:"-2" max:"2" doc:"Penalty for frequent tokens."`
	PresencePenalty  *float64 `key:"presence_penalty" min:"-2" max:"2" doc:"Penalty for tokens that occurred before."`
	ReasoningEffort  string   `key:"reasoning_effort" oneof:"none low medium high max" doc:"Reasoning effort."`
	VisibleThinking  *bool    `key:"visible_thinking" doc:"Whether reasoning should be visible."`
	ResponseSchema   string   `key:"response_schema" doc:"The published schema that its answers follow, by its name."`
	MaxTokens        int      `key:"max_tokens" min:"0" max:"10000000" doc:"Most output tokens."`
	Stop             []string `key:"stop_sequences" doc:"Stop sequences."`
	CacheControl     *bool    `key:"cache_control" doc:"Mark the static prefix of the prompt for the provider's cache."`
	WebSearch        *bool    `key:"web_search" doc:"Whether the provider may search the web."`
	TEE              *bool    `key:"tee_mode" doc:"Only in attested hardware."`
	Seed             *int64   `key:"seed" doc:"Seed of the sampling."`
}

// Caching configures the response cache.
type Caching struct {
	TTLSeconds int   `key:"ttl_s" default:"300" min:"0" max:"31536000" doc:"Seconds for which a stored answer is fresh; 0 uses stored answers only when all providers fail."`
	MaxBytes   int64 `key:"max_bytes" default:"67108864" min:"1048576" max:"1099511627776" doc:"Memory for stored answers, all keys together."`

	Threshold float64 `key:"threshold" default:"0" min:"0" max:"1" doc:"Cosine at which the semantic cache takes two questions of one form for the same; 0: that of the embedding model, 0.92 for the usual one."`

	AutoCacheControl     bool   `key:"auto_cache_control" default:"true" doc:"Set marks for Anthropic's prompt cache where they pay (layer l1)."`
	PromptCacheKeyPrefix string `key:"prompt_cache_key_prefix" default:"golem" doc:"Prefix of the prompt cache keys of agents."`
}

// TTL returns how long a stored answer is fresh.
func (c Caching) TTL() time.Duration { return time.Duration(c.TTLSeconds) * time.Second }

// Pipeline configures the layers.
type Pipeline struct {
	Default string `key:"default" default:"standard" oneof:"minimal fast standard full" doc:"The pipeline profile of requests for which neither subsystem nor caller selects one: l3 only; l1, l3 and l6; l1 to l6; all."`
	Hash    string `key:"hash" default:"on" oneof:"on off all" doc:"Which requests use the exact cache: those with a temperature of at most 0.3 and those that ask for it, none, or all."`

	Pool string `key:"pool" default:"off" oneof:"off free" doc:"Whose stored answers are shared: off, nobody's; free, those of keys of the plan free among each other, but for agents' requests, confidential and private ones, and those in which personal data is found."`

	Semantic        string        `key:"semantic" default:"off" oneof:"off shadow on" doc:"The semantic cache (layer l2), which answers a question with the stored answer to another one that means the same: off; shadow, which shows what it would have answered; or on. It needs the embedding model."`
	SemanticTimeout time.Duration `key:"semantic_timeout" default:"50ms" doc:"How long a question may be compared with others; then a provider answers it."`
	SemanticOnly    SemanticScope `key:"semantic_only" doc:"The requests that may use the semantic cache. A list that is not set names all."`

	Injection InjectionDetection `key:"injection" doc:"Detection of instructions for the model in users' turns, results of tools and documents."`

	PII PII `key:"pii" doc:"Personal data and secrets in requests."`

	DeFi       DeFi        `key:"defi" doc:"Facts of tokens and protocols for requests that mention them."`
	Firewall   Firewall    `key:"firewall" doc:"Which tools requests may offer, and which calls of them may come back."`
	Guardrails []Guardrail `key:"guardrails" doc:"Services of the operator's that look at requests and answers."`
	Retrieval  Retrieval   `key:"retrieval" doc:"What resembles a request, and is added to it as results of a search."`

	Compression Compression `key:"compression" doc:"Shortening the results of tools in long conversations."`

	Tools ToolPruning `key:"tools" doc:"Leaving out tool definitions that a request does not need."`

	Governor       string   `key:"governor" default:"off" oneof:"off report on" doc:"Whether settings of the layers are adjusted by their measured effect: no; outcomes are counted, and what would be changed is reported; or values are tried on one conversation in ten, and the better one is used. bardo governor shows what is known."`
	GovernorFreeze []string `key:"governor_freeze" oneof:"compression tools semantic" doc:"Settings that the governor leaves as they are: compression (from how many bytes on histories are shortened), tools (how many tools an agent's request keeps), semantic (how similar a stored answer's question must be)."`
}

// InjectionDetection configures layer l8.
type InjectionDetection struct {
	Policy    string        `key:"policy" default:"flag" oneof:"off flag block quarantine" doc:"What happens to results of tools and documents that seem to hold instructions for the model: nothing, they are not judged; X-Bardo-Injection says so; the request is refused; or a note is sent in their place."`
	User      string        `key:"user" oneof:"off flag block" doc:"The same for users' turns, which give instructions all the time. Without it, flag, or off if the policy is off."`
	Documents string        `key:"documents" oneof:"off flag block quarantine" doc:"The same for documents and search results, where it differs from the policy."`
	Threshold float64       `key:"threshold" default:"0.9" min:"0" max:"1" doc:"Score from which a text counts as an injection."`
	OnError   string        `key:"on_error" default:"refuse" oneof:"refuse allow" doc:"What happens to a request that has to wait for a verdict (block, quarantine) if there is none: the local model is busy, too slow or not available, and patterns found nothing. With models.injection off, patterns alone judge."`
	Timeout   time.Duration `key:"timeout" default:"2s" doc:"How long a request waits for its verdict, and how long texts that are only flagged are judged beside it."`
}

// SemanticScope selects the requests of layer l2.
type SemanticScope struct {
	Keys       []string `key:"keys" doc:"API keys, by id or name."`
	Plans      []string `key:"plans" oneof:"free pro golem" doc:"Plans of keys."`
	Subsystems []string `key:"subsystems" doc:"Subsystems of agents."`
	Models     []string `key:"models" doc:"Models, by the names that requests use."`
}

// DeFi configures the layer defi.
type DeFi struct {
	Facts     string `key:"facts" path:"file" doc:"File with chains, tokens and protocols, YAML or JSON, which are added to requests that mention them. Without it, nothing is added."`
	MaxTokens int    `key:"max_tokens" default:"300" min:"50" max:"4000" doc:"Maximum number of tokens that are added to a request, as estimated from their length."`

	Plans []string `key:"plans" oneof:"free pro golem" doc:"Plans of keys whose requests get them. Without it, those of every key."`
}

// PII configures layer l7.
type PII struct {
	Policy       string                `key:"policy" default:"detect" oneof:"off detect mask block" doc:"What happens to personal data and secrets in requests: nothing; they are counted, by type; they are replaced by placeholders and restored in the answer; or the request is refused. Private keys and seed phrases are refused unless the policy is off. Confidential requests are masked at least."`
	Types        []string              `key:"types" oneof:"secret password iban card ssn email phone ip postal_address person_name evm_address" doc:"What is looked for, besides patterns: secret, password, iban, card, ssn, email, phone, ip, postal_address, person_name, evm_address. Without it, all but evm_address. Private keys and seed phrases are always looked for."`
	PhoneRegions []string              `key:"phone_regions" doc:"Countries whose national phone numbers are known without a word such as phone before them, as ISO 3166 codes."`
	Patterns     map[string]PIIPattern `key:"patterns" doc:"Further types of values, by name."`
	Names        PIINames              `key:"names" doc:"Names in texts, which models.entities finds."`
	RefuseUnread string                `key:"refuse_unread" default:"tokens" oneof:"tokens all none" doc:"Which requests are refused, where values are masked or refused, for parts that cannot be looked into: lists of tokens or vectors instead of texts; pictures, sound and files, too; or none."`
	Secret       Secret                `key:"secret" doc:"What placeholders are derived from. Gateways with the same one give the same value the same placeholder. Without it, the pepper of the ledger."`
}

// PIINames configures how a local model finds names.
type PIINames struct {
	Types   []string      `key:"types" oneof:"person place organization" doc:"Which names are looked for: person, place, organization. Without it, person and place."`
	Timeout time.Duration `key:"timeout" default:"2s" doc:"How long the model may take for all texts of a request that it does not know."`
	OnError string        `key:"on_error" default:"refuse" oneof:"refuse allow" doc:"What happens to a request whose values are masked or refused if the model gives no answer in time: it is refused, or sent with its names."`
}

// PIIPattern is a type of value that the operator defines.
type PIIPattern struct {
	Regexp   string   `key:"regexp" doc:"Regular expression (RE2) of the values."`
	Examples []string `key:"examples" doc:"Values that it must match as a whole, tried when the configuration is read."`
	Not      []string `key:"not" doc:"Texts in which it must find nothing."`
}

// Compression configures layer l5.
type Compression struct {
	Mode      string `key:"mode" default:"on" oneof:"on off" doc:"Whether histories are shortened in requests of 16 KiB or more: repeated, outdated and irrelevant results of tools, and what has no meaning in them."`
	Recall    string `key:"recall" default:"on" oneof:"on off" doc:"Whether the model gets a tool, bardo_recall, by which it fetches results back that were left out."`
	KeepTurns int    `key:"keep_turns" default:"4" min:"1" max:"1000" doc:"Answers of the model at the end of a conversation whose turns stay as they are."`

	Summary          string        `key:"summary" default:"off" oneof:"off shadow on" doc:"Whether old turns of long conversations are replaced by a summary, which a cheap model makes (inference.tiers.T1, else the cheapest that fits) and the request pays for; shadow: summaries are made and paid for, and their savings reported, but none is used."`
	SummaryTrigger   int           `key:"summary_trigger_tokens" default:"24000" min:"1000" max:"100000000" doc:"Estimated tokens of a history, without the system prompt, from which on it may be summarised."`
	SummaryMaxTokens int           `key:"summary_max_tokens" default:"400" min:"50" max:"20000" doc:"Maximum tokens of a summary."`
	SummaryMaxUSD    policy.Micro  `key:"summary_max_usd" doc:"A model is not called for a summary if the call may cost more than so many USD; 0: no limit but the caller's."`
	SummaryTimeout   time.Duration `key:"summary_timeout" default:"2s" doc:"How long a summary is waited for, after which the history is sent as it is."`
}

// ToolPruning configures layer l4.
type ToolPruning struct {
	Mode string              `key:"mode" default:"auto" oneof:"auto on off" doc:"Whose tools are chosen: agents' (at most 12 and 1,500 tokens) and those of requests with more than 40 tools, which keep 40; every request's, as if it came from an agent; or nobody's."`
	Meta string              `key:"meta" default:"auto" oneof:"auto on off" doc:"Which requests get three tools in place of their own (search_tools, get_tool_schema, execute_tool), by which the model finds and calls these: those with more than 100 tools, if mode concerns them; all that mode concerns; or none."`
	Map  map[string][]string `key:"map" doc:"Names of tools by an agent's tick type, most needed first; * stands for any text. A tick type named here replaces the built-in list of that type."`
}

// Billing configures prices and reservations.
type Billing struct {
	SpreadPct           *int   `key:"spread_pct" min:"0" max:"1000" doc:"Percent on top of the provider's price. Without it, 0; with billing.tiers, 25 for free, 15 for pro, 10 for golem."`
	Durability          string `key:"durability" default:"journal" oneof:"journal commit" doc:"When an answer's last byte goes out: when its charge is in the gateway's charge log, which is synced to the disk within 5 ms, or when it is on disk. A crash of the process loses no charge in either; a power failure loses at most the last 5 ms of journal (for requests without a key, which no account pays for, 250 ms)."`
	ReserveOutputTokens int    `key:"reserve_output_tokens" default:"4096" min:"1" max:"10000000" doc:"Output tokens reserved when the caller sets no maximum."`

	WhenEmpty       string       `key:"when_empty" default:"refuse" oneof:"refuse free" doc:"What happens to a request that its key's balance does not pay for: refuse answers 402; free has a free model serve it, if the key's plan, scope and privacy allow one."`
	CriticalReserve policy.Micro `key:"critical_reserve_usd" default:"0" doc:"What is kept of each balance for requests of the subsystems risk, operator and death, in USD: others may not reserve it."`

	Tiers map[string]Plan `key:"tiers" doc:"Plans of keys (free, pro, golem). Without it, every plan includes every provider, at the same spread."`

	X402 *X402 `key:"x402" start:"true" doc:"Payment for single requests by the x402 protocol: a request without a key is answered with its price, and one with a payment is served. Read at the start."`
}

// X402 configures which payments are accepted, and how they are settled.
type X402 struct {
	Network         string        `key:"network" default:"base" oneof:"base base-sepolia" doc:"The chain: base (eip155:8453) or base-sepolia (eip155:84532)."`
	RPC             Secret        `key:"rpc" doc:"The JSON-RPC address of a node of the chain. It may contain a key, so it is shown nowhere. Required."`
	PayTo           string        `key:"pay_to" doc:"The address that receives payments: 0x and 40 hexadecimal digits. Required."`
	Asset           string        `key:"asset" doc:"The token: 0x and 40 hexadecimal digits; 6 decimals, with EIP-3009. Without it, the network's USDC."`
	AssetName       string        `key:"asset_name" default:"USD Coin" doc:"With asset: the name in the token's EIP-712 domain."`
	AssetVersion    string        `key:"asset_version" default:"2" doc:"With asset: the version in the token's EIP-712 domain."`
	SettlementKey   Secret        `key:"settlement_key" doc:"Private key, as 64 hexadecimal digits, of the account that sends payments' transfers to the chain. It needs some of the chain's own coin for gas, and no tokens. Required without facilitator."`
	Facilitator     URL           `key:"facilitator" doc:"The address of an x402 facilitator, which settles payments in place of settlement_key: /supported, /verify and /settle are appended. Scheme upto is not offered then."`
	FacilitatorAuth Secret        `key:"facilitator_authorization" doc:"With facilitator: the header Authorization that it is sent, such as Bearer and a key."`
	SettlementFee   policy.Micro  `key:"settlement_fee_usd" default:"0.001" doc:"What a payment costs on top of its request, in USD: it pays for the gas of the transfer."`
	Min             policy.Micro  `key:"min_usd" default:"0.001" doc:"The smallest payment, in USD, its fee included."`
	QuoteTTL        time.Duration `key:"quote_ttl" default:"5m" doc:"How long a price holds for the request that it was made for."`
	MaxExposure     policy.Micro  `key:"max_exposure_usd" default:"5" doc:"The most that payments of one wallet may be worth that are not in a block yet, in USD; 0 means no limit."`
	SettleFirst     policy.Micro  `key:"settle_first_usd" default:"0" doc:"Payments of at least so much, in USD, are settled before their requests are served, and taken by scheme exact alone; 0 means none. Those of wallets one of whose payments failed always are."`
	MaxLosses       policy.Micro  `key:"max_losses_usd_hour" default:"5" doc:"What requests may have cost, in USD within an hour, whose payments did not arrive or cannot be sent at present: from there on all payments are settled before their requests are served, and taken by scheme exact alone, until it is less. 0 means no limit."`
	SettleWait      time.Duration `key:"settle_wait" default:"5s" doc:"How long an answer that is not streamed waits for its payment's transfer, so that its PAYMENT-RESPONSE names the transaction."`
	Confirmations   int           `key:"confirmations" default:"1" min:"1" max:"1000" doc:"Blocks after which a transfer counts, its own included."`
	Finality        int           `key:"finality_blocks" default:"64" min:"1" max:"100000" doc:"Blocks until which it is checked that a transfer's block is still in the chain."`
	Bump            time.Duration `key:"bump_after" default:"30s" doc:"Time after which a transaction that is in no block is replaced by one with higher fees."`
	FewTransfers    int           `key:"low_gas_transfers" default:"100" min:"1" doc:"A warning is logged, and payment:low_gas emitted, when the settling account can pay for fewer transfers than this."`
}

// Plan is the contents and the price of a key's plan.
type Plan struct {
	SpreadPct *int     `key:"spread_pct" min:"0" max:"1000" doc:"Percent on top of the provider's price, instead of billing.spread_pct."`
	Exclude   []string `key:"exclude" doc:"Providers that do not serve the plan's keys: names as in providers.order; direct stands for all direct keys."`
}

// Limits are the default limits of keys, and the limits of request bodies.
type Limits struct {
	RPM           *int                `key:"rpm" min:"0" doc:"Generation requests per minute of every caller; 0 means no limit. Without it, 100 for prepaid keys, and no limit for others."`
	TokensPerHour int64               `key:"tokens_per_hour" default:"0" min:"0" doc:"Tokens per hour; 0 means no limit."`
	Overage       string              `key:"overage" default:"deny" oneof:"deny bill" doc:"What happens beyond tokens_per_hour: deny refuses requests until the next hour; bill serves them, and their callers pay for them as for others."`
	MaxConcurrent int                 `key:"max_concurrent" default:"0" min:"0" doc:"Concurrent generation requests of one key, from their headers to the end of their answers; 0 means no limit."`
	Ladder        map[string][]string `key:"ladder" doc:"Lists of models, best first, each under a name: a generation that does not fit into the budgets of its key, project, owner or session is served by the next model of its list that does. Never those of risk, operator and death."`
	WhenAway      string              `key:"when_away" default:"refuse" oneof:"refuse share" doc:"What happens while the Redis of store.limits is away: refuse answers callers that have a limit with 503; share lets each gateway give out its part of each limit: one in limits.gateways, rounded down, where a part of nothing refuses."`
	Gateways      int                 `key:"gateways" default:"0" min:"0" max:"10000" doc:"How many gateways share store.limits. Required for when_away: share."`
	Quotas        []Quota             `key:"quotas" doc:"Limits of what an expression counts, such as weighted tokens or money. A generation has to fit into all of them that apply to it."`

	MaxBodyBytes         int64         `key:"max_body_bytes" default:"33554432" min:"1024" max:"1073741824" doc:"Largest request body."`
	MaxInflightBodyBytes int64         `key:"max_inflight_body_bytes" default:"268435456" min:"65536" max:"1099511627776" doc:"Memory for all request bodies in flight, from their first byte to the end of their answers; beyond it, 503 overloaded. If smaller than max_body_bytes, it also limits each body."`
	BodyIdle             time.Duration `key:"body_idle" default:"30s" doc:"Longest silence in a request's body; then 408."`
	BodyTotal            time.Duration `key:"body_total" default:"5m" doc:"Longest time for a whole request body; then 408."`
}

// Quota is a limit of what an expression counts.
type Quota struct {
	Name   string        `key:"name" doc:"The quota's name in errors and records."`
	Per    string        `key:"per" default:"key" oneof:"key project owner address all" doc:"Whose requests are counted together: those of a key, and without a key those of an address; of a project or an owner, where keys without one are not limited; of an address; or all."`
	Window time.Duration `key:"window" doc:"The period after which counting begins anew, from 1s to 24h, in whole seconds. Periods are aligned to midnight of 1 January 1970 UTC, so that 1h begins with each hour, and 24h with each UTC day."`
	Limit  float64       `key:"limit" doc:"The most that cost may add up to within a window; at most 1e12, with six decimals."`
	Cost   string        `key:"cost" doc:"An expression in CEL whose value is what a request counts, such as input_tokens - cached_tokens + 5 * output_tokens. It can name the whole numbers input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens and total_tokens; cost_usd, a number with decimals; and the texts model, provider, subsystem, key, key_name and tier. Below 0 counts as 0."`
	When   string        `key:"when" doc:"A condition in CEL with the same names. Requests that do not meet it are neither counted nor refused. Without it, all are."`
}

// prepaidRPM is the rate of prepaid keys where limits.rpm is not set.
const prepaidRPM = 100

// Rates returns the generation requests per minute of callers whose keys have no limit of their own; 0 means no limit.
func (l *Limits) Rates() (general, prepaid int) {
	if l.RPM != nil {
		return *l.RPM, *l.RPM
	}
	return 0, prepaidRPM
}

// planSpreads are the default spreads of plans, if neither the plan nor billing.spread_pct sets one.
var planSpreads = map[policy.Tier]int{policy.TierFree: 25, policy.TierPro: 15, policy.TierGolem: 10}

// Spreads returns the percentages on top of the provider's price: the usual one, and those of plans with another. Plans have a spread if
// billing.tiers is set.
func (b *Billing) Spreads() (usual int, plans map[policy.Tier]int) {
	if b.SpreadPct != nil {
		usual = *b.SpreadPct
	}
	plans = make(map[policy.Tier]int)
	if len(b.Tiers) > 0 && b.SpreadPct == nil {
		maps.Copy(plans, planSpreads)
	}
	for name, plan := range b.Tiers {
		if plan.SpreadPct != nil {
			plans[policy.Tier(name)] = *plan.SpreadPct
		}
	}
	return usual, plans
}

// Store configures where state is stored.
type Store struct {
	Ledger   Database `key:"ledger" path:"scheme" default:"sqlite://$BARDO_HOME/bardo.db" start:"true" doc:"The ledger's database: a file of this machine, or a PostgreSQL database that gateways of several machines share, such as postgres://bardo:${PASSWORD}@host/bardo. Read at the start."`
	Cache    string   `key:"cache" path:"scheme" default:"memory" start:"true" doc:"Where stored answers live: memory; sqlite://$BARDO_HOME/cache.db, where they outlive a restart; or redis://user@host:port/database, rediss:// with TLS, or redis+unix:///path, where gateways share them, and where conversations were served. Encrypted, but in memory. Read at the start."`
	CacheKey Secret   `key:"cache_key" start:"true" doc:"What stored answers, and what agents store in their sessions, are encrypted with on disk, and stored answers in Redis; any text, best 32 random bytes. Without it, keys are derived from the pepper of the ledger, which lies beside it on the disk. Gateways that share a Redis need the same. After a change, stored answers are discarded, and agents' data that were encrypted with another one cannot be read; what was encrypted without one stays readable. Read at the start."`

	CachePassword Secret        `key:"cache_password" start:"true" doc:"Password of the Redis of store.cache. Read at the start."`
	CacheCA       string        `key:"cache_ca" path:"file" start:"true" doc:"PEM file with the authorities that sign the certificate of a rediss:// server. Without it, those of the system. Read at the start."`
	CacheTimeout  time.Duration `key:"cache_timeout" default:"10ms" start:"true" doc:"Time limit of a lookup in Redis; then the request goes on without it. Read at the start."`

	Vectors        Vectors       `key:"vectors" default:"memory" start:"true" doc:"Where the vectors that the local model makes of tools' definitions and of stored questions are kept: memory, or a PostgreSQL database that gateways share, such as postgres://bardo:${PASSWORD}@host/bardo, which may be that of store.ledger. Encrypted there with store.cache_key. Needs data_path: extproc. Read at the start."`
	VectorsTimeout time.Duration `key:"vectors_timeout" default:"10ms" start:"true" doc:"Time limit of a lookup of vectors in PostgreSQL; then the model makes them. Read at the start."`

	Limits         string        `key:"limits" default:"memory" start:"true" doc:"Where the requests, tokens and concurrent requests of callers are counted: memory, where each gateway counts alone; or redis://user@host:port/database, rediss:// with TLS, or redis+unix:///path, where gateways count together. Read at the start."`
	LimitsPassword Secret        `key:"limits_password" start:"true" doc:"Password of the Redis of store.limits. Read at the start."`
	LimitsCA       string        `key:"limits_ca" path:"file" start:"true" doc:"PEM file with the authorities that sign the certificate of a rediss:// server. Without it, those of the system. Read at the start."`
	LimitsTimeout  time.Duration `key:"limits_timeout" default:"100ms" start:"true" doc:"Time limit of one step in Redis; then the request is decided as limits.when_away says. Read at the start."`
	LimitsLease    time.Duration `key:"limits_lease" default:"30s" start:"true" doc:"How long what a gateway holds in Redis for requests under way counts after the gateway was last seen there. Read at the start."`
}

// Sessions configures sessions.
type Sessions struct {
	Mode string `key:"mode" default:"on" oneof:"on off" start:"true" doc:"Whether sessions can be made; off refuses them, and the keys of earlier ones. A change takes effect at the next start."`
}

// Deferred configures requests that are answered later.
type Deferred struct {
	Mode          string        `key:"mode" default:"on" oneof:"on off" doc:"Whether requests may be deferred; off refuses them."`
	Key           Secret        `key:"key" start:"true" doc:"What stored requests and answers are encrypted with; any text, best 32 random bytes. Without it a key is derived from the pepper of the ledger, which lies on the same disk, and confidential and private requests cannot be deferred. A change takes effect at the next start, and loses what is stored; setting it for the first time does not."`
	Batches       bool          `key:"batches" default:"true" doc:"Whether deferred requests are sent by the batch APIs of OpenAI and Anthropic, at the price of a batch, where the operator's own key serves them."`
	Gather        time.Duration `key:"gather" default:"1m" doc:"How long requests are collected for one batch."`
	Poll          time.Duration `key:"poll" default:"1m" doc:"Time between two looks at a batch."`
	Fallback      time.Duration `key:"fallback" default:"1h" doc:"How long before its deadline a request no longer waits for its batch, or for an idle gateway, and is called directly; at most half of the time that it was given."`
	Keep          time.Duration `key:"keep" default:"24h" doc:"How long an answer is kept that nobody has read."`
	KeepDelivered time.Duration `key:"keep_delivered" default:"1h" doc:"How long an answer is kept after it was first read."`
	MaxRequests   int64         `key:"max_requests" default:"1000" min:"1" max:"1000000" doc:"Deferred requests of one key, answered ones included until their answers are deleted."`
	MaxBytes      int64         `key:"max_bytes" default:"67108864" min:"1024" max:"1099511627776" doc:"Bytes that are stored for one key."`
}

// Extproc is one pair of Envoy and sidecar in split mode.
type Extproc struct {
	Node    string  `key:"node" doc:"Name of this pair of Envoy and sidecar. Without it, the host's name. Certificates of this machine must have it as a DNS name."`
	Listen  Socket  `key:"listen" path:"scheme" doc:"Where the sidecar listens for Envoy: unix:///path or host:port."`
	Address Socket  `key:"address" path:"scheme" doc:"The address at which Envoy reaches the sidecar, if it differs from the listen address."`
	TLS     PeerTLS `key:"tls" doc:"Mutual TLS between Envoy and the sidecar over TCP. Required unless both are on loopback."`
}

// XDS is the control plane in split mode.
type XDS struct {
	Listen  Socket  `key:"listen" path:"scheme" default:"127.0.0.1:18000" doc:"Where the control plane listens for Envoys and sidecars: unix:///path or host:port."`
	Address Socket  `key:"address" path:"scheme" doc:"The address at which Envoys and sidecars reach the control plane, if it differs from the listen address."`
	Name    string  `key:"name" doc:"Name in the control plane's certificate. Without it, the host of its address."`
	Admin   Addr    `key:"admin" default:"127.0.0.1:9091" doc:"Metrics, health and admin API of a separate control plane."`
	TLS     PeerTLS `key:"tls" doc:"Mutual TLS with the control plane over TCP: this machine's certificate, as client or server. Required unless all are on loopback."`
}

// PeerTLS names the certificate files of a part of a split gateway. They are read again when they change.
type PeerTLS struct {
	Cert string `key:"cert" path:"file" doc:"PEM file with this machine's certificate chain."`
	Key  string `key:"key" path:"file" doc:"PEM file with its private key."`
	CA   string `key:"ca" path:"file" doc:"PEM file with the authorities that sign the other parts' certificates."`
}

// Enabled reports whether TLS is configured.
func (t PeerTLS) Enabled() bool { return t.Cert != "" }

// ExportsEvents reports whether events are sent to ClickHouse.
func (t *Telemetry) ExportsEvents() bool {
	return t.ClickHouse.Host != "" && t.ClickHouseEventsTable != "off"
}

// ObjectStore is the target of usage exports.
type ObjectStore struct {
	Endpoint  URL    `key:"endpoint" doc:"Its address, such as https://s3.eu-central-1.amazonaws.com. Without it, nothing is exported."`
	Region    string `key:"region" default:"us-east-1" doc:"Its region, which is in the signature of each request; stores without regions take any."`
	Bucket    string `key:"bucket" doc:"The bucket. It has to be there. Required with an endpoint."`
	Prefix    string `key:"prefix" default:"bardo/" doc:"What the names of objects begin with; usage/2026-11-27.csv follows."`
	AccessKey Secret `key:"access_key" doc:"The id of the access key, which may put objects with this prefix. Required with an endpoint."`
	SecretKey Secret `key:"secret_key" doc:"The secret of the access key. Required with an endpoint."`
}

// Telemetry configures logs, metrics and events.
type Telemetry struct {
	LogLevel  string `key:"log_level" default:"info" oneof:"debug info warn error" doc:"Minimum log level."`
	LogFormat string `key:"log_format" default:"auto" oneof:"auto text json" doc:"Format of the log on stderr: auto is text on a terminal, otherwise json."`
	Events    string `key:"events" path:"scheme" doc:"Destination of events, one JSON object per line: stdout, or file:/path. Without it, none are written."`

	OTLP          URL                 `key:"otlp" doc:"Address of an OpenTelemetry receiver, which gets traces of requests and the gateway's metrics, without content. Without it, nothing is sent."`
	OTLPProtocol  string              `key:"otlp_protocol" default:"auto" oneof:"auto grpc http" doc:"Protocol of telemetry.otlp: auto is gRPC for port 4317, otherwise HTTP with protobuf, where /v1/traces and /v1/metrics are put behind the address's path."`
	OTLPHeaders   map[string]Secret   `key:"otlp_headers" doc:"Headers that each export carries, such as the authorization of a hosted receiver."`
	OTLPInterval  Interval            `key:"otlp_interval" default:"30s" doc:"Time between two exports of the metrics; 0 or off: traces alone are sent, as to receivers that take no metrics."`
	OTLPSamplePct int                 `key:"otlp_sample_pct" default:"100" min:"0" max:"100" doc:"Percentage of requests whose traces are sent, chosen by their trace ids."`
	OTLPPropagate []policy.ProviderID `key:"otlp_propagate" doc:"Providers that are sent the trace context of requests (the header traceparent). Private requests, and those with a user's own provider key, never carry it."`

	ClickHouse            URL           `key:"clickhouse" doc:"Address of the HTTP interface of a ClickHouse server, which gets a row for each request: who sent it, what it used and cost, without content. Where gateways share a ledger, one of them exports all. Without it, none do."`
	ClickHouseUser        string        `key:"clickhouse_user" default:"default" doc:"Its user."`
	ClickHousePassword    Secret        `key:"clickhouse_password" doc:"The user's password."`
	ClickHouseTable       string        `key:"clickhouse_table" default:"bardo_requests" doc:"The table, with its database where that is not the user's. It is made where it is not there."`
	ClickHouseEventsTable string        `key:"clickhouse_events_table" default:"bardo_events" doc:"The table of events, in the same way; off: events are not exported. Each gateway exports its own."`
	ClickHouseInterval    time.Duration `key:"clickhouse_interval" default:"10s" doc:"Time between two exports, at least 100ms."`

	ObjectStore ObjectStore `key:"object_store" doc:"An S3-compatible object store, which gets the usage of each UTC day as CSV, 15 minutes after its end. Where gateways share a ledger, one of them exports all."`

	Prompts Prompts `key:"prompts" doc:"Whose requests and answers are kept, where and for how long: for nobody, unless keys are named."`

	VeniceMockRateMS int `key:"venice_mock_rate_ms" default:"1000" min:"10" max:"3600000" doc:"Milliseconds between two made-up records of /venice/telemetry and /venice/stream, while Venice is not configured."`
}
