package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// ownToolAnswer is an answer of a provider with a call of a tool that the provider defines, and a text.
func ownToolAnswer(d chat.Dialect, stream bool) fake.Behaviour {
	const shell = `{"type":"local_shell_call","id":"lsh_1","call_id":"call_1","status":"completed","action":{"type":"exec","command":["cat","` + amount + `"],"env":{}}}`
	const text = `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"I look.","annotations":[]}]}`
	const response = `{"id":"resp_1","object":"response","created_at":1,"model":"m","status":"completed","output":[` + text + "," + shell + `],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`
	const use = `{"type":"server_tool_use","id":"srvtoolu_1","name":"local_shell","input":%s}`
	frame := func(kind, more string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + more + "}\n\n"
	}
	var body string
	switch {
	case d == chat.Responses && !stream:
		body = response
	case d == chat.Responses:
		body = frame("response.created", `,"sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1,"model":"m","status":"in_progress","output":[]}`) +
			frame("response.output_item.added", `,"sequence_number":1,"output_index":0,"item":`+text) + frame("response.output_item.done", `,"sequence_number":2,"output_index":0,"item":`+text) +
			frame("response.output_item.added", `,"sequence_number":3,"output_index":1,"item":`+shell) + frame("response.output_item.done", `,"sequence_number":4,"output_index":1,"item":`+shell) +
			frame("response.completed", `,"sequence_number":5,"response":`+response)
	case !stream:
		body = `{"id":"msg_1","type":"message","role":"assistant","model":"n","content":[{"type":"text","text":"I look."},` + fmt.Sprintf(use, `{"command":["cat","`+amount+`"]}`) +
			`],"stop_reason":"pause_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":4}}`
	default:
		body = frame("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"n","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}`) +
			frame("content_block_start", `,"index":0,"content_block":{"type":"text","text":"I look."}`) + frame("content_block_stop", `,"index":0`) +
			frame("content_block_start", `,"index":1,"content_block":`+fmt.Sprintf(use, "{}")) +
			frame("content_block_delta", `,"index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\":[\"cat\","}`) +
			frame("content_block_delta", `,"index":1,"delta":{"type":"input_json_delta","partial_json":"\"`+amount+`\"]}"}`) + frame("content_block_stop", `,"index":1`) +
			frame("message_delta", `,"delta":{"stop_reason":"pause_turn","stop_sequence":null},"usage":{"output_tokens":4}`) + frame("message_stop", "")
	}
	kind := "content-type: application/json"
	if stream {
		kind = "content-type: text/event-stream"
	}
	return fake.Behaviour{Raw: &fake.Raw{Status: http.StatusOK, Header: []string{kind}, Body: body}}
}

// TestF03ACallOfAProvidersOwnToolIsJudged: in the provider's format and in another, streamed or not; one that is allowed passes as it is.
func TestF03ACallOfAProvidersOwnToolIsJudged(t *testing.T) {
	t.Parallel()
	for decision, want := range map[string]string{"removed": "args.command[0] != 'cat'", "allowed": "args.command[0] == 'cat'"} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			g, at := guarded(t, fmt.Sprintf(`
telemetry: {log_level: debug}
pipeline:
  firewall: {rules: [{id: no-cat, tools: [local_shell], condition: %q}]}
`, want))
			for _, a := range guardedAsks() {
				provider := map[string]chat.Dialect{"m": chat.Responses, "n": chat.Anthropic}[a.model]
				if a.model == "m" && a.dialect != chat.Responses { // the provider is called in the format of the client, or in the Chat format
					continue
				}
				at[a.model].Behave(ownToolAnswer(provider, a.stream))
				got := g.Do(t, a.call(""))
				h := parseAnswer(t, a, got)
				same := a.dialect == provider
				if got.Status != http.StatusOK || !strings.HasPrefix(h.text, "I look.") || strings.Contains(got.Body, amount) != (same && decision == "allowed") {
					t.Errorf("%s: %d %+v\n%s", a, got.Status, h, got.Body)
				}
				if said := strings.Contains(h.text, `removed a call of the tool "local_shell"`); said != (decision == "removed") || same && decision == "removed" && h.reason != chat.StopEnd {
					t.Errorf("%s: %+v", a, h)
				}
				tag := policy.Tag{By: "firewall", Stage: policy.StageCall, Tool: "other", Decision: decision}
				if decision == "removed" {
					tag.Rule, tag.Reason = "no-cat", "condition"
				}
				if tags := decisionsOf(t, g, got); !slices.Equal(tags, []policy.Tag{tag}) {
					t.Errorf("%s: the record has %+v", a, tags)
				}
			}
			if strings.Contains(g.Log(), amount) {
				t.Error("the log has arguments")
			}
		})
	}
}
