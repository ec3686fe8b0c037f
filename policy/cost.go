package policy

import (
	"errors"
	"math/big"
	"strings"
)

var picoPerUSD = big.NewInt(1_000_000_000_000)

// ParseCost reads an amount of dollars from a provider's answer, a JSON number that may have an exponent, rounded up to the next unit. ok is false if
// s is not such a number, negative, or more than a million dollars.
func ParseCost(s string) (c Pico, ok bool) {
	const longest, exponentDigits = 40, 2
	if s == "" || len(s) > longest || strings.Trim(s, "0123456789.eE+-") != "" {
		return 0, false
	}
	if _, exponent, has := strings.Cut(strings.ToLower(s), "e"); has && len(strings.Trim(exponent, "+-")) > exponentDigits {
		return 0, false
	}
	usd, ok := new(big.Rat).SetString(s)
	if !ok || usd.Sign() < 0 || usd.Cmp(big.NewRat(1_000_000, 1)) > 0 {
		return 0, false
	}
	n := new(big.Int).Mul(usd.Num(), picoPerUSD)
	n.Add(n, usd.Denom()).Sub(n, big.NewInt(1))
	return Pico(n.Quo(n, usd.Denom()).Int64()), true
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Pico) UnmarshalJSON(b []byte) error {
	n, ok := ParseCost(string(b))
	if !ok {
		return errors.New("expected an amount of dollars")
	}
	*c = n
	return nil
}
