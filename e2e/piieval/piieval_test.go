package piieval_test

import (
	"os"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/piieval"
	"bardo.money/gateway/extproc/pii"
)

func measured(t *testing.T) piieval.Result {
	t.Helper()
	texts, err := piieval.Texts()
	if err != nil {
		t.Fatal(err)
	}
	r, err := piieval.Measure(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRecallAndPrecisionByType: no type may become worse than this.
func TestRecallAndPrecisionByType(t *testing.T) {
	r := measured(t)
	for _, typ := range pii.Builtin {
		if c := r.Types[typ]; c.Labelled < 9 || c.Recall() < 0.7 || c.Precision() < 0.95 {
			t.Errorf("%s: %d labelled, recall %.3f, precision %.3f", typ, c.Labelled, c.Recall(), c.Precision())
		}
	}
	for _, miss := range r.Misses {
		t.Log(miss)
	}
}

func TestTheLabelledTexts(t *testing.T) {
	texts, err := piieval.Texts()
	if err != nil {
		t.Fatal(err)
	}
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
	for _, row := range measured(t).Rows() {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/pii.md lacks\n%s", row)
		}
	}
}
