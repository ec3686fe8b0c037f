package extproc

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/provider/deepseek"
	"bardo.money/gateway/extproc/provider/google"
	"bardo.money/gateway/extproc/provider/openai"
	"bardo.money/gateway/extproc/provider/openrouter"
	"bardo.money/gateway/extproc/provider/qwen"
	"bardo.money/gateway/extproc/provider/venice"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
)

// invoice is an answer as its provider documents it, and the provider's charge for it.
type invoice struct {
	name    string
	adapter provider.Adapter
	model   string
	price   *policy.Prices // the operator's; nil: the catalog's
	asked   chat.Dialect   // the client's dialect; "": OpenAI's
	stream  bool
	body    string

	output, reasoning int64
	estimated         bool // the reasoning
	cost              policy.Pico
}

const dollarsPerMillion = policy.Pico(1_000_000) // of one token at a dollar per million of them

// sonnet's answer is one that a public page shows (allinone.apifox.cn/384023857e0), its thought shortened: 43 tokens in and 69 out, which
// count the thought. Prices: platform.claude.com/docs/en/about-claude/pricing, $3 and $15 per million. Thinking is billed in full as output,
// whatever of it is shown: platform.claude.com/docs/build-with-claude/extended-thinking.
const (
	sonnetThinks = `{"model":"claude-sonnet-4-5-20250929","id":"msg_014usLNJL8eUusKSx1CPQWEp","type":"message","role":"assistant","content":[` +
		`{"type":"thinking","thinking":"The user has greeted me in Chinese, saying Hello Claude. I should respond politely in Chinese.","signature":"EqgCCkYI"},` +
		`{"type":"text","text":"你好!很高兴见到你。"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":43,"cache_creation_input_tokens":0,` +
		`"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":69,"service_tier":"standard"}}`
	// By its length the thought would be 24 tokens; there were 10 in total.
	sonnetShort = `{"model":"claude-sonnet-4-5","id":"msg_1","type":"message","role":"assistant","content":[` +
		`{"type":"thinking","thinking":"The user has greeted me in Chinese, saying Hello Claude. I should respond politely in Chinese.","signature":"EqgCCkYI"},` +
		`{"type":"text","text":"Hi."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":43,"output_tokens":10}}`
	// Reads and writes of the prompt cache have their own prices ($0.30, $3.75 and $6), and are not reasoning (D-42).
	sonnetCaches = `{"model":"claude-sonnet-4-5","id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"Hi."}],` +
		`"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":100,"cache_creation_input_tokens":3000,"cache_read_input_tokens":20000,` +
		`"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":2000},"output_tokens":500,"output_tokens_details":{"thinking_tokens":400}}}`
	sonnetStreams = `event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":43,"output_tokens":2}}}` + "\n\n" +
		`event: content_block_start` + "\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}` + "\n\n" +
		`event: content_block_delta` + "\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"I should respond politely in Chinese."}}` + "\n\n" +
		`event: content_block_delta` + "\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqgCCkYI"}}` + "\n\n" +
		`event: content_block_stop` + "\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`event: message_delta` + "\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":69}}` + "\n\n" +
		`event: message_stop` + "\n" + `data: {"type":"message_stop"}` + "\n\n"
)

// completion returns an answer in Chat Completions with a usage object.
func completion(thought, usage string) string {
	return `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",` + thought +
		`"content":"Hi."},"finish_reason":"stop"}],"usage":` + usage + `}`
}

const (
	// Of the guide to reasoning models for Chat Completions: 600 tokens out, of which 500 reason (platform.openai.com/docs/guides/reasoning,
	// as of the o1 models). o3: $2 and $8 (openai.com/api/pricing).
	o3Chats = `{"prompt_tokens":400,"completion_tokens":600,"total_tokens":1000,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},` +
		`"completion_tokens_details":{"reasoning_tokens":500,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`
	// Of the same guide for Responses: 1,186 tokens out, of which 1,024 reason.
	o3Responds = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"o3","output":[{"id":"rs_1","type":"reasoning","summary":[]},` +
		`{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi.","annotations":[]}]}],` +
		`"usage":{"input_tokens":75,"input_tokens_details":{"cached_tokens":0},"output_tokens":1186,"output_tokens_details":{"reasoning_tokens":1024},"total_tokens":1261}}`
	// In the form of api-docs.deepseek.com/api/create-chat-completion: what the cache held is counted twice over, under two names, and the
	// chain of thought is in completion_tokens and priced alike (api-docs.deepseek.com/quick_start/pricing).
	deepSeekThinks = `{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"prompt_tokens_details":{"cached_tokens":80},` +
		`"completion_tokens_details":{"reasoning_tokens":30},"prompt_cache_hit_tokens":80,"prompt_cache_miss_tokens":20}`
	// Of alibabacloud.com/help/en/model-studio/deep-thinking: the last chunk of a stream has the usage. Prices of thinking:
	// alibabacloud.com/help/en/model-studio/models, $0.70 and $8.40.
	qwenThinks = `data: {"choices":[{"delta":{"content":null,"reasoning_content":"Who am I? "},"finish_reason":null,"index":0,"logprobs":null}],"object":"chat.completion.chunk","usage":null,"created":1,"system_fingerprint":null,"model":"qwen3-32b","id":"c"}` + "\n\n" +
		`data: {"choices":[{"delta":{"content":"Qwen.","reasoning_content":null},"finish_reason":"stop","index":0,"logprobs":null}],"object":"chat.completion.chunk","usage":null,"created":1,"system_fingerprint":null,"model":"qwen3-32b","id":"c"}` + "\n\n" +
		`data: {"choices":[],"object":"chat.completion.chunk","usage":{"prompt_tokens":10,"completion_tokens":1360,"total_tokens":1370,"completion_tokens_details":{"reasoning_tokens":1000}},"created":1,"system_fingerprint":null,"model":"qwen3-32b","id":"c"}` + "\n\n" +
		"data: [DONE]\n\n"
	// Recorded in github.com/Wei-Shaw/sub2api/issues/554. "Response pricing is the sum of output tokens and thinking tokens"
	// (ai.google.dev/gemini-api/docs/thinking); Gemini 2.5 Pro: $1.25 and $10 (ai.google.dev/gemini-api/docs/pricing).
	geminiThinks = `{"candidates":[{"content":{"parts":[{"text":"Hi."}],"role":"model"},"finishReason":"STOP","index":0}],` +
		`"usageMetadata":{"promptTokenCount":55021,"candidatesTokenCount":923,"totalTokenCount":56729,"thoughtsTokenCount":785},"modelVersion":"gemini-2.5-pro","responseId":"r"}`
	// From openrouter.ai/docs/use-cases/usage-accounting: the reported cost overrides every price list.
	openRouterSays = `{"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":0},"cost":0.95,"cost_details":{"upstream_inference_cost":19},` +
		`"prompt_tokens":194,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"total_tokens":196}`
	// In OpenAI's form. Prices of qwen3-5-397b-a17b: docs.venice.ai/pricing.md, $0.75 and $4.50.
	veniceThinks = `{"prompt_tokens":612,"total_tokens":1100,"completion_tokens":488,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":300}}`
	// vLLM counts reasoning in completion_tokens and has no breakdown (github.com/BerriAI/litellm/issues/41849, whose numbers these are).
	vllmThinks = `{"prompt_tokens":32,"total_tokens":506,"completion_tokens":474,"prompt_tokens_details":null,"completion_tokens_details":null}`
)

// perMillion are prices in hundredths of a dollar per million tokens.
func perMillion(input, output int64) *policy.Prices {
	const cent = policy.Price(policy.USD) / 100
	return &policy.Prices{Input: policy.Price(input) * cent, Output: policy.Price(output) * cent, Known: true}
}

var invoices = []invoice{
	{name: "Anthropic", adapter: anthropic.Adapter{}, model: "claude-sonnet-4-5", asked: chat.Anthropic, body: sonnetThinks, output: 69, reasoning: 24, estimated: true, cost: 43*3_000_000 + 69*15_000_000},
	{name: "Anthropic, streamed", adapter: anthropic.Adapter{}, model: "claude-sonnet-4-5", stream: true, body: sonnetStreams, output: 69, reasoning: 10, estimated: true, cost: 43*3_000_000 + 69*15_000_000},
	{name: "D-42: the estimate is no more than the output", adapter: anthropic.Adapter{}, model: "claude-sonnet-4-5", body: sonnetShort, output: 10, reasoning: 10, estimated: true, cost: 43*3_000_000 + 10*15_000_000},
	{
		name: "D-42: Anthropic's cache is no reasoning", adapter: anthropic.Adapter{}, model: "claude-sonnet-4-5", body: sonnetCaches, output: 500, reasoning: 400,
		cost: 100*3_000_000 + 1000*3_750_000 + 2000*6_000_000 + 20000*300_000 + 500*15_000_000,
	},
	{name: "OpenAI, Chat Completions", adapter: openai.Adapter{}, model: "o3", body: completion("", o3Chats), output: 600, reasoning: 500, cost: 400*2_000_000 + 600*8_000_000},
	{name: "OpenAI, Responses", adapter: openai.Adapter{}, model: "o3", asked: chat.Responses, body: o3Responds, output: 1186, reasoning: 1024, cost: 75*2_000_000 + 1186*8_000_000},
	{
		name: "DeepSeek", adapter: deepseek.Adapter{}, model: "deepseek-reasoner", body: completion(`"reasoning_content":"Hm.",`, deepSeekThinks),
		output: 50, reasoning: 30, cost: 20*140_000 + 80*2_800 + 50*280_000,
	},
	{name: "Qwen, streamed", adapter: qwen.Adapter{}, model: "qwen3-32b", stream: true, body: qwenThinks, output: 1360, reasoning: 1000, cost: 10*700_000 + 1360*8_400_000},
	{name: "D-43: Gemini's thoughts are not among the candidates' tokens", adapter: google.Adapter{}, model: "gemini-2.5-pro", body: geminiThinks, output: 923 + 785, reasoning: 785, cost: 55021*1_250_000 + (923+785)*10_000_000},
	{name: "OpenRouter", adapter: openrouter.Adapter{}, model: "qwen/qwen3-32b", body: completion(`"reasoning":"Hm.",`, openRouterSays), output: 2, cost: 950_000 * dollarsPerMillion},
	{name: "Venice", adapter: venice.Adapter{}, model: "qwen3-5-397b-a17b", price: perMillion(75, 450), body: completion(`"reasoning_content":"Hm.",`, veniceThinks), output: 488, reasoning: 300, cost: 612*750_000 + 488*4_500_000},
	{name: "vLLM, reasoning", adapter: custom.Adapter{}, model: "qwen3-8b", price: perMillion(10, 30), body: completion(`"reasoning":"Hm.",`, vllmThinks), output: 474, cost: 32*100_000 + 474*300_000},
	{name: "vLLM, reasoning_content", adapter: custom.Adapter{}, model: "qwen3-8b", price: perMillion(10, 30), body: completion(`"reasoning_content":"Hm.",`, vllmThinks), output: 474, cost: 32*100_000 + 474*300_000},
}

// TestD43EveryProvidersThinkingIsBilledOnce: the cost of a provider's own example by its own price list, thinking included, for clients of both
// forms.
func TestD43EveryProvidersThinkingIsBilledOnce(t *testing.T) {
	t.Parallel()
	known := catalog.New(catalogtest.Embedded())
	for _, b := range invoices {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			to := policy.Resolution{Provider: policy.ProviderID(b.adapter.Name()), Model: policy.ModelID(b.model)}
			if to.Prices = known.Unlisted(to.Provider, b.model).Prices; b.price != nil {
				to.Prices = *b.price
			}
			if b.asked == "" {
				b.asked = chat.OpenAI
			}
			u := b.usage(to)
			if u.Output != b.output || u.Reasoning != b.reasoning || u.ReasoningEstimated != b.estimated || u.Estimated || !u.Final {
				t.Errorf("usage %+v", u)
			}
			if got := (meter.Terms{}).Cost(&to, &u); got != b.cost {
				t.Errorf("it costs %d picodollars, want %d", got, b.cost)
			}
		})
	}
}

// usage returns what the decoder reads from the answer, byte by byte.
func (b *invoice) usage(to policy.Resolution) (u chat.Usage) {
	media := "application/json"
	if b.stream {
		media = "text/event-stream"
	}
	req := &chat.Request{Dialect: b.asked, Stream: b.stream, Choices: 1}
	d := b.adapter.NewDecoder(req, to, provider.Endpoint{Responses: true}, 200, header.List{{Name: "content-type", Value: media}})
	for i := range len(b.body) {
		for _, ev := range d.Decode([]byte(b.body[i:i+1]), i == len(b.body)-1) {
			if ev.Kind == chat.UsageInfo {
				u.Merge(ev.Usage)
			}
		}
	}
	return u
}
