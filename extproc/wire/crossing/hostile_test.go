package crossing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/proctest"
)

// many concatenates results of element up to n bytes.
func many(n int, element func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(element(i))
	}
	return b.String()
}

func same(s string) func(int) string { return func(int) string { return s } }

func numbered(format string) func(int) string {
	return func(i int) string { return fmt.Sprintf(format, i) }
}

func within(depth int, open, end, inner string) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(end, depth)
}

// hostile is a request of about n bytes that is designed to be expensive.
type hostile struct {
	name string
	d    chat.Dialect
	body string
}

const turn = `{"role":"user","content":"hi"}`

func hostileRequests(n int) []hostile {
	openAI := func(name, body string) hostile {
		return hostile{name, chat.OpenAI, `{"model":"m","temperature":0,` + body + `}`}
	}
	messages := func(name, rest string) hostile { return openAI(name, `"messages":[`+turn+`,`+rest+`]`) }
	claude := func(name, body string) hostile {
		return hostile{name, chat.Anthropic, `{"model":"m","max_tokens":5,"temperature":0,` + body + `}`}
	}
	call, result := `{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}`, `{"role":"tool","tool_call_id":"x","content":"y"}`
	wide := `"additionalProperties":false,"properties":{` + many(n/2, numbered(`"k%d":{}`)) + `},"required":[` + many(n/2, numbered(`"k%d"`)) + `]`
	return []hostile{
		messages("many messages", many(n, same(turn))),
		claude("turns of the assistant between a call and its result",
			`"messages":[`+turn+`,{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]},`+
				many(n, same(`{"role":"assistant","content":"a"}`))+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}]`),
		messages("a turn with many calls, and their results from the last to the first", calls(n/140)),
		messages("calls of one id, each answered", many(n, same(`{"role":"assistant","tool_calls":[`+call+`]},`+result))),
		messages("a thought in many pieces",
			`{"role":"assistant","content":"a","reasoning_details":[`+many(n, same(`{"type":"reasoning.text","text":"a","index":0}`))+`]},`+turn),
		messages("members that nobody knows", `{"role":"user","content":"hi",`+many(n, numbered(`"k%d":1`))+`}`),
		openAI("members at the top that nobody knows", `"messages":[`+turn+`],`+many(n, numbered(`"k%d":1`))),
		messages("parts that nobody knows", `{"role":"user","content":[`+many(n, numbered(`{"type":"t%d"}`))+`]}`),
		claude("blocks that nobody knows", `"messages":[{"role":"user","content":[`+many(n, numbered(`{"type":"t%d"}`))+`]}]`),
		claude("hints on blocks", `"messages":[{"role":"user","content":[`+many(n, same(`{"type":"text","text":"a","bardo":"static"}`))+`]}]`),
		openAI("hints on messages, and on the tools before them",
			`"tools":[`+many(n/2, same(`{"bardo":1}`))+`],"messages":[`+many(n/2, same(`{"role":"user","content":"a","bardo":"static"}`))+`]`),
		openAI("tools", `"messages":[`+turn+`],"tools":[`+many(n, numbered(`{"type":"function","function":{"name":"f%d","parameters":{}}}`))+`]`),
		claude("tools that run at the provider", `"messages":[`+turn+`],"tools":[`+many(n, numbered(`{"type":"web_search_%[1]d","name":"w%[1]d"}`))+`]`),
		openAI("stop sequences", `"messages":[`+turn+`],"stop":[`+many(n, numbered(`"s%d"`))+`]`),
		claude("a wide schema", `"messages":[`+turn+`],"output_config":{"format":{"type":"json_schema","schema":{"type":"object",`+wide+`}}}`),
		claude("a deep schema", `"messages":[`+turn+`],"output_config":{"format":{"type":"json_schema","schema":`+
			within(200, `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":`, `}}`, `{"type":"string","description":"`+strings.Repeat(`\"`, n/2)+`"}`)+`}}`),
		openAI("a deep schema", `"messages":[`+turn+`],"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":`+
			within(200, `{"anyOf":[`, `]}`, `{"type":"object","enum":[`+many(n, same("1"))+`]}`)+`}}`),
		openAI("deep values", `"messages":[`+turn+`],"x":`+within(500, `{"a":`, `}`, `[`+many(n, same("1"))+`]`)),
		messages("deep arguments", `{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"`+
			within(500, `[`, `]`, many(n, same("1")))+`"}}]},`+result),
		{"turns of a client of Google's", chat.Gemini, `{"contents":[` + many(n, same(`{"role":"user","parts":[{"text":"a"}]}`)) + `]}`},
		{"parts that nobody knows, of Google's", chat.Gemini, `{"contents":[{"parts":[` + many(n, numbered(`{"p%d":1}`)) + `]}]}`},
		{"members that nobody knows, of Google's", chat.Gemini, `{"contents":[{"parts":[{"text":"a"}]}],"generationConfig":{` + many(n, numbered(`"k%d":1`)) + `}}`},
		{"calls without ids, and their results from the last to the first", chat.Gemini, geminiCalls(n / 140)},
		{"a long number", chat.OpenAI, `{"model":"m","temperature":0.` + strings.Repeat("1", n) + `,"messages":[` + turn + `]}`},
	}
}

// calls returns a turn of n calls, and their results in reverse order.
func calls(n int) string {
	calls, results := make([]string, n), make([]string, n)
	for i := range n {
		calls[i] = fmt.Sprintf(`{"id":"t%d","type":"function","function":{"name":"f%d","arguments":"{}"}}`, i, i)
		results[n-1-i] = fmt.Sprintf(`{"role":"tool","tool_call_id":"t%d","content":"y"}`, i)
	}
	return `{"role":"assistant","tool_calls":[` + strings.Join(calls, ",") + `]},` + strings.Join(results, ",")
}

// geminiCalls returns a request with a turn of n calls, and their results in reverse order.
func geminiCalls(n int) string {
	calls, results := make([]string, n), make([]string, n)
	for i := range n {
		calls[i] = fmt.Sprintf(`{"functionCall":{"name":"f%d"}}`, i)
		results[n-1-i] = fmt.Sprintf(`{"functionResponse":{"name":"f%d","response":{"output":"y"}}}`, i)
	}
	return `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[` + strings.Join(calls, ",") + `]},{"role":"user","parts":[` + strings.Join(results, ",") + `]}]}`
}

// TestHostileRequestsCostTheirSize: the cost of reading a request, keying it and writing it for a provider of either format is linear in
// its size. A request of four times the size takes about four times as long, not sixteen times, as with quadratic cost; the minimum of
// several measurements counts.
func TestHostileRequestsCostTheirSize(t *testing.T) {
	const size, maxRatio, measurements = 256 << 10, 10, 6
	small, large := hostileRequests(size/4), hostileRequests(size)
	for i := range large {
		t.Run(large[i].name, func(t *testing.T) {
			var ratio float64
			for range measurements {
				ratio = float64(large[i].serve(t)) / float64(small[i].serve(t))
				if ratio < maxRatio {
					return
				}
			}
			t.Errorf("four times the bytes took %.0f times as long", ratio)
		})
	}
}

// serve converts a request as the gateway does and returns the processor time that this takes.
func (h *hostile) serve(t *testing.T) time.Duration {
	t.Helper()
	var client wire.Dialect = openai.Dialect{}
	switch h.d { //nolint:exhaustive // the others are OpenAI's
	case chat.Anthropic:
		client = anthropic.Dialect{}
	case chat.Gemini:
		client = geminiClient
	}
	var lostThere, lostHere, lostAtGoogle []string
	took := proctest.CPUTime(t, func() {
		r, err := client.Decode(chat.Generate, nil, "", []byte(h.body))
		if err != nil {
			t.Fatal(err)
		}
		cache.KeyOf("tenant", r)
		// Content without an equivalent is refused, after the work is done.
		_, lostThere, _ = anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "m", StructuredOutputs: true, StripThinking: anthropic.StripUnsigned})
		_, lostHere, _ = openai.EncodeRequest(nil, r, openai.RequestOptions{Model: "m", MaxStop: 4})
		_, lostAtGoogle, _ = gemini.EncodeRequest(nil, r, gemini.RequestOptions{})
	})
	if n := max(len(lostThere), len(lostHere), len(lostAtGoogle)); n > 100 {
		t.Errorf("%d losses are named", n)
	}
	return took
}
