package crossing_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic/message"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/header"
)

// toolNameFormats are the formats with the names that each accepts, and an answer that calls a tool.
var toolNameFormats = []struct {
	dialect chat.Dialect
	accepts *regexp.Regexp
	encode  func(r *chat.Request) ([]byte, []string, error)
	decode  func(r *chat.Request, body string) []chat.Event
	answer  string
}{
	{
		chat.OpenAI, regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`), openaiSide.encode,
		func(r *chat.Request, body string) []chat.Event {
			return chatcompletion.NewDecoder(r, 200, jsonHeader).Decode([]byte(body), true)
		},
		`{"choices":[{"message":{"tool_calls":[{"id":"1","type":"function","function":{"name":%q,"arguments":"{}"}}]}}]}`,
	},
	{
		chat.Responses, regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`),
		func(r *chat.Request) ([]byte, []string, error) {
			return responses.EncodeRequest(nil, r, responses.RequestOptions{Model: "gpt"})
		},
		func(r *chat.Request, body string) []chat.Event {
			return responses.NewDecoder(r, 200, jsonHeader).Decode([]byte(body), true)
		},
		`{"object":"response","status":"completed","output":[{"type":"function_call","call_id":"1","name":%q,"arguments":"{}"}]}`,
	},
	{
		chat.Anthropic, regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`), anthropicSide.encode,
		func(r *chat.Request, body string) []chat.Event {
			return message.NewDecoder(r, 200, jsonHeader).Decode([]byte(body), true)
		},
		`{"type":"message","role":"assistant","content":[{"type":"tool_use","id":"1","name":%q,"input":{}}],"stop_reason":"tool_use"}`,
	},
	{
		chat.Gemini, regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$`),
		func(r *chat.Request) ([]byte, []string, error) {
			return gemini.EncodeRequest(nil, r, gemini.RequestOptions{})
		},
		func(r *chat.Request, body string) []chat.Event {
			return gemini.NewDecoder(r, 200, jsonHeader).Decode([]byte(body), true)
		},
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":%q,"args":{}}}]},"finishReason":"STOP"}]}`,
	},
}

var jsonHeader = header.List{{Name: "content-type", Value: "application/json"}}

// TestAToolNameIsAcceptedByEveryFormat: the formats accept different names. A name that is changed for a provider is the same wherever the
// request has it, differs from all others, and calls have the client's own.
func TestAToolNameIsAcceptedByEveryFormat(t *testing.T) {
	names := []string{
		"plain", "a.b", "a:b", "a_b", "21st_magic", "server/tool", "w\u00e4hlen", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 127) + ".y",
	}
	for _, f := range toolNameFormats {
		sent := map[string]bool{}
		for _, name := range names {
			req := requestWithTool(t, name, f.dialect)
			out, degraded, err := f.encode(req)
			if err != nil || len(degraded) > 0 {
				t.Fatal(err, degraded)
			}
			written := wire.ToolName(name, f.dialect)
			if !f.accepts.MatchString(written) || f.accepts.MatchString(name) != (written == name) || sent[written] {
				t.Errorf("%s: %s is sent as %s", f.dialect, name, written)
			}
			sent[written] = true
			if n := strings.Count(string(out), fmt.Sprintf("%q", written)); n < 3 {
				t.Errorf("%s: %s has the name %d times", f.dialect, out, n)
			}
			events := f.decode(req, fmt.Sprintf(f.answer, written))
			i := slices.IndexFunc(events, func(ev chat.Event) bool { return ev.Kind == chat.ToolStart })
			if i < 0 || events[i].Tool.Name != name {
				t.Errorf("%s: a call of %s has another name, or is none", f.dialect, name)
			}
		}
	}
}

// requestWithTool is a request with a tool that the model called and must call again, in another format than target.
func requestWithTool(t *testing.T, name string, target chat.Dialect) *chat.Request {
	t.Helper()
	from, body := openaiSide, `{"model":"m","messages":[{"role":"user","content":"hi"},`+
		`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"NAME","arguments":"{}"}}]},`+
		`{"role":"tool","tool_call_id":"1","content":"ok"}],"tools":[{"type":"function","function":{"name":"NAME"}}],`+
		`"tool_choice":{"type":"function","function":{"name":"NAME"}}}`
	if target == chat.OpenAI {
		from, body = anthropicSide, `{"model":"m","max_tokens":500,"messages":[{"role":"user","content":"hi"},`+
			`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"NAME","input":{}}]},`+
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"ok"}]}],`+
			`"tools":[{"name":"NAME","input_schema":{}}],"tool_choice":{"type":"tool","name":"NAME"}}`
	}
	req, err := from.dialect.Decode(chat.Generate, nil, "", []byte(strings.ReplaceAll(body, "NAME", name)))
	if err != nil {
		t.Fatal(err)
	}
	return req
}
