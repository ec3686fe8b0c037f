package policy

// Profile says how a model is to answer: parameters of one call, by the subsystem that sends the request. A nil or zero field leaves the
// provider's default. Numbers are as the APIs count them.
type Profile struct {
	Temperature      *float64 // 0 to 2
	TopP             *float64
	TopK             *int
	MinP             *float64
	FrequencyPenalty *float64
	PresencePenalty  *float64

	Effort          Effort
	VisibleThinking *bool

	Schema     []byte // JSON Schema of the answer
	SchemaName string
	MaxTokens  int
	Stop       []string

	PromptCacheKey string
	CacheControl   *bool // mark the stable beginning of the prompt for the provider's cache

	WebSearch       *bool
	TEE             *bool
	PredictedOutput string
	Seed            *int64
}
