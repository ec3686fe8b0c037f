package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoCommandOpensTheLedgerBesideAGateway: commands use the admin API of the running gateway (withBooks).
func TestNoCommandOpensTheLedgerBesideAGateway(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"withLedger(", ".OpenLedger("} {
			if f != "store.go" && !strings.HasSuffix(f, "_test.go") && strings.Contains(string(source), word) {
				t.Errorf("%s opens the ledger: %s", f, word)
			}
		}
	}
	source, err := os.ReadFile("store.go")
	if n := strings.Count(string(source), "withLedger("); err != nil || n != 2 {
		t.Errorf("withLedger is called %d times, %v: by withBooks alone", n-1, err)
	}
}
