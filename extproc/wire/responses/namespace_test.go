package responses

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
)

// codexTools is a request whose tools are in the input, in namespaces, as Codex sends them; the first of them twice.
const codexTools = `{"model":"m","input":[
{"type":"additional_tools","role":"developer","tools":[
 {"type":"namespace","name":"shell","description":"Runs programs.","tools":[
  {"type":"function","name":"exec","description":"Old.","parameters":{"type":"object"}},
  {"type":"custom","name":"apply_patch","description":"Patches."}]},
 {"type":"function","name":"plan","parameters":{"type":"object"}}]},
{"role":"user","content":"hi"},
{"type":"function_call","call_id":"c1","name":"exec","namespace":"shell","arguments":"{}"},
{"type":"function_call_output","call_id":"c1","output":"ok"},
{"type":"additional_tools","role":"developer","tools":[
 {"type":"namespace","name":"shell","tools":[{"type":"function","name":"exec","description":"New.","parameters":{"type":"object"}}]}]}],
"tools":[{"type":"namespace","name":"crm","tools":[{"type":"function","name":"find","parameters":{"type":"object"}}]}]}`

func decoded(t *testing.T, body string) (*chat.Request, *chat.Conversation) {
	t.Helper()
	r, err := Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	return r, c
}

// TestToolsInNamespacesAreReadForOtherFormats, by their own names, from the list and from the input; of one that is sent again, the last.
func TestToolsInNamespacesAreReadForOtherFormats(t *testing.T) {
	_, c := decoded(t, codexTools)
	var got []string
	for i := range c.Tools {
		got = append(got, c.Tools[i].Name+": "+c.Tools[i].Description)
	}
	slices.Sort(got)
	if want := []string{"apply_patch: Runs programs.\n\nPatches.", "exec: New.", "find: ", "plan: "}; !slices.Equal(got, want) {
		t.Errorf("tools %q, want %q", got, want)
	}
	if len(c.Messages) != 3 || c.Messages[1].Parts[0].Tool.Name != "exec" || len(c.Unmapped) > 0 {
		t.Errorf("messages %+v, unmapped %q", c.Messages, c.Unmapped)
	}
}

// TestACallOfAToolInANamespaceNamesIt, in a stream and in a whole answer, of a provider of another format or of this one, if layers may change the answer.
func TestACallOfAToolInANamespaceNamesIt(t *testing.T) {
	r, _ := decoded(t, codexTools)
	for i := range 4 {
		stream, same := i&1 != 0, i&2 != 0
		enc := Dialect{}.NewEncoder(wire.Options{Stream: stream, Same: same, MayChange: same, Model: "m", RequestID: "r", Request: r})
		var out []byte
		for _, ev := range []chat.Event{
			{Kind: chat.Start, ID: "x", Model: "m"},
			{Kind: chat.ToolStart, Tool: chat.ToolCall{ID: "c1", Name: "exec"}},
			{Kind: chat.ToolArgs, Text: []byte(`{"a":1}`)},
			{Kind: chat.BlockStop},
			{Kind: chat.ToolStart, Index: 1, Tool: chat.ToolCall{ID: "c2", Name: "apply_patch"}},
			{Kind: chat.ToolArgs, Index: 1, Text: []byte(`{"input":"p"}`)},
			{Kind: chat.BlockStop, Index: 1},
			{Kind: chat.ToolStart, Index: 2, Tool: chat.ToolCall{ID: "c3", Name: "plan"}},
			{Kind: chat.ToolArgs, Index: 2, Text: []byte(`{}`)},
			{Kind: chat.BlockStop, Index: 2},
			{Kind: chat.Stop, Reason: chat.StopTool},
			{Kind: chat.End},
		} {
			out = enc.Append(out, &ev)
		}
		for _, want := range []string{
			`"type":"function_call","call_id":"c1","name":"exec","namespace":"shell","arguments":"{\"a\":1}"`,
			`"type":"custom_tool_call","call_id":"c2","name":"apply_patch","namespace":"shell","input":"p"`,
			`"type":"function_call","call_id":"c3","name":"plan","arguments":"{}"`,
		} {
			if !strings.Contains(string(out), want) {
				t.Errorf("stream %v, same %v: %s is not in\n%s", stream, same, want, out)
			}
		}
	}
}

// TestToolsOfOneNameInTwoNamespacesAreRefused by name at providers of other formats, and pass at those of this one.
func TestToolsOfOneNameInTwoNamespacesAreRefused(t *testing.T) {
	two := `{"type":"namespace","name":"a","tools":[{"type":"function","name":"find"}]},{"type":"namespace","name":"b","tools":[{"type":"function","name":"find"}]}`
	_, c := decoded(t, `{"model":"m","input":[{"type":"additional_tools","tools":[`+two+`]},{"role":"user","content":"hi"}]}`)
	part := c.Messages[0].Parts[0]
	if part.Kind != chat.PartOther || part.Name != additionalTools || part.Trace || part.At != "input[0]" {
		t.Errorf("%+v", part)
	}
	_, c = decoded(t, `{"model":"m","input":"hi","tools":[`+two+`]}`)
	if part = c.System[0]; len(c.Tools) > 0 || part.Kind != chat.PartOther || part.Name != namespaceType || part.At != "tools[0]" {
		t.Errorf("%+v, %+v", c.Tools, part)
	}
}

func TestMistakesInNamespacesAreNamed(t *testing.T) {
	for body, param := range map[string]string{
		`"input":"x","tools":[{"type":"namespace","tools":[]}]`:                                                       "tools[0].name",
		`"input":"x","tools":[{"type":"namespace","name":"n"}]`:                                                       "tools[0].tools",
		`"input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"function"}]}]`:                         "tools[0].tools[0].name",
		`"input":[{"type":"additional_tools"}]`:                                                                       "input[0].tools",
		`"input":[{"type":"additional_tools","tools":[{"type":"namespace","name":"n","tools":[{"type":"custom"}]}]}]`: "input[0].tools[0].tools[0].name",
	} {
		r, err := Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m",`+body+`}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Conversation()
		if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.InvalidRequest || f.Param != param {
			t.Errorf("%s: %v, want a fault about %s", body, err, param)
		}
	}
}
