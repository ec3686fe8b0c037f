// Package pay pays a running gateway on a chain of its own: with clients of others, and with payments that are wrong in one thing.
package pay

import (
	"os"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

func TestMain(m *testing.M) { os.Exit(gateway.Main(m)) }
