package cli

import (
	"testing"

	"bardo.money/gateway/policy"
)

func TestDollars(t *testing.T) {
	for _, c := range []struct {
		in   policy.Micro
		want string
	}{{0, "$0.000000"}, {1, "$0.000001"}, {5_500_000, "$5.500000"}, {-250_000, "-$0.250000"}} {
		if got := Dollars(c.in); got != c.want {
			t.Errorf("%d is shown as %s, want %s", c.in, got, c.want)
		}
	}
}
