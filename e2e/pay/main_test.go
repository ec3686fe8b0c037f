// Package pay pays a running gateway on a chain of its own: with clients of others, and with payments that are wrong in one thing.
package pay

import (
	"os"
	"testing"

	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	code := gateway.Main(m)
	postgrestest.StopShared()
	os.Exit(code)
}
