package transcript_test

import (
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/jsonx"
)

// toolCases are requests with the tools f and g, a call of f with the argument q, its result, and a provider's own tool in formats that
// have them.
var toolCases = map[string]struct {
	dialect wire.Dialect
	body    string
	none    string // without tools
}{
	"openai": {
		openai.Dialect{},
		`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"q\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}],"tools":[{"type":"function","function":{"name":"f"}}, {"type":"function","function":{"name":"g"}}]}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}]}`,
	},
	"anthropic": {
		anthropic.Dialect{},
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"q":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object"}}]}`,
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}]}`,
	},
	"responses": {
		responses.Dialect{},
		`{"model":"m","input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"c","name":"f","arguments":"{\"q\":1}"},{"type":"function_call_output","call_id":"c","output":"r"}],"tools":[{"type":"function","name":"f","parameters":{}},{"type":"function","name":"g","parameters":{}}]}`,
		`{"model":"m","input":"a"}`,
	},
	"gemini": {
		gemini.Dialect{}.ForPath("/v1beta/models/m:generateContent", ""),
		`{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{"q":1}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"r":1}}}]}],"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"},{"name":"g"}]}]}`,
		`{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"googleSearch":{}}]}`,
	},
}

var wrapper = chat.Tool{Name: "run", Description: "runs", Schema: jsonx.Raw(`{"type":"object"}`)}

func parsed(t *testing.T, d wire.Dialect, body string) (*transcript.Transcript, *chat.Request) {
	t.Helper()
	r, err := d.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := transcript.Of(r)
	if err != nil {
		t.Fatal(err)
	}
	return tr, r
}

func offered(t *testing.T, r *chat.Request) (names []string) {
	t.Helper()
	c, err := r.Conversation()
	if err != nil {
		t.Fatalf("%v: %s", err, r.Doc.Bytes)
	}
	for i := range c.Tools {
		names = append(names, c.Tools[i].Name)
	}
	return names
}

// TestToolsAreReplacedAndTheirCallsWrapped, in every format.
func TestToolsAreReplacedAndTheirCallsWrapped(t *testing.T) {
	for name, row := range toolCases {
		tr, _ := parsed(t, row.dialect, row.body)
		if !tr.ReplaceTools(func(i int) bool { return tr.Tools[i].Name != "f" }, wrapper) {
			t.Fatalf("%s: no list of tools", name)
		}
		tr.WrapCalls("run", func(tool string) bool { return tool == "f" })
		out, err := tr.Request()
		if err != nil {
			t.Fatal(err)
		}
		names := slices.DeleteFunc(offered(t, out), func(s string) bool { return s == "" })
		if !slices.Equal(names, []string{"run", "g"}) {
			t.Errorf("%s: the tools are %v in %s", name, names, out.Doc.Bytes)
		}
		c, _ := out.Conversation()
		var calls, results []chat.Part
		for i := range c.Messages {
			for _, p := range c.Messages[i].Parts {
				switch p.Kind { //nolint:exhaustive // other kinds are not checked
				case chat.PartToolUse:
					calls = append(calls, p)
				case chat.PartToolResult:
					results = append(results, p)
				}
			}
		}
		if len(calls) != 1 || calls[0].Tool.Name != "run" || strings.ReplaceAll(calls[0].Tool.Args, " ", "") != `{"name":"f","arguments":{"q":1}}` || len(results) != 1 || results[0].Tool.ID != calls[0].Tool.ID {
			t.Errorf("%s: %+v and %+v in %s", name, calls, results, out.Doc.Bytes)
		}
		if err := wire.CheckCalls(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "gemini" && (!strings.Contains(string(out.Doc.Bytes), "googleSearch") || !strings.Contains(string(out.Doc.Bytes), `"functionResponse":{"name":"run"`)) {
			t.Errorf("gemini: %s", out.Doc.Bytes)
		}
	}
}

// TestAToolIsAddedBehindTheOthers: the other tools keep their bytes; a request without tools gets the first one.
func TestAToolIsAddedBehindTheOthers(t *testing.T) {
	for name, row := range toolCases {
		for _, body := range []string{row.body, row.none} {
			tr, r := parsed(t, row.dialect, body)
			was := offered(t, r)
			tr.AddTool(&wrapper)
			out, err := tr.Request()
			if err != nil {
				t.Fatal(err)
			}
			if got := offered(t, out); !slices.Equal(got, append(slices.Clone(was), "run")) {
				t.Errorf("%s: %v became %v in %s", name, was, got, out.Doc.Bytes)
			}
			if body == row.body && !strings.Contains(string(out.Doc.Bytes), body[strings.Index(body, `"tools":`):len(body)-len(`]}]}`)]) {
				t.Errorf("%s: the others changed: %s", name, out.Doc.Bytes)
			}
		}
	}
}

func TestARequestWithoutToolsHasNoneToReplace(t *testing.T) {
	tr, r := parsed(t, openai.Dialect{}, toolCases["openai"].none)
	if tr.ReplaceTools(func(int) bool { return false }, wrapper) || !tr.Is(r) {
		t.Error("something was replaced")
	}
}
