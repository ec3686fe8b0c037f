package jsonx_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"bardo.money/gateway/internal/jsonx"
)

func TestScanRefusesWhatIsNotOneJSONObject(t *testing.T) {
	rows := []struct {
		name, in, msg string
		line, column  int
	}{
		{"nothing", "", "the body is empty", 1, 1},
		{"white space", " \n ", "the body is empty", 2, 2},
		{"an array", `[]`, "expected a JSON object", 1, 1},
		{"a byte order mark", "\xef\xbb\xbf{}", "expected a JSON object, found a byte order mark", 1, 1},
		{"UTF-16, little-endian", "\xff\xfe{\x00}\x00", "expected a JSON object in UTF-8, found UTF-16", 1, 1},
		{"UTF-16, big-endian", "\xfe\xff\x00{\x00}", "expected a JSON object in UTF-8, found UTF-16", 1, 1},
		{"compressed", "\x1f\x8b\x08", "expected a JSON object, found gzip", 1, 1},
		{"cut after the brace", `{`, "unexpected end", 1, 2},
		{"cut in a key", `{"a`, "unexpected end", 1, 4},
		{"cut after a key", `{"a"`, "unexpected end", 1, 5},
		{"cut in a value", `{"a":tr`, "expected a JSON value", 1, 6},
		{"cut in an escape", `{"a":"\u12`, "unexpected end", 1, 11},
		{"a bare key", `{a:1}`, "expected a key", 1, 2},
		{"single quotes", `{'a':1}`, "expected a key", 1, 2},
		{"a trailing comma", `{"a":1,}`, "expected a key", 1, 8},
		{"a trailing comma in an array", `{"a":[1,]}`, "expected a JSON value", 1, 9},
		{"two values", `{} {}`, "unexpected text after", 1, 4},
		{"NaN", `{"a":NaN}`, "expected a JSON value", 1, 6},
		{"a leading zero", `{"a":01}`, "expected a JSON value", 1, 6},
		{"a plus sign", `{"a":+1}`, "expected a JSON value", 1, 6},
		{"half a fraction", `{"a":1.}`, "expected a JSON value", 1, 6},
		{"half an exponent", `{"a":1e}`, "expected a JSON value", 1, 6},
		{"a raw newline in a string", "{\"a\":\n\"b\nc\"}", "control character", 2, 3},
		{"a bad escape", `{"a":"\x"}`, "invalid escape", 1, 7},
		{"a bad unicode escape", `{"a":"\u12g4"}`, "invalid escape", 1, 7},
		{"bytes that are not UTF-8", "{\"a\":\"é\xff\"}", "not valid UTF-8", 1, 8},
		{"a mismatched bracket", `{"a":[1}`, "expected ',' or ']'", 1, 8},
		{"a comment", `{/**/}`, "expected a key", 1, 2},
		{"a missing colon", `{"a" 1}`, "expected ':'", 1, 6},
		{"a duplicate key", `{"a":1,"b":2,"a":3}`, "a is given twice", 1, 14},
		{"a duplicate key in escapes", `{"model":1,"m\u006fdel":2}`, "model is given twice", 1, 12},
		{"too deep", `{"a":` + strings.Repeat("[", jsonx.MaxDepth) + strings.Repeat("]", jsonx.MaxDepth) + `}`, "nested too deeply", 1, 517},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := jsonx.Scan([]byte(r.in))
			var se *jsonx.SyntaxError
			if !errors.As(err, &se) {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(se.Msg, r.msg) || se.Line != r.line || se.Column != r.column {
				t.Errorf("got %v", se)
			}
		})
	}
}

func TestScanFindsDuplicatesAmongManyMembers(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"k":0`)
	for i := range 100 {
		b.WriteString(`,"k` + strings.Repeat("x", i+1) + `":0`)
	}
	if _, err := jsonx.Scan([]byte(b.String() + "}")); err != nil {
		t.Fatal(err)
	}
	if _, err := jsonx.Scan([]byte(b.String() + `,"kxxx":1}`)); err == nil {
		t.Error("a duplicate passed")
	}
}

func TestScanRecordsMembers(t *testing.T) {
	d, err := jsonx.Scan([]byte(" { \"a\" : 1.50 ,\n\"b\\n\":[ {} ], \"c\":\"x\",\"d\":{\"e\":null} } "))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		key, text string
		kind      jsonx.Kind
	}{{"a", "1.50", jsonx.Number}, {"b\n", "[ {} ]", jsonx.Array}, {"c", `"x"`, jsonx.String}, {"d", `{"e":null}`, jsonx.Object}}
	for i, w := range want {
		m := d.Members[i]
		if m.Key != w.key || string(d.Bytes[m.Start:m.End]) != w.text || m.Kind != w.kind || d.Bytes[m.KeyStart] != '"' {
			t.Errorf("member %d is %+v", i, m)
		}
	}
	if v := d.Get("d").Get("e"); string(v.Raw) != "null" || string(d.Bytes[v.At:v.At+4]) != "null" {
		t.Errorf("nested value %q at %d", v.Raw, v.At)
	}
}

func TestScanCountsTextAndOpaqueData(t *testing.T) {
	image := "data:image/png;base64," + strings.Repeat("QUJD", 500)
	body := `{"m":[{"text":"` + strings.Repeat("word ", 300) + `"},{"url":"` + image + `"},{"data":"` + strings.Repeat("ab+/", 400) + `"}]}`
	d, err := jsonx.Scan([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if d.Stats.Opaque != 2 || d.Stats.TextBytes < 1500 || d.Stats.TextBytes > 1530 {
		t.Errorf("got %+v", d.Stats)
	}
}

func TestTextResolvesEscapes(t *testing.T) {
	rows := []struct{ in, want string }{
		{`""`, ""},
		{`"plain"`, "plain"},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{`"\u00e9\u20AC"`, "é€"},
		{`"a\ud83d\ude00b"`, "a😀b"},
		{`"\ud83d"`, "\ufffd"},
		{`"\ud83dx"`, "\ufffdx"},
		{`"\ude00\ud83d"`, "\ufffd\ufffd"},
		{`"\ud83d\ud83d\ude00"`, "\ufffd😀"},
	}
	var arena []byte
	for _, r := range rows {
		v, err := jsonx.Parse([]byte(r.in))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := v.Text(&arena); !ok || string(got) != r.want {
			t.Errorf("%s gave %q", r.in, got)
		}
		if got, ok := v.Str(); !ok || got != r.want || !v.Equal(r.want) || v.Equal(r.want+"x") {
			t.Errorf("%s gave %q", r.in, got)
		}
	}
}

func TestValuesOfOneKindAreNotAnother(t *testing.T) {
	rows := []struct {
		in   string
		kind jsonx.Kind
	}{
		{"null", jsonx.Null},
		{"true", jsonx.Bool},
		{"12", jsonx.Number},
		{`"12"`, jsonx.String},
		{"{}", jsonx.Object},
		{"[]", jsonx.Array},
		{"", jsonx.Invalid},
		{"?", jsonx.Invalid},
	}
	for _, r := range rows {
		v := jsonx.Value{Raw: jsonx.Raw(r.in)}
		if v.Kind() != r.kind {
			t.Errorf("%q is %v", r.in, v.Kind())
		}
		_, str := v.Str()
		_, num := v.Float()
		_, integer := v.Int()
		_, boolean := v.Bool()
		if str != (r.kind == jsonx.String) || num != (r.kind == jsonx.Number) || integer != num || boolean != (r.kind == jsonx.Bool) {
			t.Errorf("%q: string %v, number %v, integer %v, boolean %v", r.in, str, num, integer, boolean)
		}
		if v.Exists() != (r.in != "") || v.Get("a").Exists() {
			t.Errorf("%q: wrong existence", r.in)
		}
	}
}

func TestIntIsExact(t *testing.T) {
	rows := []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"-1", -1, true},
		{"9007199254740993", 9007199254740993, true},
		{"9223372036854775807", math.MaxInt64, true},
		{"-9223372036854775808", math.MinInt64, true},
		{"9223372036854775808", 0, false},
		{"-9223372036854775809", 0, false},
		{"99999999999999999999", 0, false},
		{"1.0", 0, false},
		{"1e3", 0, false},
		{"", 0, false},
		{"-", 0, false},
		{"01", 0, false},
	}
	for _, r := range rows {
		if n, ok := (jsonx.Value{Raw: jsonx.Raw(r.in)}).Int(); n != r.want || ok != r.ok {
			t.Errorf("%q gave %d, %v", r.in, n, ok)
		}
	}
}

func TestWalkingAValue(t *testing.T) {
	v, err := jsonx.Parse([]byte(` {"a": [1, "]", {"b": "}\""} , [] ] , "k\"" : {"x":1}} `))
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, e := range v.Get("a").Each {
		seen = append(seen, string(e.Raw))
	}
	if got := strings.Join(seen, "|"); got != `1|"]"|{"b": "}\""}|[]` {
		t.Errorf("elements %s", got)
	}
	if x := v.Get(`k"`).Get("x"); string(x.Raw) != "1" || x.At != 51 {
		t.Errorf("got %q at %d", x.Raw, x.At)
	}
}

func TestEditsSplice(t *testing.T) {
	const doc = `{ "a": 1, "b" : {"c": [2]} ,"d":"x" }`
	type op func(e *jsonx.Edits, d *jsonx.Doc)
	set := func(k, v string) op { return func(e *jsonx.Edits, d *jsonx.Doc) { e.Set(d, k, jsonx.Raw(v)) } }
	del := func(k string) op { return func(e *jsonx.Edits, d *jsonx.Doc) { e.Delete(d, k) } }
	nested := func(v string) op {
		return func(e *jsonx.Edits, d *jsonx.Doc) {
			c := d.Get("b").Get("c")
			e.Replace(c.At, c.At+len(c.Raw), jsonx.Raw(v))
		}
	}
	rows := []struct {
		name string
		doc  string
		ops  []op
		want string
	}{
		{"nothing", doc, nil, doc},
		{"replace", doc, []op{set("a", `[0]`)}, `{ "a": [0], "b" : {"c": [2]} ,"d":"x" }`},
		{"replace twice", doc, []op{set("a", `9`), set("a", `7`)}, `{ "a": 7, "b" : {"c": [2]} ,"d":"x" }`},
		{"append", doc, []op{set("e", `true`)}, `{ "a": 1, "b" : {"c": [2]} ,"d":"x","e":true }`},
		{"append twice", doc, []op{set("e", `1`), set("f\n", `2`), set("e", `3`)}, `{ "a": 1, "b" : {"c": [2]} ,"d":"x","e":3,"f\n":2 }`},
		{"delete first", doc, []op{del("a")}, `{ "b" : {"c": [2]} ,"d":"x" }`},
		{"delete middle", doc, []op{del("b")}, `{ "a": 1 ,"d":"x" }`},
		{"delete last", doc, []op{del("d")}, `{ "a": 1, "b" : {"c": [2]} }`},
		{"delete last and append", doc, []op{del("d"), set("e", `0`)}, `{ "a": 1, "b" : {"c": [2]},"e":0 }`},
		{"delete all", doc, []op{del("b"), del("a"), del("d")}, `{  }`},
		{"delete all and append", doc, []op{set("e", `0`), set("f", `1`), del("b"), del("d"), del("a")}, `{ "e":0,"f":1 }`},
		{"delete all but the middle", doc, []op{del("d"), del("a")}, `{ "b" : {"c": [2]} }`},
		{"delete the unknown", doc, []op{del("z")}, doc},
		{"append then delete", doc, []op{set("e", `0`), del("e")}, doc},
		{"delete then set", doc, []op{del("a"), set("a", `5`)}, `{ "a": 5, "b" : {"c": [2]} ,"d":"x" }`},
		{"set then delete", doc, []op{set("a", `5`), del("a")}, `{ "b" : {"c": [2]} ,"d":"x" }`},
		{"nested", doc, []op{nested(`"n"`)}, `{ "a": 1, "b" : {"c": "n"} ,"d":"x" }`},
		{"nested then set", doc, []op{nested(`"n"`), set("b", `0`)}, `{ "a": 1, "b" : 0 ,"d":"x" }`},
		{"set then nested", doc, []op{set("b", `0`), nested(`"n"`)}, `{ "a": 1, "b" : 0 ,"d":"x" }`},
		{"nested then delete", doc, []op{nested(`"n"`), del("b")}, `{ "a": 1 ,"d":"x" }`},
		{"empty object", ` { } `, []op{set("a", `1`)}, ` {"a":1 } `},
		{"empty object twice", `{}`, []op{set("a", `1`), set("b", `2`)}, `{"a":1,"b":2}`},
		{"one member deleted", `{"a":1}`, []op{del("a")}, `{}`},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			d, err := jsonx.Scan([]byte(r.doc))
			if err != nil {
				t.Fatal(err)
			}
			var e jsonx.Edits
			for _, op := range r.ops {
				op(&e, &d)
			}
			clone := e.Clone()
			clone.Set(&d, "clone", jsonx.Raw("1"))
			if got := string(e.AppendTo(nil, &d)); got != r.want || e.Len(&d) != len(got) {
				t.Errorf("got  %s (length said %d)\nwant %s", got, e.Len(&d), r.want)
			}
		})
	}
}

func TestAppendStringEscapesOnlyWhatItMust(t *testing.T) {
	rows := []struct{ in, want string }{
		{"", `""`},
		{"a<b>&é😀\u2028/", "\"a<b>&é😀\u2028/\""},
		{"\"\\\n\r\t\b\f\x00\x1f\x7f", `"\"\\\n\r\t\b\f\u0000\u001f` + "\x7f\""},
		{"a\xffb\xe2\x82", `"a\ufffdb\ufffd\ufffd"`},
		{"\ufffd", "\"\ufffd\""},
	}
	for _, r := range rows {
		if got := string(jsonx.AppendString(nil, r.in)); got != r.want {
			t.Errorf("%q gave %s", r.in, got)
		}
		if got := string(jsonx.AppendString(nil, []byte(r.in))); got != r.want {
			t.Errorf("bytes %q gave %s", r.in, got)
		}
	}
}

func FuzzScanAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"é\u00e9",null,true]}`, ` {"a":{}} x`, `{"a":"\ud800"}`, `{"a":1,"a":2}`, `{"` + "\xff" + `":0}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := jsonx.Valid(b)
		if want := json.Valid(b) && utf8.Valid(b); want != (err == nil) && !deep(b) {
			t.Fatalf("%q: %v, encoding/json says %v", b, err, want)
		}
		d, err := jsonx.Scan(b)
		if err != nil {
			return
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(b, &m) != nil || len(m) != len(d.Members) {
			t.Fatalf("%q: %d members, encoding/json has %d", b, len(d.Members), len(m))
		}
		for k, raw := range m {
			if got := d.Get(k); !bytes.Equal(got.Raw, raw) {
				t.Fatalf("%q: member %q is %q, want %q", b, k, got.Raw, raw)
			}
			var s string
			if got, ok := d.Get(k).Str(); ok && (json.Unmarshal(raw, &s) != nil || s != got) {
				t.Fatalf("%s reads as %q, want %q", raw, got, s)
			}
		}
	})
}

func deep(b []byte) bool {
	return bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) > jsonx.MaxDepth
}

// walk visits all of a value, valid or not, and checks each piece's offset.
func walk(t *testing.T, b []byte, v jsonx.Value, depth int) {
	t.Helper()
	if !bytes.Equal(b[v.At:v.At+len(v.Raw)], v.Raw) {
		t.Fatalf("%q is not at %d", v.Raw, v.At)
	}
	v.Str()
	v.Int()
	v.Float()
	v.Bool()
	if depth == 0 {
		return
	}
	for _, m := range v.Members {
		walk(t, b, m, depth-1)
	}
	for _, e := range v.Each {
		walk(t, b, e, depth-1)
	}
}

func FuzzWalkingGarbageIsSafe(f *testing.F) {
	for _, s := range []string{`{"a":`, `[[[,]]`, `"\`, `{"a":"b\u12`, `[}`, `{"a":1,"b"`, `"\ud800\u`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		walk(t, b, jsonx.Value{Raw: b}, 8)
		if v, err := jsonx.Parse(b); err == nil {
			walk(t, b, v, 8)
		}
	})
}

func FuzzEditsKeepTheRestAndStayValid(f *testing.F) {
	f.Add([]byte(`{"a":1, "b":[2] ,"c":"x" }`), []byte{0, 1, 2, 9, 14})
	f.Add([]byte(`{ }`), []byte{3, 4})
	f.Fuzz(func(t *testing.T, b, ops []byte) {
		d, err := jsonx.Scan(b)
		if err != nil || len(d.Members) > 6 || len(ops) > 12 {
			return
		}
		var e jsonx.Edits
		if got := e.AppendTo(nil, &d); !bytes.Equal(got, b) {
			t.Fatalf("no edits changed %q to %q", b, got)
		}
		want := map[string]string{}
		var order []string
		for _, m := range d.Members {
			want[m.Key], order = string(b[m.Start:m.End]), append(order, m.Key)
		}
		order = append(order, "new1", "new2")
		for i, op := range ops {
			key := order[int(op)%len(order)]
			switch op / 16 % 3 {
			case 0:
				e.Set(&d, key, jsonx.Raw(`"v`+string(rune('a'+i))+`"`))
				want[key] = `"v` + string(rune('a'+i)) + `"`
			case 1:
				e.Delete(&d, key)
				delete(want, key)
			default:
				if v := d.Get(key); v.Exists() && want[key] == string(v.Raw) {
					e.Replace(v.At, v.At+len(v.Raw), jsonx.Raw(`{"n":1}`))
					want[key] = `{"n":1}`
				}
			}
		}
		out := e.AppendTo(nil, &d)
		edited, err := jsonx.Scan(out)
		if err != nil {
			t.Fatalf("%q became %q: %v", b, out, err)
		}
		if len(edited.Members) != len(want) || e.Len(&d) != len(out) {
			t.Fatalf("%q has %d members, want %v", out, len(edited.Members), want)
		}
		for k, raw := range want {
			if got := string(edited.Get(k).Raw); got != raw {
				t.Fatalf("%q: %q is %q, want %q", out, k, got, raw)
			}
		}
	})
}

func FuzzAppendStringReadsBack(f *testing.F) {
	f.Add("a\"\\\n\x00é\xff😀")
	f.Fuzz(func(t *testing.T, s string) {
		b := jsonx.AppendString(nil, s)
		v, err := jsonx.Parse(b)
		if err != nil {
			t.Fatalf("%q became %q: %v", s, b, err)
		}
		if n := jsonx.EscapedLen(s) + len(`""`); n != len(b) {
			t.Fatalf("%q has %d bytes as %q, and not %d", s, n, b, len(b))
		}
		if got, _ := v.Str(); got != strings.ToValidUTF8(string([]rune(s)), "") {
			t.Fatalf("%q came back as %q", s, got)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, and says \\\"hello\\\".\\n", 16)
	turn := `{"role":"user","content":"` + text + `"},{"role":"assistant","content":[{"type":"text","text":"` + text + `"}]},`
	body := []byte(`{"model":"gpt-x","stream":true,"messages":[` + strings.Repeat(turn, 24) + `{"role":"user","content":"end"}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jsonx.Scan(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseChunk(b *testing.B) {
	chunk := []byte(`{"id":"chatcmpl-AbCdEfGhIjKlMnOpQrStUvWx","object":"chat.completion.chunk","created":1700000000,"model":"gpt-x-2026-01-01","service_tier":"default","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" hello"},"finish_reason":null}]}`)
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		v, err := jsonx.Parse(chunk)
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range v.Get("choices").Each {
			if !c.Get("delta").Get("content").Equal(" hello") {
				b.Fatal("wrong text")
			}
		}
	}
}
