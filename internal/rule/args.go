package rule

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"strings"
	"unicode"

	"bardo.money/gateway/internal/jsonx"
)

// Limits of arguments.
const (
	MaxArgs   = 1 << 20 // bytes
	maxDepth  = 64
	maxSafe   = 1 << 53 // below it, all whole numbers are float64
	maxDigits = 512     // of a larger number
	maxBits   = 4096    // that a number of maxDigits has at most
)

// Errors of arguments. None quotes them.
var (
	ErrTooLong  = errors.New("the arguments are too long to be looked at")
	errNoObject = errors.New("the arguments are no JSON object")
	errTwice    = errors.New("the arguments have a member twice, or in another case")
	errDepth    = errors.New("the arguments are nested too deeply")
	errNumber   = errors.New("the arguments have a number that cannot be read exactly")
)

// Args parses the arguments of a call: a JSON object, as maps, lists, strings, bools, nil and numbers (float64; int64 or uint64 for whole numbers from 2^53).
// An empty text is an empty object. JSON that readers interpret differently is an error: a duplicate member, also in another case (D-85), and a number
// from 2^53 that none of these types has exactly.
func Args(b []byte) (map[string]any, error) {
	if len(b) > MaxArgs {
		return nil, ErrTooLong
	}
	if len(strings.TrimSpace(string(b))) == 0 {
		return map[string]any{}, nil
	}
	v, err := jsonx.Parse(b)
	if err != nil || v.Kind() != jsonx.Object {
		return nil, errNoObject
	}
	return object(v, 0)
}

// TextArgs returns the arguments of a tool whose input is a text.
func TextArgs(text []byte) (map[string]any, error) {
	if len(text) > MaxArgs {
		return nil, ErrTooLong
	}
	return map[string]any{"input": string(text)}, nil
}

func object(v jsonx.Value, depth int) (map[string]any, error) {
	if depth == maxDepth {
		return nil, errDepth
	}
	out, folded := map[string]any{}, map[string]bool{}
	for key, m := range v.Members {
		name := string(key)
		fold := foldedName(name)
		if folded[fold] {
			return nil, errTwice
		}
		folded[fold] = true
		value, err := anyValue(m, depth+1)
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, nil
}

// foldedName is equal for names that differ only in case by Unicode's simple folding: each letter is replaced by the first of its case variants.
func foldedName(name string) string {
	return strings.Map(func(r rune) rune {
		first := r
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			first = min(first, o)
		}
		return first
	}, name)
}

func list(v jsonx.Value, depth int) ([]any, error) {
	if depth == maxDepth {
		return nil, errDepth
	}
	out := []any{}
	for _, e := range v.Each {
		value, err := anyValue(e, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	return out, nil
}

func anyValue(v jsonx.Value, depth int) (any, error) {
	switch v.Kind() {
	case jsonx.Object:
		return object(v, depth)
	case jsonx.Array:
		return list(v, depth)
	case jsonx.String:
		s, _ := v.Str()
		return s, nil
	case jsonx.Number:
		return number(v)
	case jsonx.Bool:
		b, _ := v.Bool()
		return b, nil
	case jsonx.Null, jsonx.Invalid:
	}
	return nil, nil //nolint:nilnil // JSON's null
}

// number returns a number. A whole number from 2^53 is an integer: as floating-point numbers, 2^53 and 2^53+1 are equal.
func number(v jsonx.Value) (any, error) {
	f, ok := v.Float()
	switch {
	case !ok:
		return nil, errNumber
	case math.Abs(f) < maxSafe:
		return f, nil
	case len(v.Raw) > maxDigits:
		return nil, errNumber
	}
	exact, _, err := big.ParseFloat(string(v.Raw), 10, maxBits, big.ToNearestEven)
	if err != nil {
		return nil, errNumber
	}
	if n, is := exact.Int64(); is == big.Exact {
		return n, nil
	}
	if n, is := exact.Uint64(); is == big.Exact && exact.IsInt() { // Uint64 also says Exact of some fractions
		return n, nil
	}
	if _, is := exact.Float64(); is == big.Exact || math.Abs(f) > math.MaxUint64 && bytes.ContainsAny(v.Raw, ".eE") { // the latter is in floating point for all readers
		return f, nil
	}
	return nil, errNumber
}
