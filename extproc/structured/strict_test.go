package structured_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// strictly returns the schema that is sent to a provider with rules, "" if it is not enforced.
func strictly(f *structured.Schema, r structured.Rules) string {
	p := f.Plan(structured.Target{Enforces: true, Rules: r})
	switch {
	case p.Mode != structured.Enforced:
		return ""
	case p.Shape == nil:
		return string(f.JSON())
	}
	return string(p.Shape.Schema)
}

func TestSchemasAreMadeStrict(t *testing.T) {
	const openAI, anthropic = structured.RulesOpenAI, structured.RulesAnthropic
	for _, r := range []struct{ about, schema, openAI, anthropic string }{
		{
			about: "optional members may be null", schema: looseSchema,
			openAI:    `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":["string","null"]}},"additionalProperties":false,"required":["a","b"]}`,
			anthropic: `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string"}},"additionalProperties":false,"required":["a"]}`,
		},
		{
			about:     "limits become words",
			schema:    `{"type":"object","properties":{"a":{"type":"number","minimum":0,"maximum":1.50,"description":"How much."},"b":{"type":"array","minItems":3,"uniqueItems":true,"items":{"type":"string","maxLength":9,"format":"phone","default":"x"}}},"required":["a","b"],"not":{},"$comment":"x"}`,
			openAI:    `{"type":"object","properties":{"a":{"type":"number","description":"How much. (minimum 0, maximum 1.50)"},"b":{"type":"array","items":{"type":"string","description":"(maxLength 9, format \"phone\")"},"description":"(minItems 3, uniqueItems true)"}},"additionalProperties":false,"required":["a","b"]}`,
			anthropic: `{"type":"object","properties":{"a":{"type":"number","description":"How much. (minimum 0, maximum 1.50)"},"b":{"type":"array","items":{"type":"string","description":"(maxLength 9, format \"phone\")"},"description":"(minItems 3, uniqueItems true)"}},"additionalProperties":false,"required":["a","b"]}`,
		},
		{
			about:     "an optional object, enum, constant, reference",
			schema:    `{"$defs":{"p":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}},"type":"object","properties":{"o":{"$ref":"#/$defs/p"},"e":{"enum":["a","b"]},"c":{"const":1},"n":{"type":["string","null"]}}}`,
			openAI:    `{"$defs":{"p":{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":false,"required":["x"]}},"type":"object","properties":{"o":{"anyOf":[{"$ref":"#/$defs/p"},{"type":"null"}]},"e":{"anyOf":[{"enum":["a","b"]},{"type":"null"}]},"c":{"anyOf":[{"const":1},{"type":"null"}]},"n":{"type":["string","null"]}},"additionalProperties":false,"required":["o","e","c","n"]}`,
			anthropic: `{"$defs":{"p":{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":false,"required":["x"]}},"type":"object","properties":{"o":{"$ref":"#/$defs/p"},"e":{"enum":["a","b"]},"c":{"const":1},"n":{"type":["string","null"]}},"additionalProperties":false}`,
		},
		{
			about:     "one of several, and all of one",
			schema:    `{"$defs":{"p":{"type":"string"}},"type":"object","properties":{"x":{"oneOf":[{"type":"string"},{"type":"number"}]},"y":{"allOf":[{"$ref":"#/$defs/p"}],"description":"d"}},"required":["x","y"]}`,
			openAI:    `{"$defs":{"p":{"type":"string"}},"type":"object","properties":{"x":{"anyOf":[{"type":"string"},{"type":"number"}]},"y":{"$ref":"#/$defs/p"}},"additionalProperties":false,"required":["x","y"]}`,
			anthropic: `{"$defs":{"p":{"type":"string"}},"type":"object","properties":{"x":{"anyOf":[{"type":"string"},{"type":"number"}]},"y":{"$ref":"#/$defs/p"}},"additionalProperties":false,"required":["x","y"]}`,
		},
		{
			about:  "what refers to itself, OpenAI takes",
			schema: `{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}},"required":["next"],"$defs":{"n":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["next"]}}}`,
			openAI: `{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"additionalProperties":false,"required":["next"]}},"additionalProperties":false,"required":["next"]}`,
		},
		{
			about: "a pattern that looks ahead", schema: `{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=x)"}},"required":["a"]}`,
			openAI:    `{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=x)"}},"additionalProperties":false,"required":["a"]}`,
			anthropic: `{"type":"object","properties":{"a":{"type":"string","description":"(pattern \"^(?=x)\")"}},"additionalProperties":false,"required":["a"]}`,
		},
		{about: "a map", schema: mapSchema},
		{about: "a map inside", schema: `{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"string"}}}}`},
		{about: "an object of anything", schema: `{"type":"object","properties":{"m":{"type":"object"}}}`},
		{about: "anything", schema: `{"type":"object","properties":{"m":{}}}`},
		{about: "a list of anything", schema: `{"type":"object","properties":{"m":{"type":"array"}}}`},
		{about: "names by pattern", schema: `{"type":"object","properties":{"a":{"type":"string"}},"patternProperties":{"^x":{"type":"string"}}}`},
		{about: "a tuple", schema: `{"type":"object","properties":{"m":{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"number"}}}}`},
		{about: "all of several", schema: `{"type":"object","properties":{"m":{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{"b":{"type":"string"}}}]}}}`},
		{
			about: "a list at the top", schema: `{"type":"array","minItems":2,"items":{"type":"number"}}`,
			openAI:    `{"type":"object","properties":{"value":{"type":"array","items":{"type":"number"},"description":"(minItems 2)"}},"additionalProperties":false,"required":["value"]}`,
			anthropic: `{"type":"array","items":{"type":"number"},"description":"(minItems 2)"}`,
		},
	} {
		f := compiled(t, r.schema)
		if got := strictly(f, openAI); got != r.openAI {
			t.Errorf("%s, for OpenAI:\n%s\n%s", r.about, got, r.openAI)
		}
		if got := strictly(f, anthropic); got != r.anthropic {
			t.Errorf("%s, for Anthropic:\n%s\n%s", r.about, got, r.anthropic)
		}
	}
}

func TestProvidersLimitsOfSchemas(t *testing.T) {
	members := func(n int, kind, required string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(either(i > 0, ",", "") + `"m` + string(rune('a'+i/26)) + string(rune('a'+i%26)) + `":{"type":` + kind + `}`)
		}
		return `{"type":"object","properties":{` + b.String() + `},"required":[` + required + `]}`
	}
	deep := strings.Repeat(`{"type":"object","required":["a"],"properties":{"a":`, 11) + `{"type":"string"}` + strings.Repeat(`}}`, 11)
	for _, r := range []struct {
		about, schema     string
		openAI, anthropic bool
	}{
		{"24 optional members", members(24, `"string"`, ""), true, true},
		{"25 optional members", members(25, `"string"`, ""), true, false},
		{"16 of several types", members(16, `["string","null"]`, ""), true, true},
		{"17 of several types", members(17, `["string","null"]`, ""), true, false},
		{"eleven levels", deep, false, true},
		{"1001 words", `{"type":"object","properties":{"a":{"enum":[` + strings.Repeat("1,", 1000) + `2]}}}`, false, true},
	} {
		f := compiled(t, r.schema)
		if got := strictly(f, structured.RulesOpenAI) != ""; got != r.openAI {
			t.Errorf("%s: OpenAI %t", r.about, got)
		}
		if got := strictly(f, structured.RulesAnthropic) != ""; got != r.anthropic {
			t.Errorf("%s: Anthropic %t", r.about, got)
		}
	}
}

func TestBuiltinSchemasAreEnforcedEverywhere(t *testing.T) {
	for i := range samples {
		f := form(t, samples[i].form)
		for _, r := range []structured.Rules{structured.RulesOpenAI, structured.RulesAnthropic} {
			by := either(r == structured.RulesOpenAI, wire.ByOpenAI, wire.ByAnthropic)
			if s := strictly(f, r); s == "" || !wire.Enforceable(jsonx.Value{Raw: jsonx.Raw(s)}, by) {
				t.Errorf("%s is not enforced: %s", samples[i].form, s)
			}
		}
	}
}

func TestNullsOfAbsentMembersAreDropped(t *testing.T) {
	const nested = `{"$defs":{"q":{"type":"object","properties":{"z":{"type":"string"}}}},"type":"object","properties":{"p":{"type":"array","items":{"$ref":"#/$defs/q"}},"u":{"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"string"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"},"y":{"type":"string"}},"required":["k"]},{"type":"null"}]},"n":{"type":["number","null"]}}}`
	for _, r := range []struct{ schema, answer, want string }{
		{looseSchema, `{"a":1.0,"b":null}`, `{"a":1.0}`},
		{looseSchema, `{ "a": 1.0, "b": "x" }`, `{ "a": 1.0, "b": "x" }`},
		{looseSchema, `{ "a": 1.0 }`, `{ "a": 1.0 }`},
		{nested, `{"p":[{"z":null},{"z":"é\n"}],"u":{"k":"b","y":null},"n":null}`, `{"p":[{},{"z":"é\n"}],"u":{"k":"b"},"n":null}`},
		{nested, `{"p":null,"u":null,"n":1e2}`, `{"u":null,"n":1e2}`},
		{nested, `{"n":null}`, `{"n":null}`},
	} {
		p := compiled(t, r.schema).Plan(structured.Target{Enforces: true, Rules: structured.RulesOpenAI})
		if p.Mode != structured.Enforced {
			t.Fatalf("%s is not enforced", r.schema)
		}
		if v := p.Check([]byte(r.answer), chat.StopEnd); !v.Valid() || string(v.JSON) != r.want {
			t.Errorf("%s became %s, %q", r.answer, v.JSON, v.Issues)
		}
	}
	v := compiled(t, looseSchema).Plan(structured.Target{}).Check([]byte(`{"a":1,"b":null}`), chat.StopEnd)
	if v.Valid() {
		t.Error("a null that nobody asked for is taken")
	}
}

// maker derives a schema of optional and required members, and an answer that follows it, from bytes.
type maker struct {
	in []byte
}

func (m *maker) next(n int) int {
	if len(m.in) == 0 {
		return 0
	}
	c := m.in[0]
	m.in = m.in[1:]
	return int(c) % n
}

// object returns a schema, an answer that follows it, and the answer of a provider that requires every member.
func (m *maker) object(depth int) (schema, answer, full string) {
	var properties, required, members, all []string
	for i := range 1 + m.next(3) {
		name := string(rune('a' + i))
		s, a, f := m.value(depth)
		optional, there := m.next(2) == 1, m.next(2) == 1
		properties = append(properties, `"`+name+`":`+s)
		switch {
		case !optional:
			required = append(required, `"`+name+`"`)
			fallthrough
		case there:
			members = append(members, `"`+name+`":`+a)
			all = append(all, `"`+name+`":`+f)
		default:
			all = append(all, `"`+name+`":null`)
		}
	}
	join := func(list []string) string { return strings.Join(list, ",") }
	schema = `{"type":"object","properties":{` + join(properties) + `},"required":[` + join(required) + `]}`
	return schema, "{" + join(members) + "}", "{" + join(all) + "}"
}

func (m *maker) value(depth int) (schema, answer, full string) {
	kinds := either(depth < 3, 8, 5)
	switch m.next(kinds) {
	case 0:
		return `{"type":"string"}`, `"x\u0041"`, `"x\u0041"`
	case 1:
		return `{"type":"number","minimum":0}`, `1.50e1`, `1.50e1`
	case 2:
		return `{"type":"boolean"}`, `true`, `true`
	case 3:
		return `{"enum":["a",2]}`, `2`, `2`
	case 4:
		return `{"const":"k"}`, `"k"`, `"k"`
	case 5:
		s, a, f := m.object(depth + 1)
		return `{"type":"array","items":` + s + `}`, `[` + a + `]`, `[` + f + `]`
	case 6:
		s, a, f := m.object(depth + 1)
		return `{"oneOf":[{"type":"string"},` + s + `]}`, a, f
	}
	return m.object(depth + 1)
}

func FuzzStrictAndUndoneIsTheAnswer(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{2, 5, 1, 1, 1, 0, 6, 2, 1, 1, 1, 0, 1, 1, 7})
	f.Add(slices.Repeat([]byte{7, 1, 0, 2, 6, 5, 3}, 9))
	f.Fuzz(func(t *testing.T, in []byte) {
		m := maker{in: in[:min(len(in), 200)]}
		schema, answer, full := m.object(0)
		own := compiled(t, schema)
		p := own.Plan(structured.Target{Enforces: true, Rules: structured.RulesOpenAI})
		if p.Mode != structured.Enforced { // it is too large, and nothing is undone
			if v := p.Check([]byte(answer), chat.StopEnd); !v.Valid() || string(v.JSON) != answer {
				t.Fatalf("%s, asked in another way, became %s: %q", answer, v.JSON, v.Issues)
			}
			return
		}
		if p.Shape != nil {
			sent := compiled(t, string(p.Shape.Schema))
			if v := sent.Plan(structured.Target{}).Check([]byte(full), chat.StopEnd); !v.Valid() {
				t.Fatalf("%s made %s, which does not allow %s: %q", schema, p.Shape.Schema, full, v.Issues)
			}
		}
		for _, text := range []string{answer, full} {
			if v := p.Check([]byte(text), chat.StopEnd); !v.Valid() || string(v.JSON) != answer {
				t.Fatalf("%s by %s became %s, and not %s: %q", text, schema, v.JSON, answer, v.Issues)
			}
		}
	})
}

func FuzzCheck(f *testing.F) {
	for i := range samples {
		f.Add(samples[i].valid, "Here {it} is:\n```json\n", "\n```\nDone.", uint8(i))
	}
	f.Add(`{"a":1,}`, "", "", uint8(0))
	f.Add(`{'a':“x`, "{", "}", uint8(1))
	f.Fuzz(func(t *testing.T, json, before, after string, n uint8) {
		own, err := structured.Compile("any", []byte(`{"type":"object"}`))
		if err != nil {
			t.Fatal(err)
		}
		p := own.Plan(structured.Target{})
		for _, stop := range []chat.StopReason{chat.StopEnd, chat.StopLength} {
			// No input makes it fail, for a client's and a built-in schema.
			mustBeJSON(t, p.Check([]byte(before+json+after), stop))
			mustBeJSON(t, form(t, samples[int(n)%len(samples)].form).Plan(structured.Target{}).Check([]byte(before+json+after), stop))
		}
		if object(json) && isPlain(before) && isPlain(after) {
			if v := p.Check([]byte(before+" "+json+" "+after), chat.StopEnd); string(v.JSON) != json || v.Repaired {
				t.Fatalf("%q became %q", json, v.JSON)
			}
			fenced := before + "\n```json\n" + json + "\n```\n" + after
			if v := p.Check([]byte(fenced), chat.StopEnd); string(v.JSON) != json || v.Repaired {
				t.Fatalf("%q became %q, out of a block", json, v.JSON)
			}
		}
	})
}

func mustBeJSON(t *testing.T, v structured.Validation) {
	t.Helper()
	if v.JSON == nil && len(v.Issues) == 0 || v.JSON != nil && !json.Valid(v.JSON) {
		t.Fatalf("%q, %q", v.JSON, v.Issues)
	}
}

// object reports whether a text is one object without duplicate members.
func object(text string) bool {
	v, err := jsonx.Parse([]byte(text))
	if err != nil || v.Kind() != jsonx.Object || strings.TrimSpace(text) != text {
		return false
	}
	return !slices.ContainsFunc(checkAny(text), func(s string) bool { return s != "" })
}

func checkAny(text string) []string {
	f, err := structured.Compile("any", []byte(`{"type":"object"}`))
	if err != nil {
		return []string{err.Error()}
	}
	return f.Plan(structured.Target{}).Check([]byte(text), chat.StopEnd).Issues
}

// isPlain reports whether a text has no character with which JSON or a fence begins.
func isPlain(s string) bool { return !strings.ContainsAny(s, "{}[]`") }

func FuzzSchemas(f *testing.F) {
	for _, s := range []string{
		strictSchema, looseSchema, mapSchema, listSchema, pointSchema,
		`{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}},"properties":{"x":{"$ref":"#/$defs/a"}}}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","dependencies":{"a":["b"]},"items":[{}],"not":{"enum":[1]}}`,
		`{"type":"object","properties":{"a":{"allOf":[{"const":1}],"title":"x"}},"patternProperties":{"^(a+)+$":false},"unevaluatedProperties":false}`,
		`{"if":{"minContains":1},"then":false,"uniqueItems":true,"propertyNames":{"pattern":"("}}`,
	} {
		f.Add(s, `{"a":1,"b":null}`)
	}
	f.Fuzz(func(t *testing.T, schema, answer string) {
		own, err := structured.Compile("own", []byte(schema))
		if err != nil {
			return
		}
		plain := own.Plan(structured.Target{}).Check([]byte(answer), chat.StopEnd)
		mustBeJSON(t, plain)
		for _, target := range []structured.Target{
			{Enforces: true, Rules: structured.RulesOpenAI}, {Enforces: true, Rules: structured.RulesAnthropic}, {Tools: true},
		} {
			p := own.Plan(target)
			v := p.Check([]byte(answer), chat.StopEnd)
			mustBeJSON(t, v)
			if plain.Valid() && (!v.Valid() || !bytes.Equal(v.JSON, plain.JSON)) {
				t.Fatalf("%s is valid, and became %s: %q", plain.JSON, v.JSON, v.Issues)
			}
			if p.Mode == structured.Enforced && p.Shape != nil && !json.Valid(p.Shape.Schema) {
				t.Fatalf("%s became %s", schema, p.Shape.Schema)
			}
		}
	})
}
