// Package envoytest finds the Envoy that tests run against. It is imported by tests only.
package envoytest

import (
	"os"
	"path/filepath"
	"testing"
)

// Binary is the path of Envoy: $ENVOY_BIN, else what `make tools` put under the module's root. Without one the test
// fails: the data path is not tested by skipping it.
func Binary(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("ENVOY_BIN")
	if path == "" {
		path = filepath.Join(root(tb), ".tools", "envoy", "envoy")
	}
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("no Envoy to test with (%v): run `make tools`, or set ENVOY_BIN", err)
	}
	return path
}

func root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	tb.Fatal("no go.mod above the test")
	return ""
}
