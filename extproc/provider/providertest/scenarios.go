package providertest

import (
	"time"

	"bardo.money/gateway/extproc/chat"
)

// scenario is a request in both dialects, with the gateway's parameters. Its user text is "hi".
type scenario struct {
	name              string
	openAI, anthropic string // additional members of the request, each with a comma before it
	history           bool   // the history has a turn with a tool
	profile           *chat.Profile
	cache             *chat.CachePlan
}

func yes() *bool { on := true; return &on }
func no() *bool  { return new(bool) }

const (
	openAITool    = `,"tools":[{"type":"function","function":{"name":"weather","description":"Tells it","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]`
	anthropicTool = `,"tools":[{"name":"weather","description":"Tells it","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	schema        = `{"type":"object","properties":{"action":{"type":"string"}},"required":["action"],"additionalProperties":false}`
)

// scenarios are the rows of golden files, one for each parameter in which providers differ.
var scenarios = []scenario{
	{name: "plain chat"},
	{name: "a stream", openAI: `,"stream":true`, anthropic: `,"stream":true`},
	{name: "a tool was called, and its result is here", openAI: openAITool, anthropic: anthropicTool, history: true},
	{name: "the profile wants no thinking", profile: &chat.Profile{Subsystem: "mind_wandering", Default: chat.Params{Effort: "none"}}},
	{name: "the profile wants little thinking", profile: &chat.Profile{Subsystem: "heartbeat_t1", Default: chat.Params{Effort: "low"}}},
	{name: "the profile wants some thinking", profile: &chat.Profile{Subsystem: "curator", Default: chat.Params{Effort: "medium"}}},
	{name: "the profile wants much thinking, to be seen", profile: &chat.Profile{Subsystem: "dream_rem", Default: chat.Params{Effort: "high", Visible: yes()}}},
	{name: "the profile wants the most thinking", profile: &chat.Profile{Subsystem: "death_reflect", Locked: chat.Params{Effort: "max"}, Default: chat.Params{Visible: yes()}}},
	{name: "the profile hides thinking", profile: &chat.Profile{Subsystem: "operator", Default: chat.Params{Effort: "high", Visible: no()}}},
	{name: "the client wants a budget of thinking", openAI: `,"reasoning":{"max_tokens":2000}`, anthropic: `,"thinking":{"type":"enabled","budget_tokens":2000}`},
	{name: "the client's own effort overrides the profile's", openAI: `,"reasoning_effort":"low"`, anthropic: `,"output_config":{"effort":"low"},"thinking":{"type":"adaptive"}`, profile: &chat.Profile{Subsystem: "dream_rem", Default: chat.Params{Effort: "high"}}},
	{name: "nobody says how hard to think, but a high quality is wanted", profile: &chat.Profile{Quality: "high"}},
	{name: "nobody says how hard to think, for a part that looks at it", profile: &chat.Profile{Subsystem: "dream", Quality: "high"}},
	{name: "nobody says how hard to think, for one that does not", profile: &chat.Profile{Subsystem: "heartbeat_t1", Quality: "low"}},
	{name: "temperature and top_p", profile: &chat.Profile{Default: chat.Params{Temperature: "0.3", TopP: "0.9"}}},
	{name: "top_k", profile: &chat.Profile{Default: chat.Params{TopK: "40"}}},
	{name: "min_p", profile: &chat.Profile{Default: chat.Params{Temperature: "1.2", MinP: "0.08"}}},
	{name: "penalties", profile: &chat.Profile{Default: chat.Params{FrequencyPenalty: "0.5", PresencePenalty: "0.2"}}},
	{name: "a seed", profile: &chat.Profile{Default: chat.Params{Seed: "7"}}},
	{name: "a key of the provider's cache", profile: &chat.Profile{Default: chat.Params{CacheKey: "golem-7-curator"}}},
	{name: "marks for the provider's cache", cache: &chat.CachePlan{System: chat.WholePrompt, Tools: true}},
	{name: "a search of the web", profile: &chat.Profile{Subsystem: "dream_rem", Default: chat.Params{WebSearch: yes()}}},
	{name: "an attested enclave", profile: &chat.Profile{Subsystem: "death_testament", Default: chat.Params{TEE: true}}},
	{name: "an expected answer", profile: &chat.Profile{Subsystem: "playbook", Default: chat.Params{Predicted: "the playbook as it was"}}},
	{name: "a role", profile: &chat.Profile{Role: "risk-assessor"}},
	{name: "a schema", profile: &chat.Profile{Subsystem: "curator", Default: chat.Params{Schema: []byte(schema), SchemaName: "curation"}}},
	{name: "the client's own schema", openAI: `,"response_format":{"type":"json_schema","json_schema":{"name":"curation","strict":true,"schema":` + schema + `}}`, anthropic: `,"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}`},
	{name: "what only the client's own vendor knows", openAI: `,"prediction":{"type":"content","content":"the code as it was"},"verbosity":"low","web_search_options":{}`, anthropic: `,"tools":[{"type":"web_search_20250305","name":"web_search"}]`},
	{name: "confidential", profile: &chat.Profile{Confidential: true}},
	{name: "work in the background: the cost matters", profile: &chat.Profile{CostSensitivity: 0.9, MaxLatency: 15 * time.Second}},
	{name: "somebody waits: time matters", profile: &chat.Profile{CostSensitivity: 0.1, MaxLatency: 2 * time.Second}},
}

// wantsThinking reports whether a profile sets the effort of thinking. An effort of none may be expressed by omission.
func (s *scenario) wantsThinking() bool {
	if s.profile == nil {
		return false
	}
	effort := s.profile.Default.Effort + s.profile.Locked.Effort
	return effort != "" && effort != "none"
}

func (s *scenario) body(d chat.Dialect) string {
	if d == chat.Anthropic {
		return `{"model":"shown-model","max_tokens":4096,"system":"Be brief.","messages":[` + s.turns(anthropicHistory) + `]` + s.anthropic + `}`
	}
	return `{"model":"shown-model","max_tokens":4096,"messages":[{"role":"system","content":"Be brief."},` + s.turns(openAIHistory) + `]` + s.openAI + `}`
}

func (s *scenario) turns(history string) string {
	if s.history {
		return `{"role":"user","content":"hi"},` + history
	}
	return `{"role":"user","content":"hi"}`
}

const (
	openAIHistory = `{"role":"assistant","content":null,"reasoning_content":"I look.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"call_1","content":"rain"}`
	anthropicHistory = `{"role":"assistant","content":[{"type":"thinking","thinking":"I look.","signature":"EqQ="},{"type":"tool_use","id":"call_1","name":"weather","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"rain"}]}`
)
