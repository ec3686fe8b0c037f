package policy_test

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"testing"

	"bardo.money/gateway/policy"
)

// TestD50SavingsAreRoundedDownOnce: what was saved is the exact amount with the spread, rounded toward less, and never beyond what a Micro can hold.
func TestD50SavingsAreRoundedDownOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	most := big.NewInt(int64(policy.MaxMicro))
	for i := range 50_000 {
		c := policy.Pico(rng.Int64() >> rng.IntN(63))
		if i%2 == 0 {
			c = -c
		}
		spread := rng.IntN(30)
		exact := new(big.Int).Mul(big.NewInt(int64(c)), big.NewInt(int64(100+spread)))
		want := new(big.Int).Div(exact, big.NewInt(100_000_000)) // Euclidean: toward less for this divisor
		if want.CmpAbs(most) > 0 {
			want = most
		}
		if got := c.Saving(spread); big.NewInt(int64(got)).Cmp(want) != 0 {
			t.Fatalf("%d with %d percent: %d, want %d", c, spread, got, want)
		}
		if c > 0 && (c.Charge(spread) < c.Saving(spread) || c.Charge(spread) > c.Saving(spread)+1) {
			t.Fatalf("%d with %d percent: charged %d, saved %d", c, spread, c.Charge(spread), c.Saving(spread))
		}
	}
	for _, row := range []struct {
		c    policy.Pico
		want policy.Micro
	}{{0, 0}, {999_999, 0}, {1_000_000, 1}, {-1, -1}, {-1_000_000, -1}, {-1_000_001, -2}} {
		if got := row.c.Saving(0); got != row.want {
			t.Errorf("%d: %d, want %d", row.c, got, row.want)
		}
	}
}

func TestDifferencesOfCosts(t *testing.T) {
	for _, row := range []struct{ a, b, want policy.Pico }{
		{5, 3, 2}, {3, 5, -2}, {-1, 4, -4}, {policy.MaxPico, -1, policy.MaxPico}, {0, policy.MaxPico, -policy.MaxPico}, {policy.MaxPico, policy.MaxPico, 0},
	} {
		if got := row.a.Minus(row.b); got != row.want {
			t.Errorf("%d less %d: %d", row.a, row.b, got)
		}
	}
}

func TestAmountsAreReadAsTheyAreWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		want := policy.Micro(rng.Int64N(1<<50) - 1<<49)
		b, err := json.Marshal(struct{ A policy.Micro }{want})
		if err != nil {
			t.Fatal(err)
		}
		var have struct{ A policy.Micro }
		if err := json.Unmarshal(b, &have); err != nil || have.A != want {
			t.Fatalf("%s: %d %v", b, have.A, err)
		}
	}
	for _, s := range []string{`"1"`, `1e3`, `0.0000001`, `{}`} {
		if err := json.Unmarshal([]byte(s), new(policy.Micro)); err == nil {
			t.Errorf("%s is read", s)
		}
	}
}
