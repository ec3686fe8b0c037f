package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// TestK17ReasoningOfToolTurnsIsSent: reasoning of a turn with tool calls is sent back, whatever the dialect of the history, and reasoning
// of other turns is not.
func TestK17ReasoningOfToolTurnsIsSent(t *testing.T) {
	const fromOpenAI = `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","reasoning_content":"idle","content":"b"},` +
		`{"role":"user","content":"c"},{"role":"assistant","content":null,"reasoning_content":"used","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"1","content":"r"},{"role":"assistant","content":"d","reasoning_content":"after"},` +
		`{"role":"user","content":"e"},{"role":"assistant","content":"g","reasoning_content":"late"},{"role":"user","content":"h"}]}`
	const fromAnthropic = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"idle","signature":"s"},{"type":"text","text":"b"}]},` +
		`{"role":"user","content":"c"},{"role":"assistant","content":[{"type":"thinking","thinking":"used","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"after","signature":"s"},{"type":"text","text":"d"}]},` +
		`{"role":"user","content":"e"},{"role":"assistant","content":[{"type":"thinking","thinking":"late","signature":"s"},{"type":"text","text":"g"}]},{"role":"user","content":"h"}]}`
	rows := []struct {
		name     string
		client   wire.Dialect
		body     string
		which    openai.ReasoningContent
		want     string
		degraded string
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
			body, names, err := openai.EncodeRequest(nil, req, openai.RequestOptions{Model: "m", ReasoningContent: r.which})
			if err != nil {
				t.Fatal(err)
			}
			var emitted []string
			for _, thought := range []string{"idle", "used", "after", "late"} {
				if strings.Contains(string(body), `"reasoning_content":"`+thought+`"`) {
					emitted = append(emitted, thought)
				}
			}
			if got := strings.Join(emitted, " "); got != r.want || strings.Join(names, ",") != r.degraded {
				t.Errorf("wrote %q, want %q; degraded %v\n%s", got, r.want, names, body)
			}
			if decoded := decode(t, string(body)); decoded.Doc.Find("messages") < 0 {
				t.Errorf("not a request any more: %s", body)
			}
		})
	}
}

// TestK16DetailsAndContentAreCutTogether: removed members may be adjacent, and first.
func TestK16DetailsAndContentAreCutTogether(t *testing.T) {
	t.Parallel()
	const details = `"reasoning_details":[{"type":"reasoning.text","text":"idle","signature":"s"}]`
	for _, message := range []string{
		`{"reasoning_content":"idle",` + details + `,"role":"assistant","content":"b"}`,
		`{"role":"assistant","content":"b",` + details + `,"reasoning_content":"idle"}`,
		`{"role":"assistant",` + details + `,"content":"b","reasoning_content":"idle"}`,
		`{` + details + `,"role":"assistant","reasoning_content":"idle","content":"b"}`,
	} {
		body := `{"model":"m","messages":[{"role":"user","content":"a"},` + message + `,{"role":"user","content":"c"}]}`
		req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		got, names, err := openai.EncodeRequest(nil, req, openai.RequestOptions{Model: "m", ReasoningContent: openai.ReasoningContentForTools, NoDetails: true})
		const want = `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`
		if err != nil || string(got) != want || strings.Join(names, ",") != "reasoning_details" {
			t.Errorf("%s became %s, %v, %v", message, got, names, err)
		}
	}
}

// TestK17ReasoningInOtherMembersIsSentToo: clients keep reasoning in the member in which their last provider sent it.
func TestK17ReasoningInOtherMembersIsSentToo(t *testing.T) {
	t.Parallel()
	const call = `"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]`
	for thought, want := range map[string]string{
		`"reasoning":"I \"look\".",`: `"reasoning_content":"I \"look\".",`,
		`"reasoning_details":[{"type":"reasoning.text","text":"I ","index":0},{"type":"reasoning.text","text":"look.","index":0}],`: `"reasoning_content":"I look.",`,
		`"reasoning":"I look.","reasoning_content":"I see.",`:                                                                       `"reasoning_content":"I see.",`,
		`"reasoning":"",`: ``,
	} {
		for _, format := range []string{`{%s"role":"assistant",%s}`, `{"role":"assistant",%s%s}`} {
			body := func(thought string) string {
				return `{"model":"m","messages":[{"role":"user","content":"a"},` + fmt.Sprintf(format, thought, call) + `,{"role":"tool","tool_call_id":"1","content":"r"}]}`
			}
			req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(body(thought)))
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := openai.EncodeRequest(nil, req, openai.RequestOptions{Model: "m", ReasoningContent: openai.ReasoningContentForTools, NoDetails: true})
			if err != nil {
				t.Fatal(err)
			}
			m := decode(t, string(got)).Doc.Get("messages")
			content, wanted := messageOf(t, m), messageOf(t, decode(t, body(want)).Doc.Get("messages"))
			if content != wanted {
				t.Errorf("%s became %s (%s), want %s", thought, content, got, wanted)
			}
		}
	}
}

// messageOf returns the members of the second message, sorted.
func messageOf(t *testing.T, messages jsonx.Value) string {
	t.Helper()
	var ms []map[string]json.RawMessage
	if err := json.Unmarshal(messages.Raw, &ms); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(ms[1])
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestK16AmendAfterARefusal covers each of the three reasoning members, which OpenAI's own API does not have.
func TestK16AmendAfterARefusal(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		"Unknown parameter: 'messages[4].reasoning'.":                                                                                       true,
		"Unknown parameter: 'messages[4].reasoning_details'.":                                                                               true,
		"Unknown parameter: 'messages[4].reasoning_content'.":                                                                               true,
		"messages.1.reasoning_details: Extra inputs are not permitted":                                                                      true,
		"Unsupported parameter: 'reasoning_effort'":                                                                                         false,
		"messages.2.assistant.reasoning_content: Extra inputs are not permitted":                                                            true,
		"'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]": true,
		"property 'reasoning' is unsupported":                                                                                               true,
		"Invalid value: 'messages[1].role'":                                                                                                 false,
		"The `reasoning_content` in the thinking mode must be passed on":                                                                    false,
	} {
		to, ok := openai.Amend(policy.Resolution{}, &chat.ProviderError{Status: 400, Message: message})
		if ok != want || to.Without.Thinking != want {
			t.Errorf("%s: %v", message, ok)
		}
	}
}
