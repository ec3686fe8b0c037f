package piieval_test

import (
	"os"
	"strings"
	"testing"
	"unicode"

	"bardo.money/gateway/e2e/piieval"
	"bardo.money/gateway/extproc/pii"
)

func texts(t *testing.T) []piieval.Text {
	t.Helper()
	out, err := piieval.Texts()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func measured(t *testing.T, test bool) piieval.Result {
	t.Helper()
	r, err := piieval.Measure(t.Context(), piieval.Half(texts(t), test))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRecallAndPrecisionByType: no type may become worse than this.
func TestRecallAndPrecisionByType(t *testing.T) {
	for _, test := range []bool{false, true} {
		r := measured(t, test)
		for _, typ := range pii.Builtin {
			if c := r.Types[typ]; c.Labelled < 4 || c.Recall() < 0.6 || c.Precision() < 0.9 {
				t.Errorf("test half %v, %s: %d labelled, recall %.3f, precision %.3f", test, typ, c.Labelled, c.Recall(), c.Precision())
			}
		}
	}
}

// TestNearCopiesAreInOneHalf: texts that differ in their digits, case and punctuation alone are not in both halves, and both have about as many texts.
func TestNearCopiesAreInOneHalf(t *testing.T) {
	all := texts(t)
	halves := map[string]bool{}
	for i := range all {
		at := &all[i]
		plain, done := "", 0
		for _, v := range at.Values {
			plain, done = plain+at.Text[done:v.Start]+"#"+string(v.Type), v.End
		}
		plain += at.Text[done:]
		key := strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || r == '#' {
				return unicode.ToLower(r)
			}
			return -1
		}, plain)
		if half, ok := halves[key]; ok && half != at.Test {
			t.Errorf("both halves have %s", at.Text)
		}
		halves[key] = at.Test
	}
	tests, tuning := len(piieval.Half(all, true)), len(piieval.Half(all, false))
	if tests+tuning != len(all) || min(tests, tuning) < len(all)*2/5 {
		t.Errorf("%d texts for the test, %d for tuning", tests, tuning)
	}
}

func TestTheLabelledTexts(t *testing.T) {
	texts := texts(t)
	languages, negatives := map[string]bool{}, 0
	for i := range texts {
		languages[texts[i].Language] = true
		if len(texts[i].Values) == 0 {
			negatives++
		}
	}
	if len(texts) < 350 || len(languages) < 11 || negatives < 50 {
		t.Errorf("%d texts in %d languages, %d without values", len(texts), len(languages), negatives)
	}
}

func TestTheFiguresOfTheDocument(t *testing.T) {
	page, err := os.ReadFile("../../docs/pii.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range measured(t, true).Rows() {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/pii.md lacks\n%s", row)
		}
	}
}
