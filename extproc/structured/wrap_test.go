package structured_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// TestASchemaOfANonObjectIsWrapped: for OpenAI, with adjusted references; the answer is unwrapped.
func TestASchemaOfANonObjectIsWrapped(t *testing.T) {
	for _, r := range []struct{ about, schema, sent, answer, want string }{
		{
			about: "a list", schema: listSchema, answer: `{"value":[1,2.50]}`, want: `[1,2.50]`,
			sent: `{"type":"object","properties":{"value":{"type":"array","items":{"type":"number"}}},"required":["value"],"additionalProperties":false}`,
		},
		{
			about: "a word", schema: `{"type":"string","enum":["a","b"]}`, answer: ` {"value": "b"} `, want: `"b"`,
			sent: `{"type":"object","properties":{"value":{"type":"string","enum":["a","b"]}},"required":["value"],"additionalProperties":false}`,
		},
		{
			about: "definitions stay at the top", answer: `{"value":["x"]}`, want: `["x"]`,
			schema: `{"$ref":"#/$defs/l","$defs":{"l":{"type":"array","items":{"$ref":"#/$defs/w"}},"w":{"type":"string"}}}`,
			sent:   `{"type":"object","properties":{"value":{"$ref":"#/$defs/l"}},"required":["value"],"additionalProperties":false,"$defs":{"l":{"type":"array","items":{"$ref":"#/$defs/w"}},"w":{"type":"string"}}}`,
		},
		{
			about: "what is referred to elsewhere", answer: `{"value":[{"default":1,"$ref":1}]}`, want: `[{"default":1,"$ref":1}]`,
			schema: `{"type":"array","items":{"type":"object","properties":{"default":{"type":"number"},"$ref":{"$ref":"#/items/properties/default"}},"required":["default","$ref"],"additionalProperties":false}}`,
			sent:   `{"type":"object","properties":{"value":{"type":"array","items":{"type":"object","properties":{"default":{"type":"number"},"$ref":{"$ref":"#/properties/value/items/properties/default"}},"required":["default","$ref"],"additionalProperties":false}}},"required":["value"],"additionalProperties":false}`,
		},
		{
			about: "and made strict", schema: `{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}}`, answer: `{"value":[{"a":null},{"a":"x"}]}`, want: `[{},{"a":"x"}]`,
			sent: `{"type":"object","properties":{"value":{"type":"array","items":{"type":"object","properties":{"a":{"type":["string","null"]}},"additionalProperties":false,"required":["a"]}}},"additionalProperties":false,"required":["value"]}`,
		},
		{about: "an answer without its object", schema: listSchema, answer: "```json\n[3]\n```", want: `[3]`},
	} {
		p := compiled(t, r.schema).Plan(structured.Target{Enforces: true, Rules: structured.RulesOpenAI})
		if p.Mode != structured.Enforced || p.Shape == nil || p.Streamable || r.sent != "" && string(p.Shape.Schema) != r.sent {
			t.Errorf("%s: %s, %+v", r.about, p.Mode, p.Shape)
			continue
		}
		if !wire.Enforceable(jsonx.Value{Raw: p.Shape.Schema}, wire.ByOpenAI) {
			t.Errorf("%s: %s is refused", r.about, p.Shape.Schema)
		}
		if v := p.Check([]byte(r.answer), chat.StopEnd); !v.Valid() || string(v.JSON) != r.want {
			t.Errorf("%s: %s, %v", r.about, v.JSON, v.Issues)
		}
		if v := p.Check([]byte(`{"value":{}}`), chat.StopEnd); v.Valid() {
			t.Errorf("%s: an object is no answer: %s", r.about, v.JSON)
		}
	}
}

// TestD86ModesOfUnknownAndLooseCandidates: models with unknown support for schemas, JSON mode, and schemas that are not strict.
func TestD86ModesOfUnknownAndLooseCandidates(t *testing.T) {
	type target = structured.Target
	const openAI, anthropic = structured.RulesOpenAI, structured.RulesAnthropic
	for _, r := range []struct {
		about          string
		schema         string // "": JSON mode
		target         target
		mode           structured.Mode
		same, trial    bool
		strict, loose  bool
		guide, schemas string
	}{
		{about: "unknown, in the client's format", schema: looseSchema, target: target{SupportUnknown: true, SameDialect: true, Rules: openAI}, mode: structured.Enforced, same: true, trial: true},
		{about: "unknown, and a list", schema: listSchema, target: target{SupportUnknown: true, SameDialect: true, Rules: openAI}, mode: structured.Enforced, same: true, trial: true},
		{about: "unknown, in another format", schema: strictSchema, target: target{SupportUnknown: true, Rules: anthropic}, mode: structured.Enforced, same: true, trial: true},
		{about: "unknown, and it has to be made strict", schema: looseSchema, target: target{SupportUnknown: true, Rules: openAI}, mode: structured.Enforced, trial: true, strict: true, schemas: `"null"`},
		{about: "JSON mode", target: target{Enforces: true, Tools: true, Rules: openAI}, mode: structured.Enforced, same: true, trial: true},
		{about: "JSON mode where there is none: no tool without parameters", target: target{Tools: true, Rules: anthropic}, mode: structured.Prompted, guide: "Respond ONLY with a valid JSON object."},
		{about: "JSON mode beside tools", target: target{Tools: true, ClientTools: true, Rules: anthropic}, mode: structured.Prompted, guide: "When you do not call a tool, respond ONLY with a valid JSON object."},
		{about: "loose at OpenAI", schema: looseSchema, target: target{Enforces: true, NotStrict: true, Rules: openAI}, mode: structured.Enforced, same: true},
		{about: "a loose map at OpenAI", schema: mapSchema, target: target{Enforces: true, NotStrict: true, Rules: openAI}, mode: structured.Enforced, same: true},
		{about: "a loose list at OpenAI", schema: listSchema, target: target{Enforces: true, NotStrict: true, Rules: openAI}, mode: structured.Enforced, loose: true, schemas: `{"value":`},
		{about: "loose at Anthropic, as it is", schema: strictSchema, target: target{Enforces: true, NotStrict: true, Rules: anthropic}, mode: structured.Enforced, same: true},
		{about: "loose at Anthropic, and not to be made strict", schema: looseSchema, target: target{Enforces: true, Tools: true, NotStrict: true, Rules: anthropic}, mode: structured.Tool},
		{about: "loose where only strict ones are taken", schema: looseSchema, target: target{Enforces: true, NotStrict: true, StrictOnly: true, Rules: openAI}, mode: structured.Enforced, strict: true, schemas: `"null"`},
	} {
		f := structured.AnyObject()
		if r.schema != "" {
			f = compiled(t, r.schema)
		}
		p := f.Plan(r.target)
		shape := wire.Shape{}
		if p.Shape != nil {
			shape = *p.Shape
		}
		if p.Mode != r.mode || (p.Shape == nil) != r.same || p.Trial != r.trial || p.MadeStrict != r.strict || shape.Loose != r.loose ||
			!strings.Contains(shape.Guide, r.guide) || p.HasGuide() != (r.guide != "") || !strings.Contains(string(shape.Schema), r.schemas) {
			t.Errorf("%s: %s, trial %t, made strict %t, %+v", r.about, p.Mode, p.Trial, p.MadeStrict, shape)
		}
	}
	p := structured.AnyObject().Plan(target{Enforces: true})
	again := p.WithGuide(target{})
	if again == nil || !again.Shape.KeepFormat || !again.HasGuide() || p.HasGuide() || again.WithGuide(target{}) != nil {
		t.Errorf("with words: %+v", again)
	}
	for answer, want := range map[string]bool{`{}`: true, "\n{\"a\": 1}\n": true, `[]`: false, `"a"`: false, `no`: false} {
		if v := p.Check([]byte(answer), chat.StopEnd); v.Valid() != want {
			t.Errorf("JSON mode: %q is valid: %t", answer, v.Valid())
		}
	}
}

// TestEnumTextHasNoQuotes: an enum value that the client wants as plain text is returned without quotes.
func TestEnumTextHasNoQuotes(t *testing.T) {
	f := compiled(t, `{"type":"string","enum":["left","17","a \"b\""]}`)
	for _, target := range []structured.Target{
		{EnumText: true}, {EnumText: true, SameDialect: true, Enforces: true}, {EnumText: true, Enforces: true, Rules: structured.RulesOpenAI}, {EnumText: true, Enforces: true, Rules: structured.RulesAnthropic},
	} {
		p := f.Plan(target)
		if p.Streamable != target.SameDialect {
			t.Errorf("%+v: live %t", target, p.Streamable)
		}
		for answer, want := range map[string]string{
			"left": "left", "left\n": "left", `"left"`: "left", `{"value":"left"}`: "left", "17": "17", `a "b"`: `a "b"`, `"a \"b\""`: `a "b"`, "```json\n\"left\"\n```": "left",
			"up": "", `"up"`: "", "": "", `{"value":"up"}`: "", "left or right": "",
		} {
			v := p.Check([]byte(answer), chat.StopEnd)
			wrapped := strings.Contains(answer, "value")
			if wrapped && (target.Rules != structured.RulesOpenAI) {
				continue // nobody asked for that
			}
			if v.Valid() != (want != "") || v.Valid() && string(v.JSON) != want {
				t.Errorf("%+v: %q is %q, %v", target, answer, v.JSON, v.Issues)
			}
		}
		if v := p.Check([]byte("left"), chat.StopLength); v.Valid() {
			t.Errorf("%+v: a word that was cut off is %q", target, v.JSON)
		}
	}
}
