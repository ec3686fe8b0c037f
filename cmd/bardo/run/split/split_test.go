package split_test

import (
	"testing"

	"bardo.money/gateway/cmd/bardo/run/split"
)

func TestEachNodeHasASecretOfItsOwn(t *testing.T) {
	a, b := split.EgressSecret("master", "gw-1"), split.EgressSecret("master", "gw-2")
	if a == b || a != split.EgressSecret("master", "gw-1") || a == split.EgressSecret("another", "gw-1") || len(a) < 26 {
		t.Errorf("%q and %q", a, b)
	}
}
