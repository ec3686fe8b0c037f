package policy

// Profile is the inference parameters of one call, by the sending subsystem. A nil or zero field leaves the provider's default. Units are those of
// the APIs.
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
	CacheControl   *bool // mark the stable prefix of the prompt for the provider's cache

	WebSearch       *bool
	TEE             *bool
	PredictedOutput string
	Seed            *int64
}
