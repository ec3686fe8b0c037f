package policy

import (
	"math"
	"math/big"
	"testing"
)

// FuzzMoneySaturates: arithmetic on money equals that of unbounded integers where the result fits, and saturates at the largest amount otherwise; it
// never wraps, and nothing becomes negative.
func FuzzMoneySaturates(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 1_000_000, math.MaxInt64, math.MinInt64, math.MaxInt64 / 2, 9_000_000_000_000_000} {
		f.Add(n, int64(3), n)
		f.Add(int64(15_000_000), n, int64(1))
		f.Add(n, n, int64(math.MaxInt64))
		f.Add(int64(math.MinInt64), n, int64(math.MinInt64))
	}
	f.Add(int64(1_200_000_000_000_000_000), int64(1_000_000_000), int64(0)) // more than an int64 holds, and less than a uint64 does
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
		for _, spread := range []int64{b % 1000, b} {
			units := new(big.Int).Mul(pos(a), new(big.Int).Add(pos(spread), big.NewInt(100)))
			charge := sat(units.Div(units.Add(units, big.NewInt(100*picoPerMicro-1)), big.NewInt(100*picoPerMicro))) // rounded up
			if got := Pico(a).Charge(int(spread)); int64(got) != charge {
				t.Errorf("Pico(%d).Charge(%d) = %d, want %d", a, spread, got, charge)
			}
		}
		m, more := Micro(max(a, -math.MaxInt64)), Micro(max(c, -math.MaxInt64)) // no amount is below
		both := new(big.Int).Add(big.NewInt(int64(m)), big.NewInt(int64(more)))
		if got, want := m.Plus(more), max(min(both.Int64(), math.MaxInt64), -math.MaxInt64); both.IsInt64() && int64(got) != want {
			t.Errorf("Micro(%d).Plus(%d) = %d, want %d", m, more, got, want)
		} else if !both.IsInt64() && got != MaxMicro*Micro(both.Sign()) {
			t.Errorf("Micro(%d).Plus(%d) = %d, which wrapped", m, more, got)
		}
	})
}
