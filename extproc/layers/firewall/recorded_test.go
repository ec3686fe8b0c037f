package firewall_test

import (
	"fmt"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

// TestD61ANameOfAClientsToolIsNotRecorded: records only have names and patterns of rules, and names of tools that providers define.
func TestD61ANameOfAClientsToolIsNotRecorded(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		of    rule.Names
		tool  string // as the request offers it
		want  string
		about string
	}{
		{rule.Names{"get_*", "transfer"}, `{"name":"transfer","input_schema":{"type":"object"}}`, "transfer", "a spelled name"},
		{rule.Names{"*fer", "transfer"}, `{"name":"transfer","input_schema":{"type":"object"}}`, "transfer", "a spelled name after a pattern"},
		{rule.Names{"get_*", "*fer"}, `{"name":"transfer","input_schema":{"type":"object"}}`, "*fer", "a pattern"},
		{rule.Names{"*"}, `{"name":"transfer","input_schema":{"type":"object"}}`, "other", "a pattern that says nothing"},
		{rule.Names{"*"}, `{"name":"web_search","type":"web_search_20250305"}`, "web_search", "a provider's"},
		{rule.Names{"*"}, `{"name":"x","type":"secret_20250305"}`, "other", "a type that no provider has"},
		{rule.Names{"*"}, `{"name":"web_search_of_alice","input_schema":{"type":"object"}}`, "other", "a client's that is like a provider's"},
	} {
		for _, shadow := range []bool{false, true} {
			l := firewall.Layer{Rules: []firewall.Rule{{ID: "r", Deny: row.of, Shadow: shadow}}}
			body := fmt.Sprintf(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[%s]}`, row.tool)
			r, err := dialects[chat.Anthropic].Decode(chat.Generate, header.List{}, "", []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			x := &pipeline.Exchange{Request: r}
			if err := pipeline.New(l).Request(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			want := policy.Tag{By: "firewall", Rule: "r", Stage: policy.StageTools, Tool: row.want, Decision: "removed", Reason: "denied", Shadow: shadow}
			if len(x.Tags) != 1 || x.Tags[0] != want {
				t.Errorf("%s: %+v, want %+v", row.about, x.Tags, want)
			}
		}
	}
}
