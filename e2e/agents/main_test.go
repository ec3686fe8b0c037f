// Package agents runs a gateway that reads registries of agents (ERC-8004) on a chain of its own.
package agents

import (
	"os"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

func TestMain(m *testing.M) { os.Exit(gateway.Main(m)) }
