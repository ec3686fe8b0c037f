package jsonx_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"bardo.money/gateway/internal/jsonx"
)

// told returns everything that a walk finds in a value.
func told(v jsonx.Value, depth int) (all []string) {
	all = append(all, fmt.Sprintf("%s at %d", v.Raw, v.At))
	if depth == 0 {
		return all
	}
	for k, m := range v.Members {
		all = append(append(all, fmt.Sprintf("member %q", k)), told(m, depth-1)...)
		if first := v.Get(string(k)); first.At > m.At {
			all = append(all, "a later member was found first")
		}
	}
	for i, e := range v.Each {
		all = append(append(all, fmt.Sprintf("element %d", i)), told(e, depth-1)...)
	}
	return all
}

// agrees compares the results of a Parser and of Parse.
func agrees(t *testing.T, p *jsonx.Parser, b []byte) {
	t.Helper()
	want, wantErr := jsonx.Parse(b)
	got, err := p.Parse(b)
	if !reflect.DeepEqual(err, wantErr) {
		t.Fatalf("%.200q: the error is %v, want %v", b, err, wantErr)
	}
	if g, w := told(got, 8), told(want, 8); !reflect.DeepEqual(g, w) {
		t.Fatalf("%.200q\ngot  %.2000q\nwant %.2000q", b, g, w)
	}
}

var parsed = []string{
	`{}`, `[]`, `""`, `0`, ` null `, "\t{ \"a\" :\n[ ] , \"\" : { } }\r\n",
	`{"a":[1,[2,{"b":"c"}],{}],"a\n\"":{"\u0061":{"x":1}},"a":2,"é":"\\","":""}`,
	`{"id":"x","choices":[{"index":0,"delta":{"content":"\"hi\"\n"},"finish_reason":null}],"usage":{"n":-1.5e3}}`,
	`{"a":[1,2`, `{"a":1}}`, `[1,2,]`, `{"a":"b`, "", `{"a" 1}`, "[\"\xff\"]",
	`[` + strings.Repeat(`{"k":[1,"two"]},`, 12) + `0]`,        // more than there is room for at first
	`[` + strings.Repeat(`{"k":[1,"two"]},`, 100) + `0]`,       // and more still
	`[` + strings.Repeat(`1,`, 5000) + `{"a":[true]}]`,         // more than is ever recorded
	`{"a":"` + strings.Repeat("x", 1<<20) + `","b":{"c":[1]}}`, // a large text
	strings.Repeat("[", 600), strings.Repeat(`[`, 300) + strings.Repeat(`]`, 300),
}

func TestAParserSaysWhatParseSays(t *testing.T) {
	for _, first := range parsed {
		var p jsonx.Parser
		agrees(t, &p, []byte(first))
		for _, text := range parsed {
			agrees(t, &p, []byte(text))
		}
	}
}

func TestAParserAllocatesOnce(t *testing.T) {
	var p jsonx.Parser
	event := []byte(`{"choices":[` + strings.Repeat(`{"delta":{"content":"hello","n":[1,2,3]}},`, 20) + `{}]}`)
	if n := testing.AllocsPerRun(100, func() {
		v, err := p.Parse(event)
		if err != nil || string(v.Get("choices").Raw) == "" {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for each text", n)
	}
}

func FuzzAParserSaysWhatParseSays(f *testing.F) {
	for _, text := range parsed {
		if len(text) < 1<<12 {
			f.Add([]byte(`{"before":[1,{"x":2}]}`), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, before, b []byte) {
		var p jsonx.Parser
		agrees(t, &p, before)
		agrees(t, &p, b)
		agrees(t, &p, b)
	})
}
