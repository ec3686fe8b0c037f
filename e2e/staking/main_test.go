// Package staking runs a gateway whose key at Venice follows a position of staked VVV on a chain of its own.
package staking

import (
	"os"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

func TestMain(m *testing.M) { os.Exit(gateway.Main(m)) }
