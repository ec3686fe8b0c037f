package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"bardo.money/gateway/internal/event"
)

// TestTheDocumentShowsTheEvents: docs/observability.md lists exactly the kinds of events that the program declares, with their fields.
func TestTheDocumentShowsTheEvents(t *testing.T) {
	const document = "../../docs/observability.md"
	var table strings.Builder
	table.WriteString("| event | when | fields |\n|---|---|---|\n")
	for i, e := range event.Catalogue() {
		if i > 0 && event.Catalogue()[i-1].Name == e.Name {
			t.Errorf("%s is declared twice", e.Name)
		}
		if e.Audit {
			e.When += " In the [audit log](#audit-log), too."
		}
		fmt.Fprintf(&table, "| `%s` | %s | `%s` |\n", e.Name, e.When, strings.Join(e.Fields, "`, `"))
	}
	page, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	got := between(t, string(page), "events", table.String())
	switch {
	case got == string(page):
	case *update:
		if err := os.WriteFile(document, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not have the events that there are: run `go test ./cmd/bardo -run TestTheDocumentShowsTheEvents -update`", document)
	}
}
