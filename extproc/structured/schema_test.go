package structured_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/policy/schema"
)

func TestEveryBuiltinSchemaCompiles(t *testing.T) {
	for _, s := range schema.All() {
		f := structured.Published(s.Name)
		if f == nil {
			t.Errorf("%s cannot be compiled", s.Name)
			continue
		}
		if !f.Builtin() || f.Name() != s.Name || f.Strict() != s.Strict || string(f.Default()) != string(s.Default) {
			t.Errorf("%s: %+v", s.Name, f)
		}
		if s.Default == nil {
			continue
		}
		if v := f.Plan(structured.Target{}).Check(s.Default, chat.StopEnd); !v.Valid() || string(v.JSON) != string(s.Default) {
			t.Errorf("the default of %s: %q", s.Name, v.Issues)
		}
	}
	if structured.Published("own") != nil {
		t.Error("there is a form that nobody published")
	}
}

func TestInvalidSchemas(t *testing.T) {
	for _, r := range []struct{ about, schema, want string }{
		{"no JSON", `{"type":`, "the schema is not valid JSON: "},
		{"no object", `true`, "the schema is not a JSON object"},
		{"an unknown type", `{"properties":{"x":{"type":"text"}}}`, "properties.x.type"},
		{"required is not a list", `{"required":"x"}`, "required: is of type string, not array"},
		{"a reference without a target", `{"$ref":"#/$defs/x"}`, `the schema refers to "#/$defs/x"`},
		{"a reference to another document", `{"properties":{"x":{"$ref":"https://example.com/x.json"}}}`, `#/properties/x refers to "https://example.com/x.json": a reference must be a path inside the schema (#/…)`},
		{"a reference to a file", `{"$ref":"/etc/passwd"}`, `the schema refers to "/etc/passwd"`},
		{"a duplicate member", `{"type":"object","type":"array"}`, `the schema has the member "type" twice`},
		{"too large a count", `{"maxLength":1e99}`, "the schema has a maxLength that is not a count: 1e99"},
		{"too large a number", `{"minimum":1e99999}`, "#/minimum is a number with too many digits or too large an exponent"},
		{"too large", `{"description":"` + strings.Repeat("x", 256<<10) + `"}`, "the schema is larger than 256 KiB"},
		{"too deep", strings.Repeat(`{"items":`, 80) + `{}` + strings.Repeat(`}`, 80), "is nested more than 64 levels deep"},
		{"too many", `{"enum":[` + strings.Repeat("[],", 20_000) + `[]]}`, "has more than 20000 objects and arrays"},
		{"a pattern too large", `{"pattern":"` + strings.Repeat("(a{1000})", 100) + `"}`, "pattern: makes the patterns of the schema too large"},
		{"a pattern too long", `{"pattern":"` + strings.Repeat("a", 5000) + `"}`, "pattern: makes the patterns of the schema too large"},
		{"a reference to itself", `{"$ref":"#"}`, "the schema refers to itself in a cycle"},
		{"a cycle", `{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, "refers to itself"},
		{"an anchor", `{"$defs":{"x":{"$anchor":"x"}},"$ref":"#x"}`, `the schema refers to "#x"`},
		{"a dynamic reference", `{"$dynamicRef":"#x"}`, "has a $dynamicRef, which is not supported"},
		{"a nested id", `{"items":{"$id":"https://example.com/x"}}`, "#/items has an id of its own ($id)"},
		{"too many references", `{"$defs":{"x":true},"allOf":[` + strings.Repeat(`{"$ref":"#/$defs/x"},`, 1100) + `true]}`, "applies too many nested schemas to one value"},
		{"too deeply nested", strings.Repeat(`{"not":`, 60) + `{"not":{"not":{"not":{"not":true}}}}` + strings.Repeat("}", 60), "applies too many nested schemas to one value"},
		{"a recursive schema", `{"properties":{"next":{"$ref":"#"}}}`, ""},
		{"an unknown draft", `{"$schema":"https://example.com/my","type":"object"}`, ""},
		{"an older draft", `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"x":{"type":"null"}},"items":[{"$ref":"#/definitions/x"}]}`, ""},
		{"a pattern of JavaScript", `{"pattern":"(?<!x)\\cA"}`, ""},
		{"data that looks like a schema", `{"properties":{"a":{"default":{"$id":"x","$ref":"https://example.com/x","minLength":-1}}},"examples":[{"$ref":"x"}],"const":{"$dynamicRef":"#x"},"enum":[{"$id":"x"}]}`, ""},
		{"a member named like a keyword", `{"properties":{"default":{"$ref":"https://example.com/x.json"}}}`, `#/properties/default refers to "https://example.com/x.json"`},
		{"members named like keywords", `{"properties":{"$id":{"type":"string"},"properties":{"type":"object","properties":{"minLength":{"type":"integer"}}},"enum":{"enum":["a",1,null,true,1.5]}}}`, ""},
		{"a reference to a value", `{"properties":{"a":{"default":{"$ref":"https://example.com/x.json"}},"b":{"$ref":"#/properties/a/default"}}}`, "the schema cannot be read"},
		{"an id of the whole schema", `{"$id":"https://example.com/s","$defs":{"x":{"type":"null"}},"$ref":"#/$defs/x"}`, ""},
	} {
		_, err := structured.Compile("own", []byte(r.schema))
		switch {
		case err == nil && r.want != "":
			t.Errorf("%s is read", r.about)
		case err != nil && (r.want == "" || !strings.Contains(err.Error(), r.want) || strings.Contains(err.Error(), "bardo:")):
			t.Errorf("%s: %v", r.about, err)
		}
	}
}

func TestRecentSchemasAreCached(t *testing.T) {
	const s = `{"title":"kept"}`
	a, _ := structured.Compile("a", []byte(s))
	again, _ := structured.Compile("a", []byte(s))
	other, _ := structured.Compile("b", []byte(s))
	if a == nil || a != again || a == other || other.Name() != "b" || a.Builtin() || a.Strict() || a.Default() != nil {
		t.Errorf("%p, %p, %p", a, again, other)
	}
	for i := range 40 {
		if _, err := structured.Compile("large", fmt.Appendf(nil, `{"title":"%d","description":%q}`, i, strings.Repeat("x", 100<<10))); err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := structured.Compile("a", []byte(s)); again == a {
		t.Error("nothing makes room")
	}
}

// Each of these would take minutes or more. It ends because a check's steps are limited.
func TestACheckHasALimitOfSteps(t *testing.T) {
	both := `{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`
	for _, r := range []struct{ about, schema, answer string }{
		{"properties that double", both, strings.Repeat(`{"a":`, 90) + `1` + strings.Repeat("}", 90)},
		{"an alternative at each of many places", `{"items":{"allOf":[` + strings.Repeat("{\"const\":1e309},", 1000) + `true]}}`, "[" + strings.Repeat("1e308,", 2_000) + "1]"},
		{"a pattern at each of many places", `{"items":{"pattern":"(x+x+)+y{500}"}}`, `["` + strings.Repeat(strings.Repeat("x", 1000)+`","`, 500) + `"]`},
	} {
		v := compiled(t, r.schema).Plan(structured.Target{}).Check([]byte(r.answer), chat.StopEnd)
		if len(v.Issues) != 1 || !strings.Contains(v.Issues[0], "takes too many steps") {
			t.Errorf("%s: %q", r.about, v.Issues)
		}
	}
}

func TestEnumsAreChecked(t *testing.T) {
	var list strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&list, "%d.50,", i)
	}
	f := compiled(t, `{"items":{"enum":[`+list.String()+`"x",{"a":[1]},null]}}`)
	for answer, want := range map[string]bool{
		"[" + strings.Repeat("19999.5,", 10_000) + "19999.500]": true,
		`["x",null,{"a":[1.0]},1.5e0]`:                          true,
		`[{"a":[2]}]`:                                           false, `["y"]`: false, "[0.51]": false, "[[1]]": false, "[true]": false,
	} {
		if v := f.Plan(structured.Target{}).Check([]byte(answer), chat.StopEnd); v.Valid() != want {
			t.Errorf("%.40s: %q", answer, v.Issues)
		}
	}
}

func TestASchemaChecksAnswersConcurrently(t *testing.T) {
	f := form(t, "HeartbeatDecision")
	p := f.Plan(structured.Target{})
	var wait sync.WaitGroup
	for i := range 32 {
		wait.Go(func() {
			good := samples[0].valid
			if i%2 == 0 {
				good = strings.Replace(good, "hedge", "jump", 1)
			}
			if v := p.Check([]byte(good), chat.StopEnd); v.Valid() != (i%2 == 1) {
				t.Errorf("answer %d: %q", i, v.Issues)
			}
		})
	}
	wait.Wait()
}

func BenchmarkCheck(b *testing.B) {
	p := form(b, "HeartbeatDecision").Plan(structured.Target{})
	answer := []byte(samples[0].valid)
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	for b.Loop() {
		if !p.Check(answer, chat.StopEnd).Valid() {
			b.Fatal("it is not valid")
		}
	}
}

func BenchmarkCompileCached(b *testing.B) {
	s := form(b, "HeartbeatDecision").JSON()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := structured.Compile("own", s); err != nil {
			b.Fatal(err)
		}
	}
}
