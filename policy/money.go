package policy

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Micro is an amount in USDC base units: 1 USD = 1,000,000. Every balance, hold and charge is a Micro.
type Micro int64

// Pico is an exact cost in 1e-12 USD. A token at a price of whole micro-dollars per million tokens costs a whole
// number of Pico, so catalog arithmetic never rounds.
type Pico int64

// Price is USD per million tokens, in micro-dollars: $0.075 per million is 75,000. One token costs Price Pico.
type Price int64

const (
	picoPerMicro = 1_000_000
	// USD is one dollar.
	USD Micro = 1_000_000
)

// Cost is the exact price of n tokens.
func (p Price) Cost(n int64) Pico { return Pico(int64(p) * n) }

// Charge is the cost with spread percent on top, rounded up once to the next base unit. A cost of zero or less charges nothing.
func (c Pico) Charge(spreadPct int) Micro {
	if c <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(c), uint64(100+spreadPct)) //nolint:gosec // both are positive
	const unit = 100 * picoPerMicro
	if hi >= unit { // beyond int64: an absurd cost saturates instead of wrapping
		return Micro(1<<63 - 1)
	}
	q, r := bits.Div64(hi, lo, unit)
	if r > 0 {
		q++
	}
	if q > 1<<63-1 {
		return Micro(1<<63 - 1)
	}
	return Micro(q)
}

// String is the amount in dollars with six decimals, as in X-Bardo-Cost.
func (m Micro) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	return fmt.Sprintf("%s%d.%06d", sign, int64(m)/1_000_000, int64(m)%1_000_000)
}

// String is the cost in dollars, exact, without trailing zeros: 1.06376125.
func (c Pico) String() string {
	sign := ""
	if c < 0 {
		sign, c = "-", -c
	}
	s := fmt.Sprintf("%d.%012d", int64(c)/1_000_000_000_000, int64(c)%1_000_000_000_000)
	return sign + strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// MarshalJSON writes the amount as a JSON number of dollars.
func (m Micro) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// MarshalJSON writes the cost as a JSON number of dollars.
func (c Pico) MarshalJSON() ([]byte, error) { return []byte(c.String()), nil }

// ParseUSD reads a decimal amount of dollars ("12", "0.5", "1e3" is refused) with at most six decimals.
func ParseUSD(s string) (Micro, error) {
	n, err := parseDecimal(s)
	return Micro(n), err
}

// ParsePrice reads a price in dollars per million tokens with at most six decimals.
func ParsePrice(s string) (Price, error) {
	n, err := parseDecimal(s)
	return Price(n), err
}

func parseDecimal(s string) (int64, error) {
	digits, neg := s, false
	if strings.HasPrefix(digits, "-") {
		digits, neg = digits[1:], true
	}
	whole, frac, _ := strings.Cut(digits, ".")
	if len(frac) > 6 {
		if strings.Trim(frac[6:], "0") != "" {
			return 0, fmt.Errorf("%q has more than six decimals", s)
		}
		frac = frac[:6]
	}
	if whole == "" && frac == "" {
		return 0, fmt.Errorf("%q is not an amount", s)
	}
	n, err := strconv.ParseUint("0"+whole+frac+strings.Repeat("0", 6-len(frac)), 10, 62)
	if err != nil {
		return 0, fmt.Errorf("%q is not a decimal amount", s)
	}
	if neg {
		return -int64(n), nil
	}
	return int64(n), nil
}
