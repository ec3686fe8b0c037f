package structured_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/internal/racetest"
)

const pointSchema = `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string"},"c":{"type":["boolean","null"]}},"required":["a"]}`

var foundInTextCases = []struct {
	about, schema, text, want string
	stop                      chat.StopReason
	repaired, invalid         bool
}{
	{about: "the whole text", text: " {\"a\" :1.50e0}\n", want: `{"a" :1.50e0}`},
	{about: "a fenced block", text: "So:\n```json\n{\"a\":1}\n```\nDone {b}.", want: `{"a":1}`},
	{about: "a block without a name", text: "```\n{\"a\":1}\n```", want: `{"a":1}`},
	{about: "a block on one line", text: "```json {\"a\":1}```", want: `{"a":1}`},
	{about: "fences in a string", text: "```json\n{\"a\":1,\"b\":\"x```y\"}\n```", want: "{\"a\":1,\"b\":\"x```y\"}"},
	{about: "the second block, where the first is a program", text: "```python\nprint({1})\n```\n```json\n{\"a\":1}\n```", want: `{"a":1}`},
	{about: "an object in a sentence", text: `The point {the first} is {"a":1,"b":"}{"} as asked.`, want: `{"a":1,"b":"}{"}`},
	{about: "braces in prose that are an object", text: `{} is empty, and {"a":2} is not`, want: `{"a":2}`},
	{about: "the first of two", text: `{"a":1} or {"a":2}`, want: `{"a":1}`},
	{about: "the second of two, where only that follows the form", text: `{"a":"x"} or {"a":2}`, want: `{"a":2}`},
	{about: "the first of two, where none does", text: `{"a":"x"} or {"a":"y"}`, want: `{"a":"x"}`, invalid: true},
	{about: "the only element of an array", text: `[{"a":1}]`, want: `{"a":1}`},
	{about: "not what is inside another", text: `{"x" "a": {"a":1}}`, want: "", invalid: true},
	{about: "not what is inside one that was cut off", text: `{"b":"x","c":{"a":1},"d`, stop: chat.StopLength, invalid: true},
	{about: "an array", schema: `{"type":"array","items":{"type":"integer"}}`, text: "Primes: [2, 3, 5].", want: "[2, 3, 5]"},
	{about: "a number", schema: `{"type":"number"}`, text: " 42.0 ", want: "42.0"},
	{about: "a number that was cut off", schema: `{"type":"number"}`, text: "42", stop: chat.StopLength, invalid: true},
	{about: "a string in a block", schema: `{"type":"string"}`, text: "```\n\"x\"\n```", want: `"x"`},
	{about: "a null that is asked for", schema: `{"type":["object","null"]}`, text: "null", want: "null"},
	{about: "anything", schema: `{}`, text: "Here: [1]", want: "[1]"},
	{about: "an object that is asked for by reference", schema: `{"$ref":"#/$defs/p","$defs":{"p":{"type":"object","required":["a"]}}}`, text: `x {"a":1}`, want: `{"a":1}`},
	{about: "not an array inside an object", schema: `{"type":"array"}`, text: `So {"a":[1]}.`, invalid: true},
	{about: "another kind that is all there is", schema: `{"type":"array"}`, text: `{"a":[1]}`, want: `{"a":[1]}`, invalid: true},
	{about: "an array behind an object", schema: `{"type":"array"}`, text: `{"a":[1]} and [2]`, want: `[2]`},
	{about: "another kind", text: `"yes"`, want: `"yes"`, invalid: true},

	{about: "a comma too many", text: `{"a":1,"b":"x",}`, want: `{"a":1,"b":"x"}`, repaired: true},
	{about: "a comma too few", text: "{\"a\":1\n\"b\":\"x\"}", want: `{"a":1,"b":"x"}`, repaired: true},
	{about: "single quotes", text: `{'a':1,'b':'it\'s "x"'}`, want: `{"a":1,"b":"it's \"x\""}`, repaired: true},
	{about: "typographic quotes", text: `{“a”:1,“b”:“x”}`, want: `{"a":1,"b":"x"}`, repaired: true},
	{about: "names without quotes", text: `{a:1,b:"x"}`, want: `{"a":1,"b":"x"}`, repaired: true},
	{about: "comments", text: "{// one\n\"a\":1, /* two */ \"b\":\"//x\" # three\n}", want: `{"a":1,"b":"//x"}`, repaired: true},
	{about: "Python", text: `{'a':1,'c':True}`, want: `{"a":1,"c":true}`, repaired: true},
	{about: "Python's None", text: `{"a":1,"c":None}`, want: `{"a":1,"c":null}`, repaired: true},
	{about: "a line break in a string", text: "{\"a\":1,\"b\":\"x\ny\"}", want: `{"a":1,"b":"x\ny"}`, repaired: true},
	{about: "a backslash too many", text: `{"a":1,"b":"C:\dir"}`, want: `{"a":1,"b":"C:dir"}`, repaired: true},
	{about: "a plus sign", text: `{"a":+1.}`, want: `{"a":1.0}`, repaired: true},
	{about: "digits are kept", text: `{"a":12345678901234567890.123456789000,}`, want: `{"a":12345678901234567890.123456789000}`, repaired: true},
	{about: "no end", text: `Well: {"a":1,"b":"x`, want: `{"a":1,"b":"x"}`, repaired: true},
	{about: "a block without an end", text: "```json\n{\"a\":1", want: `{"a":1}`, repaired: true},
	{about: "no end, for it was cut off", text: `{"a":1,"b":"x"`, stop: chat.StopLength, invalid: true},
	{about: "a comma too many before the limit", text: `{"a":1,} and so`, stop: chat.StopLength, want: `{"a":1}`, repaired: true},
	{about: "NaN is no number", text: `{"a":NaN}`, invalid: true},

	{about: "a name twice", text: `{"a":1,"a":2}`, want: `{"a":1,"a":2}`, invalid: true},
	{about: "a number beyond all measure", text: `{"a":1e999999999}`, want: `{"a":1e999999999}`, invalid: true},
	{about: "too long", text: strings.Repeat(" ", 3<<20), invalid: true},
}

func TestAnswersAreFoundInText(t *testing.T) {
	for _, r := range foundInTextCases {
		if r.schema == "" {
			r.schema = pointSchema
		}
		if r.stop == "" {
			r.stop = chat.StopEnd
		}
		v := compiled(t, r.schema).Plan(structured.Target{}).Check([]byte(r.text), r.stop)
		if string(v.JSON) != r.want || v.Repaired != r.repaired || v.Valid() == r.invalid {
			t.Errorf("%s: %s, repaired %t, %q", r.about, v.JSON, v.Repaired, v.Issues)
		}
	}
}

func TestIssuesOfAnswers(t *testing.T) {
	for _, r := range []struct{ schema, answer, want string }{
		{`{"type":"object","required":["x"]}`, `{}`, "x: is missing"},
		{`{"type":"array"}`, `{"a":1}`, "the answer is of type object, not array"},
		{`{"properties":{"x":{"type":["string","null"]}}}`, `{"x":1}`, "x: is of type number, not null or string"},
		{`{"properties":{"x":{"enum":["a","b",3]}}}`, `{"x":"c"}`, `x: "c" is not one of "a", "b", 3`},
		{`{"properties":{"x":{"const":1}}}`, `{"x":2}`, "x: 2 is not 1"},
		{`{"properties":{"x":{"maximum":0.3}}}`, `{"x":0.30000000000000000001}`, "x: 0.30000000000000000001 is more than the maximum, 0.3"},
		{`{"properties":{"x":{"exclusiveMinimum":0}}}`, `{"x":0}`, "x: 0 is not more than 0"},
		{`{"properties":{"x":{"exclusiveMaximum":9}}}`, `{"x":9}`, "x: 9 is not less than 9"},
		{`{"properties":{"x":{"multipleOf":5}}}`, `{"x":7}`, "x: 7 is not a multiple of 5"},
		{`{"properties":{"x":{"minLength":2}}}`, `{"x":"é"}`, "x: has 1 characters, but needs at least 2"},
		{`{"properties":{"x":{"maxLength":1}}}`, `{"x":"éé"}`, "x: has 2 characters, but at most 1 are allowed"},
		{`{"properties":{"x":{"pattern":"^0x"}}}`, `{"x":"1x"}`, `x: "1x" does not match ^0x`},
		{`{"properties":{"x":{"format":"date"}}}`, `{"x":"tomorrow"}`, `x: "tomorrow" is not a valid date`},
		{`{"properties":{"x":{"minItems":1}}}`, `{"x":[]}`, "x: has 0 elements, but needs at least 1"},
		{`{"properties":{"x":{"maxItems":1}}}`, `{"x":[1,2]}`, "x: has 2 elements, but at most 1 are allowed"},
		{`{"properties":{"x":{"items":{"properties":{"y":{"type":"string"}}}}}}`, `{"x":[{},{"y":1}]}`, "x[1].y: is of type number, not string"},
		{`{"additionalProperties":false}`, `{"x":1}`, "x: is not allowed here"},
		{`{"properties":{"x":false}}`, `{"x":1}`, "x: is not allowed"},
		{`{"properties":{"x":{"anyOf":[{"type":"object","required":["y"]},{"type":"null"}]}}}`, `{"x":{}}`, "x.y: is missing"},
		{`{"properties":{"x":{"oneOf":[{"type":"string"},{"type":"null"}]}}}`, `{"x":1}`, "x: is not of type string or null"},
		{`{"properties":{"x":{"anyOf":[{"minimum":3},{"maximum":1}]}}}`, `{"x":2}`, "x: matches none of the alternatives"},
		{`{"$defs":{"p":{"properties":{"y":{"$ref":"#/$defs/q"}}},"q":{"type":"string"}},"$ref":"#/$defs/p"}`, `{"y":1}`, "y: is of type number, not string"},
		{`{"properties":{"x":{"pattern":"^(?=a)b"}}}`, `{"x":"c"}`, ""},
		{`{"type":"object"}`, `{"x":1,"x":1}`, "x: appears twice"},
		{`{"type":"object"}`, `{"x":[1e400]}`, "x[0]: is a number with too many digits or too large an exponent"},
	} {
		v := compiled(t, r.schema).Plan(structured.Target{}).Check([]byte(r.answer), chat.StopEnd)
		if got := strings.Join(v.Issues, "; "); got != r.want {
			t.Errorf("%s of %s: %q, and not %q", r.answer, r.schema, got, r.want)
		}
	}
}

func TestIssuesAreFewAndShort(t *testing.T) {
	f := compiled(t, `{"additionalProperties":{"type":"string","maxLength":2}}`)
	var b strings.Builder
	for range 50 {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + strings.Repeat("k", 200) + strings.Repeat("x", b.Len()%97) + `":1`)
	}
	v := f.Plan(structured.Target{}).Check([]byte("{"+b.String()+"}"), chat.StopEnd)
	if n := len(v.Issues); n == 0 || n > 21 {
		t.Errorf("%d issues", n)
	}
	for _, s := range v.Issues {
		if len(s) > 300 {
			t.Errorf("an issue of %d bytes", len(s))
		}
	}
}

func TestARetryPromptListsTheIssues(t *testing.T) {
	f := form(t, "FragmentEvaluation")
	p := f.Plan(structured.Target{})
	got := f.RetryPrompt(p.Check([]byte(`{"novelty":2,"relevance":0,"coherence":0,"verdict":"keep"}`), chat.StopEnd))
	const want = `Your last answer does not follow the structure that was asked for:
- novelty: 2 is more than the maximum, 1
- verdict: "keep" is not one of "promote", "stage", "discard"
Answer again, in full and in the same way, with every one of these corrected.`
	if got != want {
		t.Error(got)
	}
	if got := f.RetryPrompt(p.Check([]byte("no"), chat.StopEnd)); !strings.HasPrefix(got, "Your last answer could not be read as JSON") {
		t.Error(got)
	}
}

// Without a limit, each of these would be searched for minutes, for brackets that close nothing.
func TestSearchingIsBounded(t *testing.T) {
	t.Parallel()
	p := compiled(t, `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`).Plan(structured.Target{})
	for _, piece := range []string{"```{", "```{\"", "{", "[{", "<think>{", "{{}", "```[{}", "{a:'", "{//"} {
		text := strings.Repeat(piece, racetest.Less(2<<20)/len(piece))
		if v := p.Check([]byte(text), chat.StopEnd); v.Valid() || len(v.Issues) == 0 {
			t.Errorf("%s and so on: %q is %q", piece, clipped(v.JSON), v.Issues)
		}
	}
	text := strings.Repeat("```{", 41) + "```\nThat is it:\n```json\n{\"a\":1}\n```"
	if v := p.Check([]byte(text), chat.StopEnd); string(v.JSON) != `{"a":1}` || !v.Valid() {
		t.Errorf("behind some of it, %q is found: %q", v.JSON, v.Issues)
	}
}

func clipped(b []byte) []byte { return b[:min(len(b), 80)] }
