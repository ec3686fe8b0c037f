package openai_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
)

// TestK17ReasoningGoesBackWithTools: what was thought in a turn that called tools goes back, whichever dialect the history is in,
// and what was thought in other turns does not.
func TestK17ReasoningGoesBackWithTools(t *testing.T) {
	const fromOpenAI = `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","reasoning_content":"idle","content":"b"},` +
		`{"role":"user","content":"c"},{"role":"assistant","content":null,"reasoning_content":"used","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"1","content":"r"},{"role":"assistant","content":"d","reasoning_content":"after"},` +
		`{"role":"user","content":"e"},{"role":"assistant","content":"g","reasoning_content":"late"},{"role":"user","content":"h"}]}`
	const fromAnthropic = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"idle","signature":"s"},{"type":"text","text":"b"}]},` +
		`{"role":"user","content":"c"},{"role":"assistant","content":[{"type":"thinking","thinking":"used","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"after","signature":"s"},{"type":"text","text":"d"}]},` +
		`{"role":"user","content":"e"},{"role":"assistant","content":[{"type":"thinking","thinking":"late","signature":"s"},{"type":"text","text":"g"}]},{"role":"user","content":"h"}]}`
	rows := []struct {
		name   string
		client wire.Dialect
		body   string
		which  openai.ReasoningContent
		want   string
		lost   string
	}{
		{"of the same dialect", openai.Dialect{}, fromOpenAI, openai.ReasoningContentForTools, "used after", ""},
		{"of another", anthropic.Dialect{}, fromAnthropic, openai.ReasoningContentForTools, "used after", ""},
		{"refused everywhere", openai.Dialect{}, fromOpenAI, openai.NoReasoningContent, "", ""},
		{"refused everywhere, of another", anthropic.Dialect{}, fromAnthropic, openai.NoReasoningContent, "", "thinking"},
		{"of a provider that says nothing", openai.Dialect{}, fromOpenAI, openai.AnyReasoningContent, "idle used after late", ""},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			req, err := r.client.Decode(chat.Generate, nil, "", []byte(r.body))
			if err != nil {
				t.Fatal(err)
			}
			body, lost, err := openai.EncodeRequest(nil, req, openai.RequestOptions{Model: "m", ReasoningContent: r.which})
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			for _, thought := range []string{"idle", "used", "after", "late"} {
				if strings.Contains(string(body), `"reasoning_content":"`+thought+`"`) {
					told = append(told, thought)
				}
			}
			if got := strings.Join(told, " "); got != r.want || strings.Join(lost, ",") != r.lost {
				t.Errorf("told %q, want %q; lost %v\n%s", got, r.want, lost, body)
			}
			if again := decode(t, string(body)); again.Doc.Find("messages") < 0 {
				t.Errorf("not a request any more: %s", body)
			}
		})
	}
}
