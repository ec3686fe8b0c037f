package policy

import (
	"math"
	"math/big"
	"testing"
)

// FuzzMoneySaturates: arithmetic on money agrees with that of unbounded integers where the result fits, and ends at the largest amount
// where it does not; it never wraps, and nothing becomes negative.
func FuzzMoneySaturates(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 1_000_000, math.MaxInt64, math.MinInt64, math.MaxInt64 / 2, 9_000_000_000_000_000} {
		f.Add(n, int64(3), n)
		f.Add(int64(15_000_000), n, int64(1))
	}
	f.Fuzz(func(t *testing.T, a, b, c int64) {
		pos := func(n int64) *big.Int { return big.NewInt(max(n, 0)) }
		sat := func(n *big.Int) int64 {
			if n.IsInt64() {
				return n.Int64()
			}
			return math.MaxInt64
		}
		product := sat(new(big.Int).Mul(pos(a), pos(b)))
		sum := sat(new(big.Int).Add(pos(a), new(big.Int).Add(pos(b), pos(c))))
		if got := Price(a).Cost(b); int64(got) != product {
			t.Errorf("Price(%d).Cost(%d) = %d, want %d", a, b, got, product)
		}
		if got := Pico(a).Times(b); int64(got) != product {
			t.Errorf("Pico(%d).Times(%d) = %d, want %d", a, b, got, product)
		}
		if got := TimesTokens(a, b); got != product {
			t.Errorf("TimesTokens(%d, %d) = %d, want %d", a, b, got, product)
		}
		if got := Pico(a).Plus(Pico(b), Pico(c)); int64(got) != sum {
			t.Errorf("Pico(%d).Plus(%d, %d) = %d, want %d", a, b, c, got, sum)
		}
		if got, want := AddTokens(AddTokens(a, b), c), sum; got != want {
			t.Errorf("AddTokens(%d, %d, %d) = %d, want %d", a, b, c, got, want)
		}
		p := Prices{Input: Price(a), Output: Price(b), CachedInput: Price(c), Above: []Above{{Tokens: 10, Input: Price(b), Output: Price(c)}}}
		if got := p.Cost(a, b, c, a, b); got < 0 {
			t.Errorf("%+v costs %d", p, got)
		}
		if got := Pico(a).Charge(int(b % 1000)); got < 0 || a > 0 && got == 0 {
			t.Errorf("Pico(%d).Charge(%d) = %d", a, b%1000, got)
		}
	})
}
