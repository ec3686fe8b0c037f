package policy

import (
	"bytes"
	"fmt"
	"math"
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

// Cost returns the exact price of n tokens; 0 for a negative price or count, at most MaxPico.
func (p Price) Cost(n int64) Pico { return Pico(times(int64(p), n)) }

// The largest amounts. Arithmetic on money saturates there instead of wrapping.
const (
	MaxPico  Pico  = math.MaxInt64
	MaxMicro Micro = math.MaxInt64
)

// Plus returns the sum of costs, at most MaxPico. A negative cost counts as zero.
func (c Pico) Plus(more ...Pico) Pico {
	sum := max(c, 0)
	for _, m := range more {
		if m = max(m, 0); m > MaxPico-sum {
			return MaxPico
		}
		sum += m
	}
	return sum
}

// Times returns n times the cost, at most MaxPico; 0 for a negative n.
func (c Pico) Times(n int64) Pico { return Pico(times(int64(c), n)) }

// Pico converts the amount to a cost; a negative one to 0.
func (m Micro) Pico() Pico { return Pico(times(int64(m), picoPerMicro)) }

// Plus returns the sum of two amounts; it saturates at the largest and smallest Micro.
func (m Micro) Plus(more Micro) Micro {
	switch {
	case more > 0 && m > MaxMicro-more:
		return MaxMicro
	case more < 0 && m < -MaxMicro-more:
		return -MaxMicro
	}
	return m + more
}

// AddTokens returns the sum of two counts of tokens, saturating; a negative count counts as zero.
func AddTokens(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// TimesTokens returns n times a count of tokens, saturating; 0 if either is negative.
func TimesTokens(tokens, n int64) int64 { return times(tokens, n) }

// times returns the product of two numbers, saturating; a negative number counts as zero.
func times(a, b int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi == 0 && lo <= math.MaxInt64 {
		return int64(lo)
	}
	return math.MaxInt64
}

// Charge returns the cost with spread percent on top, rounded up once to the next base unit. A cost of zero or less charges nothing.
func (c Pico) Charge(spreadPct int) Micro {
	m, rest := c.withSpread(spreadPct)
	if rest {
		m = m.Plus(1)
	}
	return m
}

// withSpread returns the cost with spread percent on top in whole base units, at most MaxMicro; rest reports a remainder.
func (c Pico) withSpread(spreadPct int) (m Micro, rest bool) {
	if c <= 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(c), uint64(100+max(spreadPct, 0)))
	const unit = 100 * picoPerMicro
	if hi >= unit { // beyond int64: an implausible cost saturates instead of wrapping
		return MaxMicro, false
	}
	q, r := bits.Div64(hi, lo, unit)
	if q > math.MaxInt64 {
		return MaxMicro, false
	}
	return Micro(q), r > 0
}

// Minus returns the difference of two costs, which may be negative. A negative cost counts as zero.
func (c Pico) Minus(d Pico) Pico { return max(c, 0) - max(d, 0) }

// Saving returns a difference of costs with spread percent on top, rounded down once to a base unit: savings are never overstated, and losses never
// understated.
func (c Pico) Saving(spreadPct int) Micro {
	if c < 0 {
		return -(-max(c, -MaxPico)).Charge(spreadPct)
	}
	m, _ := c.withSpread(spreadPct)
	return m
}

// Saving is what one layer of the pipeline saved on a request: tokens that were not billed, and money, which is negative if the layer cost more than
// it saved.
type Saving struct {
	Layer  string `json:"layer"`
	Tokens int64  `json:"tokens"`
	Amount Micro  `json:"usd"`
}

// String returns the amount in dollars with six decimals, as in X-Bardo-Cost.
func (m Micro) String() string {
	var b [24]byte
	return string(m.AppendTo(b[:0]))
}

// AppendTo appends the amount in the format of String.
func (m Micro) AppendTo(b []byte) []byte { return appendDecimal(b, int64(m), 1_000_000) }

// String returns the cost in dollars, exact, without trailing zeros: 1.06376125.
func (c Pico) String() string {
	var b [24]byte
	return string(c.AppendTo(b[:0]))
}

// AppendTo appends the cost in the format of String.
func (c Pico) AppendTo(b []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimRight(appendDecimal(b, int64(c), 1_000_000_000_000), "0"), []byte{'.'})
}

// appendDecimal appends n/unit with as many decimals as the unit, a power of ten, has zeros.
func appendDecimal(b []byte, n, unit int64) []byte {
	if n < 0 {
		b, n = append(b, '-'), -n
	}
	b = append(strconv.AppendInt(b, n/unit, 10), '.')
	for rest, digit := n%unit, unit/10; digit > 0; digit /= 10 {
		b = append(b, byte('0'+rest/digit%10))
	}
	return b
}

// MarshalJSON writes the amount as a JSON number of dollars.
func (m Micro) MarshalJSON() ([]byte, error) { return m.AppendTo(nil), nil }

// UnmarshalJSON reads what MarshalJSON writes: a JSON number of dollars with at most six decimals.
func (m *Micro) UnmarshalJSON(b []byte) (err error) {
	if string(b) == "null" {
		return nil
	}
	*m, err = ParseUSD(string(b))
	return err
}

// MarshalJSON writes the cost as a JSON number of dollars.
func (c Pico) MarshalJSON() ([]byte, error) { return c.AppendTo(nil), nil }

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
