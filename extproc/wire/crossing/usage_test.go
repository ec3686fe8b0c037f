package crossing_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic/message"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/header"
)

var jsonAnswer = header.List{{Name: "content-type", Value: "application/json"}}

// usageOf returns the last usage report that a decoder emits for an answer.
func usageOf(t *testing.T, d provider.Decoder, answer string) (u chat.Usage) {
	t.Helper()
	found := false
	for _, ev := range d.Decode([]byte(answer), true) {
		if ev.Kind == chat.UsageInfo {
			u, found = ev.Usage, true
		}
	}
	if !found {
		t.Errorf("no usage in %s", answer)
	}
	return u
}

// TestD85TheLargerOfDuplicateNumbersIsCharged: a provider's answer is not refused for a duplicate member, and no order of its members
// reduces the charge.
func TestD85TheLargerOfDuplicateNumbersIsCharged(t *testing.T) {
	chatAnswer := func(usage string) string {
		return `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],` + usage + `}`
	}
	claude := func(usage string) string {
		return `{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn",` + usage + `}`
	}
	google := func(usage string) string {
		return `{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}],` + usage + `}`
	}
	response := func(usage string) string {
		return `{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"i","role":"assistant","content":[{"type":"output_text","text":"hi"}]}],` + usage + `}`
	}
	for _, r := range []struct {
		name    string
		decoder func(*chat.Request) provider.Decoder
		answer  string
		want    chat.Usage // input, cached, written and output
	}{
		{"chat", openaiDecoder, chatAnswer(`"usage":{"prompt_tokens":100,"prompt_tokens":1,"completion_tokens":5,"completion_tokens":90}`), chat.Usage{Input: 100, Output: 90}},
		{"chat", openaiDecoder, chatAnswer(`"usage":{"prompt_tokens":1,"prompt_tokens":100,"completion_tokens":90,"completion_tokens":5}`), chat.Usage{Input: 100, Output: 90}},
		{"chat's discount", openaiDecoder, chatAnswer(`"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":99,"cached_tokens":10}}`), chat.Usage{Input: 90, Cached: 10, Output: 5}},
		{"chat's discounts", openaiDecoder, chatAnswer(`"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":10},"prompt_tokens_details":{"cached_tokens":99}}`), chat.Usage{Input: 90, Cached: 10, Output: 5}},
		{"chat's reports", openaiDecoder, chatAnswer(`"usage":{"prompt_tokens":100,"completion_tokens":90},"usage":{"prompt_tokens":1,"completion_tokens":1}`), chat.Usage{Input: 100, Output: 90}},
		{"chat's reports, the other way", openaiDecoder, chatAnswer(`"usage":{"prompt_tokens":1,"completion_tokens":1},"usage":{"prompt_tokens":100,"completion_tokens":90}`), chat.Usage{Input: 100, Output: 90}},
		{"chat's report and none", openaiDecoder, chatAnswer(`"usage":{"prompt_tokens":100,"completion_tokens":90},"usage":null`), chat.Usage{Input: 100, Output: 90}},
		{"messages", claudeDecoder, claude(`"usage":{"input_tokens":100,"input_tokens":1,"output_tokens":9e1,"output_tokens":5,"cache_read_input_tokens":7,"cache_read_input_tokens":3}`), chat.Usage{Input: 100, Cached: 7, Output: 90}},
		{"messages' reports", claudeDecoder, claude(`"usage":{"input_tokens":100,"output_tokens":90},"usage":{"input_tokens":1,"output_tokens":1}`), chat.Usage{Input: 100, Output: 90}},
		{"gemini", geminiDecoder, google(`"usageMetadata":{"promptTokenCount":100,"promptTokenCount":1,"candidatesTokenCount":"90","candidatesTokenCount":5,"cachedContentTokenCount":99,"cachedContentTokenCount":10}`), chat.Usage{Input: 90, Cached: 10, Output: 90}},
		{"gemini's reports", geminiDecoder, google(`"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":90},"usageMetadata":{"promptTokenCount":1}`), chat.Usage{Input: 100, Output: 90}},
		{"responses", responsesDecoder, response(`"usage":{"input_tokens":100,"input_tokens":1,"output_tokens":5,"output_tokens":90,"input_tokens_details":{"cached_tokens":99,"cached_tokens":10}}`), chat.Usage{Input: 90, Cached: 10, Output: 90}},
		{"responses' reports", responsesDecoder, response(`"usage":{"input_tokens":1,"output_tokens":1},"usage":{"input_tokens":100,"output_tokens":90}`), chat.Usage{Input: 100, Output: 90}},
	} {
		t.Run(r.name, func(t *testing.T) {
			got := usageOf(t, r.decoder(&chat.Request{}), r.answer)
			if got.Input != r.want.Input || got.Cached != r.want.Cached || got.CacheWrite != r.want.CacheWrite || got.Output != r.want.Output {
				t.Errorf("%s\nis read as %+v, want %+v", r.answer, got, r.want)
			}
		})
	}
}

func openaiDecoder(r *chat.Request) provider.Decoder {
	return chatcompletion.NewDecoder(r, 200, jsonAnswer)
}

func claudeDecoder(r *chat.Request) provider.Decoder { return message.NewDecoder(r, 200, jsonAnswer) }

func geminiDecoder(r *chat.Request) provider.Decoder { return gemini.NewDecoder(r, 200, jsonAnswer) }

func responsesDecoder(r *chat.Request) provider.Decoder {
	r.Dialect = chat.Responses
	return responses.NewDecoder(r, 200, jsonAnswer)
}
