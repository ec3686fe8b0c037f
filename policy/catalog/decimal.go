package catalog

import (
	"math/big"
	"strings"

	"bardo.money/gateway/policy"
)

// maxPrice limits a stated price, as the configuration does: 10,000 USD per million tokens, or per request.
const maxPrice = 10_000

// Powers of ten for providers' prices. Providers write decimals in their own units, sometimes with a float's rounding noise.
const (
	perToken   = 12 // USD per token to micro-dollars per million tokens
	perMillion = 6  // USD per million tokens, or USD per item, to micro-dollars
)

// scaled returns a decimal number times a power of ten, to the nearest integer. ok is false if s is not a number, negative, or more than bound.
func scaled(s string, power, bound int64) (n int64, ok bool) {
	mantissa, exponent, ok := decimal(s)
	if !ok {
		return 0, false
	}
	exponent += power
	v, ok := new(big.Int).SetString(mantissa, 10)
	if !ok {
		return 0, false
	}
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(exponent, -exponent)), nil)
	if exponent >= 0 {
		v.Mul(v, ten)
	} else {
		half := new(big.Int).Rsh(ten, 1)
		v.Add(v, half).Quo(v, ten)
	}
	if !v.IsInt64() || v.Int64() > bound {
		return 0, false
	}
	return v.Int64(), true
}

// decimal splits a number into digits and exponent: 0.00025e-1 is "000025" and -6. It reads no more digits than a price needs.
func decimal(s string) (mantissa string, exponent int64, ok bool) {
	const most = 48
	if s == "" || len(s) > most {
		return "", 0, false
	}
	number, power, scientific := strings.Cut(strings.ToLower(s), "e")
	if scientific {
		if exponent, ok = small(power); !ok {
			return "", 0, false
		}
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(number, "+"), ".")
	mantissa = whole + fraction
	if mantissa == "" || strings.Trim(mantissa, "0123456789") != "" {
		return "", 0, false
	}
	return mantissa, exponent - int64(len(fraction)), true
}

// small parses an integer from -99 to 99.
func small(s string) (n int64, ok bool) {
	negative := strings.HasPrefix(s, "-")
	digits := strings.TrimLeft(s, "+-")
	if digits == "" || len(digits) > 2 || len(s)-len(digits) > 1 {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if !digit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// price converts an amount of dollars to a price; nil if it is none. power is its unit.
func price(amount string, power int64) *policy.Price {
	n, ok := scaled(amount, power, maxPrice*int64(policy.USD))
	if !ok {
		return nil
	}
	p := policy.Price(n)
	return &p
}

// dollars converts an amount of dollars per request or search to the nearest base unit; nil if it is none.
func dollars(amount string) *policy.Micro {
	n, ok := scaled(amount, perMillion, maxPrice*int64(policy.USD))
	if !ok {
		return nil
	}
	m := policy.Micro(n)
	return &m
}
