package firewall_test

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/firewall"
)

// What Groq's compound models answer: text, the tools that they have run, and text again.
const (
	executedCall   = `{"index":0,"type":"search","arguments":"{\"query\": \"SECRET\"}"}`
	executedResult = `{"index":0,"type":"search","output":"RESULT","search_results":{"results":[{"title":"RESULT","url":"https://x.example"}]}}`
	executedBoth   = `{"index":0,"type":"search","arguments":"{\"query\": \"SECRET\"}","output":"RESULT","search_results":{"results":[{"title":"RESULT"}]}}`
)

func executed(streamed bool) string {
	const usage = `"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`
	if !streamed {
		return `{"id":"c1","object":"chat.completion","created":1,"model":"groq/compound","choices":[{"index":0,"message":{"role":"assistant","content":"I look. Found.","executed_tools":[` +
			executedBoth + `]},"finish_reason":"stop"}],` + usage + `}`
	}
	var b strings.Builder
	for _, delta := range []string{
		`{"role":"assistant","content":"I look."}`, `{"executed_tools":[` + executedCall + `]}`, `{"executed_tools":[` + executedResult + `]}`, `{"content":" Found."}`,
	} {
		fmt.Fprintf(&b, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"groq/compound","choices":[{"index":0,"delta":%s,"finish_reason":null}]}`+"\n\n", delta)
	}
	b.WriteString(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"groq/compound","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n")
	b.WriteString(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"groq/compound","choices":[],` + usage + "}\n\ndata: [DONE]\n\n")
	return b.String()
}

// TestF03ToolsThatGroqHasRunAreJudged: by their type and their arguments, streamed or not; what came of one is removed with it.
func TestF03ToolsThatGroqHasRunAreJudged(t *testing.T) {
	t.Parallel()
	o := own{from: chat.OpenAI, offer: `{"type":"function","function":{"name":"other","parameters":{"type":"object"}}}`}
	for about, row := range map[string]struct {
		rule    firewall.Rule
		removed bool
	}{
		"denied":             {firewall.Rule{ID: "r", Deny: names("search")}, true},
		"another one denied": {firewall.Rule{ID: "r", Deny: names("python")}, false},
		"not allowed":        {firewall.Rule{ID: "r", Allow: names("get_price")}, true},
		"allowed":            {firewall.Rule{ID: "r", Allow: names("search")}, false},
		"by its arguments":   {firewall.Rule{ID: "r", Tools: names("search"), Condition: condition(t, "args.query != 'SECRET'")}, true},
		"arguments that fit": {firewall.Rule{ID: "r", Tools: names("search"), Condition: condition(t, "args.query == 'SECRET' && tool == 'search'")}, false},
		"a rule for others":  {firewall.Rule{ID: "r", Tools: names("python"), Condition: condition(t, "false")}, false},
	} {
		for _, streamed := range []bool{true, false} {
			body := executed(streamed)
			got, err := judged(t, o.exchange(t, chat.OpenAI, streamed, row.rule), chat.OpenAI, streamed, body, len(body)/3, len(body)/2)
			if err != nil {
				t.Fatal(err)
			}
			switch gone := !strings.Contains(got, "SECRET") && !strings.Contains(got, "RESULT"); {
			case !row.removed && got != body:
				t.Errorf("%s, streamed %v: the answer is changed: %s\nwant %s", about, streamed, got, body)
			case row.removed && (!gone || strings.Count(got, `removed a call of the tool \"search`) != 1 || !strings.Contains(got, "I look.") || !strings.Contains(got, "Found.")):
				t.Errorf("%s, streamed %v: the client gets %s", about, streamed, got)
			}
		}
	}
	for _, to := range all {
		x := o.exchange(t, to, true, firewall.Rule{ID: "r", Deny: names("search")})
		if got, err := judged(t, x, chat.OpenAI, true, executed(true)); err != nil || strings.Contains(got, "SECRET") || strings.Contains(got, "RESULT") || !strings.Contains(got, "removed a call of the tool") {
			t.Errorf("for %s: %v, %s", to, err, got)
		}
	}
}
