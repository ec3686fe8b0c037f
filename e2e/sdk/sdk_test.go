// Package sdk runs the clients that people really use against the gateway, in front of fake providers.
package sdk

import (
	"os"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

func TestMain(m *testing.M) {
	code := gateway.Main(m)
	pythons.stop()
	os.Exit(code)
}
