package main

import (
	"os"
	"strings"
	"testing"

	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/internal/config"
)

// configDocument is the user documentation of the configuration. The text between its markers is generated from the schema and the kinds of providers.
const configDocument = "../../docs/configuration.md"

func TestTheDocumentShowsTheSchema(t *testing.T) {
	page, err := os.ReadFile(configDocument)
	if err != nil {
		t.Fatal(err)
	}
	got := string(page)
	for name, text := range config.Tables(parts.Kinds()...) {
		got = between(t, got, name, text)
	}
	if got == string(page) {
		return
	}
	if *update {
		if err := os.WriteFile(configDocument, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s is not what the schema says: run `make golden`", configDocument)
}

// between replaces the text between a name's markers.
func between(t *testing.T, page, name, text string) string {
	t.Helper()
	begin, end := "<!-- generated: "+name+" -->\n", "<!-- end: "+name+" -->\n"
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("the document has no markers %q and %q", begin, end)
	}
	return before + begin + text + end + after
}
