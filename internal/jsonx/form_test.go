package jsonx_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/internal/jsonx"
)

// form is of a request that has some of everything.
var form = func() *jsonx.Form {
	schema := jsonx.NewForm("type", "items").Others(nil)
	schema.Add(jsonx.Map(schema), "properties")
	f := jsonx.NewForm("model", "stream_options", "include_usage", "messages", "role", "content", "input")
	f.Add(schema, "schema")
	f.Add(nil, "metadata", "input")
	return f.Clone().Add(f, "input")
}()

var camelForm = jsonx.NewCamelForm("maxOutputTokens", "topK", "config", "_responseSchema")

func TestAFormRefusesWhatReadersTakeForDifferentThings(t *testing.T) {
	long := strings.Repeat("x", 300)
	many := func(last string) string {
		var b strings.Builder
		for i := range 200 {
			fmt.Fprintf(&b, `"k%d":{},`, i)
		}
		return `{"content":{` + b.String() + last + `}}`
	}
	for _, r := range []struct {
		form         *jsonx.Form
		in, msg, way string
	}{
		{form, `{"model":1,"model":2}`, "model is given twice at line 1, column 12", "model"},
		{form, "{\"model\":1,\n \"mod\\u0065l\":2}", "model is given twice at line 2, column 2", "model"},
		{form, `{"stream_options":{"include_usage":true,"include_usage":false}}`, "stream_options.include_usage is given twice", "stream_options.include_usage"},
		{form, `{"messages":[{},{"content":[[{"role":1}],[{"role":1,"role":2}]]}]}`, "messages[1].content[1][0].role is given twice", "messages[1].content[1][0].role"},
		{form, `{"Model":1}`, "Model is not a member: names are case-sensitive, write model at", "Model"},
		{form, `{"model":1,"MODEL":2}`, "MODEL is not a member", "MODEL"},
		{form, `{"messages":[{"\u0052ole":1}]}`, "messages[0].Role is not a member", "messages[0].Role"},
		{form, `{"\u017ftream_optionſ":1}`, "write stream_options", "ſtream_optionſ"},
		{form, `{"\u0130nclude_usage":1}`, "write include_usage", "İnclude_usage"},
		{form, `{"ınclude_usage":1}`, "write include_usage", "ınclude_usage"},
		{form, `{"model\u0000x":1}`, "write model", "model\x00x"},
		{form, `{"x":1,"x":2}`, "x is given twice", "x"},
		{form, `{"x":1,"X":2}`, "X is given twice, also as x", "X"},
		{form, `{"":1,"":2}`, " is given twice", ""},
		{form, `{"x":{"":[{"a":1,"a":2}]}}`, "x.[0].a is given twice", "x.[0].a"},
		{form, `{"x":[{"a":{"model":1,"Model":2}},{"a":{"b":1,"b":2}}]}`, "x[1].a.b is given twice", "x[1].a.b"},
		{form, `{"schema":{"properties":{"type":{"type":1,"type":2}}}}`, "schema.properties.type.type is given twice", "schema.properties.type.type"},
		{form, `{"schema":{"items":{"Type":1}}}`, "schema.items.Type is not a member", "schema.items.Type"},
		{form, `{"input":{"role":1,"role":2}}`, "input.role is given twice", "input.role"},
		{form, many(`"k7":1`), "content.k7 is given twice", "content.k7"},
		{form, many(`"K7":1`), "content.K7 is given twice, also as k7", "content.K7"},
		{form, many(`"role":1,"k200":1,"role":2`), "content.role is given twice", "content.role"},
		{form, many(`"x":{"a":1,"a":2}`), "content.x.a is given twice", "content.x.a"},
		{form, `{"x":{"` + long + `":{"a":1,"a":2}}}`, "is given twice", "…" + strings.Repeat("x", 126) + ".a"},
		{camelForm, `{"maxOutputTokens":1,"max_output_tokens":2}`, "max_output_tokens is given twice, also as maxOutputTokens", "max_output_tokens"},
		{camelForm, `{"config":{"top_k":1,"topK":2}}`, "config.topK is given twice, also as top_k", "config.topK"},
		{camelForm, `{"maxoutputtokens":1}`, "write maxOutputTokens", "maxoutputtokens"},
		{camelForm, `{"MAX_OUTPUT_TOKENS":1}`, "write max_output_tokens", "MAX_OUTPUT_TOKENS"},
		{camelForm, `{"max_outputTokens":1}`, "write maxOutputTokens", "max_outputTokens"},
		{camelForm, `{"_response_Schema":1}`, "write _response_schema", "_response_Schema"},
		{jsonx.Unique, `{"a":[{"b":{"c":1,"c":2}}]}`, "a[0].b.c is given twice", "a[0].b.c"},
	} {
		t.Run(fmt.Sprintf("%.60s", r.in), func(t *testing.T) {
			_, err := r.form.Scan([]byte(r.in))
			se, ok := errors.AsType[*jsonx.SyntaxError](err)
			if !ok || !strings.Contains(err.Error(), r.msg) || se.Member != r.way || len(err.Error()) > 400 {
				t.Errorf("got %v (%+v)", err, se)
			}
			if _, perr := r.form.Parse([]byte(r.in)); perr == nil || perr.Error() != err.Error() {
				t.Errorf("Parse says %v", perr)
			}
		})
	}
}

func TestAFormLeavesTheNamesOfUsersAlone(t *testing.T) {
	for in, f := range map[string]*jsonx.Form{
		`{"metadata":{"model":1,"model":2,"Model":[{"a":1,"a":2}]}}`:                                  form,
		`{"schema":{"properties":{"a":{},"A":{},"a":{"x":{"b":1,"b":2}},"Type":{},"type":{}}}}`:       form,
		`{"messages":[{"input":{"a":1,"a":2}},{"role":1},{"role":2}],"x":{"Model":1,"model":2}}`:      form,
		`{"content":[{"role":1,"content":[{"role":1,"content":{"role":2}}]},{"role":1}],"model":"m"}`: form,
		`{"mod\u0065l":1,"xmodel":1,"modelx":1,"é":1,"É":1,"a\u0000b":1}`:                             form,
		`{"max_output_tokens":1,"top_k":2,"max_tokens":3,"_response_schema":1}`:                       camelForm,
		`{"a":1,"A":2,"b":{"a":1}}`: jsonx.Unique,
		`{"a":{"b":1,"b":2}}`:       nil,
	} {
		if f == nil {
			if _, err := jsonx.Scan([]byte(in)); err != nil {
				t.Errorf("%s: %v", in, err)
			}
			continue
		}
		d, err := f.Scan([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if plain, _ := jsonx.Scan([]byte(in)); fmt.Sprint(plain.Members) != fmt.Sprint(d.Members) || plain.Stats != d.Stats {
			t.Errorf("%s: %v, want %v", in, d, plain)
		}
	}
}

func TestAFormKnowsItsMembers(t *testing.T) {
	for name, want := range map[string]bool{"model": true, "Model": false, "metadata": true, "": false, "x": false} {
		if form.Knows(name) != want {
			t.Errorf("it knows %q: %v", name, !want)
		}
	}
	if !camelForm.Knows("topK") || !camelForm.Knows("top_k") || camelForm.Knows("top_K") || jsonx.Unique.Knows("model") {
		t.Error("it does not know its names in both spellings, or knows others")
	}
}

// FuzzAFormRefusesWhatReadersTakeForDifferentThings: in a text that a form accepts, a reader that uses the last of two members, or the first, or
// ignores case, finds as many members as there are.
func FuzzAFormRefusesWhatReadersTakeForDifferentThings(f *testing.F) {
	for _, s := range []string{
		`{"model":1,"Model":2}`, `{"x":{"a":1,"\u0061":2}}`, `{"messages":[{"role":1,"Role":2}]}`, `{"input":{"a":1,"A":2}}`, `{"x":1,"y":{"z":[{}]}}`,
		`{"metadata":{"a":1,"a":2}}`, `{"` + strings.Repeat(`k":1,"kk`, 40) + `":1}`, `{"max_output_tokens":1,"maxOutputTokens":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, f := range []*jsonx.Form{form, camelForm, jsonx.Unique} {
			v, err := f.Parse(b)
			if err != nil {
				if _, perr := jsonx.Parse(b); perr != nil && !strings.Contains(err.Error(), perr.Error()) && !strings.Contains(err.Error(), "given twice") && !strings.Contains(err.Error(), "not a member") {
					t.Fatalf("%q: %v, want %v", b, err, perr)
				}
				continue
			}
			distinct(t, f, b, v)
		}
	})
}

// distinct checks the names of a value whose form is that of its object, without users' own names.
func distinct(t *testing.T, f *jsonx.Form, b []byte, v jsonx.Value) {
	t.Helper()
	var last map[string]json.RawMessage
	if v.Kind() == jsonx.Object && json.Unmarshal(v.Raw, &last) != nil {
		t.Fatalf("%q is no object", v.Raw)
	}
	var names []string
	for key, m := range v.Members {
		name := string(key)
		names = append(names, name)
		switch {
		case f == jsonx.Unique || !f.Knows(name):
			distinct(t, jsonx.Unique, b, m)
		case name != "metadata" && name != "input" && name != "schema": // of these, names are the user's own
			distinct(t, f, b, m)
		}
	}
	for _, e := range v.Each {
		distinct(t, f, b, e)
	}
	if len(names) != len(last) {
		t.Fatalf("%q has %d members, some twice", v.Raw, len(names))
	}
	for i, a := range names {
		for _, o := range names[i+1:] {
			if f != jsonx.Unique && bytes.EqualFold([]byte(a), []byte(o)) && isASCII(a+o) {
				t.Fatalf("%q has %q and %q", v.Raw, a, o)
			}
		}
		for _, known := range []string{"model", "role", "content", "include_usage"} {
			if f == form && strings.EqualFold(a, known) && a != known {
				t.Fatalf("%q has %q", v.Raw, a)
			}
		}
	}
}

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) }

// manyTools is a body like an agent's: many turns, and tools whose schemas consist of keys.
func manyTools() []byte {
	tool := `{"type":"function","function":{"name":"search_files","description":"Searches files by a pattern.","parameters":{"type":"object","properties":{` +
		`"pattern":{"type":"string","description":"What to look for"},"path":{"type":"string"},"recursive":{"type":"boolean","default":true},` +
		`"limit":{"type":"integer","minimum":1,"maximum":1000}},"required":["pattern"],"additionalProperties":false}}},`
	turn := `{"role":"user","content":"go on"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"search_files","arguments":"{\"pattern\":\"x\"}"}}]},` +
		`{"role":"tool","tool_call_id":"call_1","content":"` + strings.Repeat("a line of output\\n", 40) + `"},`
	return []byte(`{"model":"gpt-x","stream":true,"tools":[` + strings.TrimSuffix(strings.Repeat(tool, 20), ",") + `],"messages":[` +
		strings.Repeat(turn, 30) + `{"role":"user","content":"end"}]}`)
}

func BenchmarkScanByAForm(b *testing.B) {
	tools := jsonx.NewForm("type", "description", "default", "minimum", "maximum", "required", "additionalProperties")
	tools.Add(jsonx.Map(tools), "properties")
	f := jsonx.NewForm("model", "stream", "tools", "messages", "role", "content", "type", "function", "name", "description", "tool_calls", "tool_call_id", "id")
	f.Add(tools, "parameters").Add(nil, "arguments")
	body := manyTools()
	for _, row := range []struct {
		name string
		scan func([]byte) (jsonx.Doc, error)
	}{{"plain", jsonx.Scan}, {"form", f.Scan}} {
		b.Run(row.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := row.scan(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestManyMembersCostNoMoreThanTheirBytes: a body of members alone cannot occupy the gateway.
func TestManyMembersCostNoMoreThanTheirBytes(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`{"x":1`)
	for i := range 200_000 {
		fmt.Fprintf(&b, `,"%dmember%d":{"a":1}`, i, 200_000-i)
	}
	b.WriteString("}")
	d, err := form.Scan(b.Bytes())
	if err != nil || len(d.Members) != 200_001 {
		t.Fatalf("%d members, %v", len(d.Members), err)
	}
}
