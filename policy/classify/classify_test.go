package classify_test

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"bardo.money/gateway/policy/classify"
)

// small is a set of two dimensions.
var small = []classify.Prototype{
	{Kind: classify.Domain, Name: "code", Vector: []float32{1, 0}},
	{Kind: classify.Domain, Name: "maths", Bias: 0.1, Vector: []float32{0, 1}},
	{Kind: classify.Intent, Name: "ask", Vector: []float32{0, 2}},
	{Kind: classify.Intent, Name: "create", Vector: []float32{2, 0}},
	{Kind: classify.Level, Bias: 1.5, Vector: []float32{3, -3}},
}

func file(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := classify.Write(&b, "tag", small); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestR11AVectorIsJudgedByThePrototypes(t *testing.T) {
	set, err := classify.Read(file(t))
	if err != nil || set.Tag != "tag" {
		t.Fatal(err)
	}
	for _, row := range []struct {
		v              []float32
		domain, intent string
		margin, level  float64
	}{
		{[]float32{1, 0}, "code", "create", 0.9, 3}, // no level is above the last
		{[]float32{0, 1}, "maths", "ask", 1.1, 0},
		{[]float32{0.5, 0.4}, "code", "create", 0, 1.8},
	} {
		r, ok := set.Classify(row.v)
		if !ok || r.Domain != row.domain || r.Intent != row.intent || math.Abs(r.DomainMargin-row.margin) > 1e-6 || math.Abs(r.Level-row.level) > 1e-6 {
			t.Errorf("%v: %+v", row.v, r)
		}
	}
	if other, err := classify.Prototypes(); err != nil || set.Near(other) || !set.Near(set) {
		t.Errorf("nearness of sets: %v", err)
	}
	if _, ok := set.Classify([]float32{1}); ok {
		t.Error("a vector of another size was judged")
	}
}

func TestR11TheBuiltInPrototypesHaveEachName(t *testing.T) {
	set, err := classify.Prototypes()
	if err != nil || set.Tag == "" {
		t.Fatal(err)
	}
	if _, ok := set.Classify(make([]float32, 384)); !ok {
		t.Error("they are not of the usual model's size")
	}
}

func TestR11ABrokenFileIsAnError(t *testing.T) {
	good := file(t)
	for name, b := range map[string][]byte{
		"nothing": nil, "no header": []byte("x\n"), "cut off": good[:len(good)-1], "too long": append(slices.Clone(good), 0), "no end of the header": []byte("{}"),
		"no dimensions": []byte("{\"dims\":0}\n"), "too many": []byte(`{"dims":9999999}` + "\n"),
	} {
		if _, err := classify.Read(b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestR11OnlyEnglishIsJudged(t *testing.T) {
	for text, want := range map[string]bool{
		"What is the capital of Australia?": true, "Write a function that reverses a string.": true, "Explain why the sky is blue, and derive the law.": true,
		"": false, "hi": false, "¿Qué es una función?": false, "Schreibe eine Funktion, die eine Liste umdreht.": false, "この文を英語に訳してください。": false,
		"Напиши функцию": false, "Scrivi una breve email per spostare la riunione a giovedì.": false, "fn main() { println!(); }": false,
		"これはペンです the of to": false,
	} {
		if got := classify.English(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestR11TheBeginningOfAPromptIsJudged(t *testing.T) {
	for prompt, want := range map[string]string{
		"  a b \n": "a b", "Summarize this:\n\nlong text": "Summarize this:", strings.Repeat("é", 400): strings.Repeat("é", 160), "a" + strings.Repeat("é", 400): "a" + strings.Repeat("é", 159),
	} {
		if got := classify.Text(prompt); got != want {
			t.Errorf("%.20q: %.20q, %d bytes", prompt, got, len(got))
		}
	}
}

// FuzzRead: any file is an error, or a set that classifies.
func FuzzRead(f *testing.F) {
	f.Add(file(f))
	f.Add([]byte("{\"dims\":1,\"prototypes\":[{\"kind\":\"level\"}]}\n0000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		set, err := classify.Read(b)
		if err != nil {
			return
		}
		for _, n := range []int{0, 1, 2, 384} {
			if r, ok := set.Classify(make([]float32, n)); ok && (r.Level < 0 || r.Level > 3) {
				t.Errorf("level %f", r.Level)
			}
		}
	})
}

// FuzzText: the classified text is short, and part of the prompt.
func FuzzText(f *testing.F) {
	f.Add("What is the time?\n\nx")
	f.Fuzz(func(t *testing.T, prompt string) {
		got := classify.Text(prompt)
		if len(got) > 320 || utf8.ValidString(prompt) && !strings.Contains(prompt, got) {
			t.Errorf("%d bytes of %d", len(got), len(prompt))
		}
		_ = classify.English(prompt)
	})
}
