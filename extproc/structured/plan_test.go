package structured_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/wire"
)

const (
	strictSchema = `{"type":"object","properties":{"a":{"type":"number"}},"required":["a"],"additionalProperties":false}`
	looseSchema  = `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string"}},"required":["a"]}`
	mapSchema    = `{"type":"object","additionalProperties":{"type":"number"}}`
	listSchema   = `{"type":"array","items":{"type":"number"}}`
)

type target = structured.Target

type modeCase struct {
	about  string
	schema string // "" means a built-in one
	target target
	mode   structured.Mode
	same   bool // the request stays as it is
	live   bool
	choice wire.ToolChoice
	guide  string
	tool   string
}

func TestModeOfACandidate(t *testing.T) {
	const openAI, anthropic = structured.RulesOpenAI, structured.RulesAnthropic
	for _, r := range []modeCase{
		{about: "the client's schema, enforced", schema: strictSchema, target: target{Enforces: true, Tools: true, Rules: openAI}, mode: structured.Enforced, same: true, live: true},
		{about: "the same at Anthropic", schema: strictSchema, target: target{Enforces: true, Tools: true, Rules: anthropic}, mode: structured.Enforced, same: true, live: true},
		{about: "by a hint", schema: strictSchema, target: target{Enforces: true, Tools: true, Rules: openAI, Hinted: true}, mode: structured.Enforced, live: true},
		{about: "any schema is accepted", schema: mapSchema, target: target{Enforces: true}, mode: structured.Enforced, same: true, live: true},
		{about: "made strict", schema: looseSchema, target: target{Enforces: true, Tools: true, Rules: openAI}, mode: structured.Enforced},
		{about: "K-22 beside its own tools", schema: strictSchema, target: target{Enforces: true, Tools: true, Rules: anthropic, ClientTools: true}, mode: structured.Enforced, same: true, live: true},
		{about: "K-21 beside thinking", schema: strictSchema, target: target{Enforces: true, Tools: true, Rules: anthropic, Thinking: true}, mode: structured.Enforced, same: true, live: true},
		{about: "cannot be made strict", schema: mapSchema, target: target{Enforces: true, Tools: true, Rules: openAI}, mode: structured.Tool, live: true, choice: wire.ChooseShape, tool: "respond_own"},
		{about: "not enforced", schema: strictSchema, target: target{Tools: true}, mode: structured.Tool, live: true, choice: wire.ChooseShape, tool: "respond_own"},
		{about: "a tool is preferred", schema: strictSchema, target: target{Enforces: true, Tools: true, PreferTool: true, Rules: openAI}, mode: structured.Tool, live: true, choice: wire.ChooseShape, tool: "respond_own"},
		{about: "a tool is preferred, and there is none", schema: strictSchema, target: target{Enforces: true, PreferTool: true, Rules: openAI}, mode: structured.Enforced, same: true, live: true},
		{about: "a tool is preferred, and the schema is not of an object", schema: listSchema, target: target{Enforces: true, Tools: true, PreferTool: true}, mode: structured.Enforced, same: true, live: true},
		{about: "K-21 D-23 a tool beside thinking", schema: strictSchema, target: target{Tools: true, Rules: anthropic, Thinking: true}, mode: structured.Tool, choice: wire.ChooseAuto, guide: "by calling the tool respond_own exactly once", tool: "respond_own"},
		{about: "K-22 a tool beside its own", schema: strictSchema, target: target{Tools: true, ClientTools: true}, mode: structured.Tool, choice: wire.ChooseAny, tool: "respond_own"},
		{about: "a tool beside its own, and thinking", schema: strictSchema, target: target{Tools: true, ClientTools: true, Thinking: true}, mode: structured.Tool, choice: wire.ChooseAuto, guide: "Call other tools first where you need them.", tool: "respond_own"},
		{about: "its own tools are not to be called", schema: strictSchema, target: target{Tools: true, ClientTools: true, ClientChoice: chat.ToolNone}, mode: structured.Tool, live: true, choice: wire.ChooseShape, tool: "respond_own"},
		{about: "its own tools have to be called", schema: strictSchema, target: target{Tools: true, ClientTools: true, ClientChoice: chat.ToolAny}, mode: structured.Prompted, guide: "When you do not call a tool, respond ONLY"},
		{about: "one of its own tools has to be called", schema: strictSchema, target: target{Tools: true, ClientTools: true, ClientChoice: chat.ToolNamed}, mode: structured.Prompted, guide: "When you do not call a tool, respond ONLY"},
		{about: "the name is taken", schema: strictSchema, target: target{Tools: true, ToolTaken: func(s string) bool { return s == "respond_own" || s == "respond_own_2" }}, mode: structured.Tool, live: true, choice: wire.ChooseShape, tool: "respond_own_3"},
		{about: "neither", schema: strictSchema, target: target{}, mode: structured.Prompted, guide: "Respond ONLY with valid JSON matching this structure:\n```json\n{\n  \"type\": \"object\","},
		{about: "a list, where only tools are", schema: listSchema, target: target{Tools: true}, mode: structured.Prompted, guide: "Respond ONLY"},
		{about: "a built-in schema", target: target{Enforces: true, Tools: true, Rules: openAI}, mode: structured.Enforced},
		{about: "a built-in schema by a tool", target: target{Tools: true}, mode: structured.Tool, choice: wire.ChooseShape, tool: "respond_HeartbeatDecision"},
	} {
		f := form(t, "HeartbeatDecision")
		if r.schema != "" {
			f = compiled(t, r.schema)
		}
		p := f.Plan(r.target)
		shape := wire.Shape{}
		if p.Shape != nil {
			shape = *p.Shape
		}
		tool := ""
		if shape.Tool != nil {
			tool = shape.Tool.Name
		}
		if p.Mode != r.mode || p.Streamable != r.live || (p.Shape == nil) != r.same || shape.Choice != r.choice || tool != r.tool {
			t.Errorf("%s: %s, live %t, choice %d, tool %q, %+v", r.about, p.Mode, p.Streamable, shape.Choice, tool, shape)
		}
		if !strings.Contains(shape.Guide, r.guide) || (r.guide == "") != (shape.Guide == "") {
			t.Errorf("%s: %q", r.about, shape.Guide)
		}
		if (p.NewReader() == nil) != (p.Mode != structured.Tool) {
			t.Errorf("%s: it is read by %v", r.about, p.NewReader())
		}
		if enforced := p.Mode == structured.Enforced && !r.same; enforced != (shape.Schema != nil) {
			t.Errorf("%s: it sends %s", r.about, shape.Schema)
		}
	}
}

// Providers require "type" at the top of a tool's parameters; a client's schema may have it behind a reference or in a list.
func TestToolSchemasHaveATypeAtTheTop(t *testing.T) {
	for _, r := range []struct{ schema, want string }{
		{`{"type":"object"}`, `{"type":"object"}`},
		{`{"type":["object"],"title":"x"}`, `{"type":"object","title":"x"}`},
		{
			`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/p","definitions":{"p":{"type":"object"}}}`,
			`{"type":"object","$ref":"#/definitions/p","definitions":{"p":{"type":"object"}}}`,
		},
	} {
		p := compiled(t, r.schema).Plan(structured.Target{Tools: true})
		if got := string(p.Shape.Tool.Schema); got != r.want {
			t.Errorf("%s is %s, want %s", r.schema, got, r.want)
		}
	}
}

func TestNamesAreValidForEveryProvider(t *testing.T) {
	long := strings.Repeat("ä b", 40)
	f, err := structured.Compile(long, []byte(mapSchema))
	if err != nil {
		t.Fatal(err)
	}
	name := f.Plan(structured.Target{Tools: true}).Shape.Tool.Name
	if len(name) > 64 || !strings.HasPrefix(name, "respond___b") {
		t.Errorf("%q", name)
	}
	if name := f.Plan(structured.Target{Enforces: true, Hinted: true}).Shape.Name; len(name) != 64 {
		t.Errorf("%q", name)
	}
	if f, err = structured.Compile("", []byte(mapSchema)); err != nil {
		t.Fatal(err)
	}
	if name := f.Plan(structured.Target{Tools: true}).Shape.Tool.Name; name != "respond_answer" {
		t.Errorf("%q", name)
	}
}

func TestModesHaveNames(t *testing.T) {
	for m, want := range map[structured.Mode]string{
		structured.None: "none", structured.Enforced: "enforced", structured.Tool: "tool", structured.Prompted: "prompted", 9: "none",
	} {
		if m.String() != want {
			t.Errorf("%d is %s", m, m)
		}
	}
	for d, want := range map[chat.Dialect]structured.Rules{
		chat.OpenAI: structured.RulesOpenAI, chat.Responses: structured.RulesOpenAI, chat.Completions: structured.RulesOpenAI,
		chat.Anthropic: structured.RulesAnthropic, chat.Gemini: structured.RulesAny, chat.Embeddings: structured.RulesAny, "": structured.RulesAny,
	} {
		if got := structured.RulesOf(d); got != want {
			t.Errorf("%s has rules %d", d, got)
		}
	}
}
