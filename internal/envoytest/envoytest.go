// Package envoytest finds the Envoy that tests run against. Only tests and the programs below e2e import it.
package envoytest

import (
	"os"
	"path/filepath"
	"testing"

	"bardo.money/gateway/internal/proctest"
)

// Path returns the expected path of Envoy: $ENVOY_BIN, else where `make tools` installed it below the module's root.
func Path() (string, error) {
	if path := os.Getenv("ENVOY_BIN"); path != "" {
		return path, nil
	}
	root, err := proctest.Root()
	return filepath.Join(root, ".tools", "envoy", "envoy"), err
}

// Binary is Path. If there is no Envoy the test fails instead of being skipped: nothing else covers the data path.
func Binary(tb testing.TB) string {
	tb.Helper()
	path, err := Path()
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("no Envoy to test with (%v): run `make tools`, or set ENVOY_BIN", err)
	}
	return path
}
