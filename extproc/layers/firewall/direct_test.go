package firewall

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

func condition(t *testing.T, text string) *rule.Condition {
	t.Helper()
	c, err := rule.ParseCondition(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestF03ACallOfAnMCPServersToolIsJudged by the rules that apply to its caller, by names and arguments, as a provider's call of it would be.
func TestF03ACallOfAnMCPServersToolIsJudged(t *testing.T) {
	t.Parallel()
	limited := condition(t, "args.arguments == 1.0")
	for _, row := range []struct {
		sentence string
		rule     Rule
		args     string
		schema   string
		want     string // the reason of the objection
		decision string
	}{
		{"no rule", Rule{Keys: rule.Names{"other"}, Deny: rule.Names{"*"}}, `{}`, "", "", "allowed"},
		{"the server's name of a tool does not allow it", Rule{Allow: rule.Names{"read"}}, `{}`, "", "not_allowed", "refused"},
		{"its whole name does", Rule{Allow: rule.Names{"mcp/files/re*"}}, `{}`, "", "", "allowed"},
		{"all tools of servers", Rule{Allow: rule.Names{"mcp"}}, `{}`, "", "", "allowed"},
		{"the server's name denies it", Rule{Deny: rule.Names{"read"}}, `{}`, "", "denied", "refused"},
		{"another server", Rule{Deny: rule.Names{"mcp/other/*"}}, `{}`, "", "", "allowed"},
		{"an argument with the name of a member of a provider's item", Rule{Condition: limited}, `{"arguments":1}`, "", "", "allowed"},
		{"such an argument that holds another", Rule{Condition: limited}, `{"arguments":{"arguments":1}}`, "", "condition", "refused"},
		{"a member twice", Rule{Condition: limited}, `{"arguments":1,"Arguments":2}`, "", "invalid_arguments", "refused"},
		{"no arguments", Rule{Condition: condition(t, "!has(args.x)")}, ``, "", "", "allowed"},
		{"the tool's schema", Rule{OwnSchema: true}, `{"n":"x"}`, `{"properties":{"n":{"type":"integer"}}}`, "arguments", "refused"},
		{"valid by the tool's schema", Rule{OwnSchema: true}, `{"n":5}`, `{"properties":{"n":{"type":"integer"}}}`, "", "allowed"},
		{"a tool that the server does not have", Rule{OwnSchema: true}, `{}`, "", "not_offered", "refused"},
		{"flagged", Rule{Deny: rule.Names{"read"}, OnViolation: Flag}, `{}`, "", "", "flagged"},
		{"in shadow", Rule{Deny: rule.Names{"read"}, Shadow: true}, `{}`, "", "", "refused"},
	} {
		row.rule.ID = "r"
		x := &pipeline.Exchange{Principal: policy.Principal{Account: "key_1"}, Request: &chat.Request{}}
		d := &Direct{Server: "files", Tool: "read", Known: true}
		got := (Layer{Rules: []Rule{row.rule}}).JudgeDirect(x, d, []byte(row.args), func() ([]byte, bool) { return []byte(row.schema), row.schema != "" })
		if got.Reason != row.want || (got.Rule == "r") != (row.want != "") || len(x.Tags) != 1 || x.Tags[0].Decision != row.decision || x.Tags[0].Tool != "mcp/files/read" || x.Tags[0].Shadow != row.rule.Shadow {
			t.Errorf("%s: %+v, recorded as %+v", row.sentence, got, x.Tags)
		}
	}
}

// TestF03ToolsOfMCPServersAreRemovedFromLists; a name that only the client knows is not recorded.
func TestF03ToolsOfMCPServersAreRemovedFromLists(t *testing.T) {
	t.Parallel()
	l := Layer{Rules: []Rule{{ID: "r", Deny: rule.Names{"mcp/files/del*"}}, {ID: "s", Deny: rule.Names{"read"}, Shadow: true}}}
	x := &pipeline.Exchange{Request: &chat.Request{}}
	if !l.OffersDirect(x, &Direct{Server: "files", Tool: "read", Known: true}) || l.OffersDirect(x, &Direct{Server: "files", Tool: "delete"}) {
		t.Error("the wrong tools are offered")
	}
	l.JudgeDirect(x, &Direct{Server: "files", Tool: "my secret"}, nil, nil)
	want := []policy.Tag{
		{By: Name, Rule: "s", Stage: policy.StageTools, Tool: "mcp/files/read", Decision: "removed", Reason: "denied", Shadow: true},
		{By: Name, Rule: "r", Stage: policy.StageTools, Tool: "mcp/files/del*", Decision: "removed", Reason: "denied"},
		{By: Name, Stage: policy.StageCall, Tool: "mcp/files/other", Decision: "allowed"},
	}
	if !slices.Equal(x.Tags, want) {
		t.Errorf("%+v", x.Tags)
	}
}
