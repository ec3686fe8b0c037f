package rule

import (
	"errors"
	"fmt"
	"math"

	"cel.dev/cel-go/cel"
)

// Usage has the variables of an expression about the usage of one request: what it used, or may use.
type Usage struct {
	Input      int64 // tokens of the prompt, cached and newly cached ones included
	Cached     int64 // those of Input that were read from the provider's cache
	CacheWrite int64 // those of Input that were written to it
	Output     int64 // tokens of the answer, reasoning included
	Reasoning  int64 // those of Output that are reasoning
	CostUSD    float64

	Model     string
	Provider  string
	Subsystem string
	Key       string // the id of the caller's API key
	KeyName   string
	Tier      string
}

// usages are the expressions about usage. The variables are those of Usage.ResolveName.
var usages = language{bounded: true, variables: map[string]*cel.Type{
	"input_tokens": cel.IntType, "cached_tokens": cel.IntType, "cache_write_tokens": cel.IntType, "output_tokens": cel.IntType,
	"reasoning_tokens": cel.IntType, "total_tokens": cel.IntType, "cost_usd": cel.DoubleType, "model": cel.StringType, "provider": cel.StringType,
	"subsystem": cel.StringType, "key": cel.StringType, "key_name": cel.StringType, "tier": cel.StringType,
}}

// Parent implements cel's activation.
func (*Usage) Parent() cel.Activation { return nil }

// ResolveName implements cel's activation.
func (u *Usage) ResolveName(name string) (value any, ok bool) {
	switch name {
	case "input_tokens":
		return u.Input, true
	case "cached_tokens":
		return u.Cached, true
	case "cache_write_tokens":
		return u.CacheWrite, true
	case "output_tokens":
		return u.Output, true
	case "reasoning_tokens":
		return u.Reasoning, true
	case "total_tokens":
		return u.Input + u.Output, true
	case "cost_usd":
		return u.CostUSD, true
	case "model":
		return u.Model, true
	case "provider":
		return u.Provider, true
	case "subsystem":
		return u.Subsystem, true
	case "key":
		return u.Key, true
	case "key_name":
		return u.KeyName, true
	case "tier":
		return u.Tier, true
	}
	return nil, false
}

// Measure is an expression about usage whose value is a number. Safe for concurrent use.
type Measure struct {
	program cel.Program
	uses    map[string]bool
}

// ParseMeasure parses an expression in CEL, and evaluates it for a request that used nothing and for one that used some of everything. Safe for concurrent
// use. The error is one line.
func ParseMeasure(text string) (*Measure, error) {
	program, uses, err := usages.compile(text, "a number", cel.IntType, cel.UintType, cel.DoubleType)
	if err != nil {
		return nil, err
	}
	m := &Measure{program, uses}
	return m, tryUsages(func(u *Usage) error { _, err := m.Of(u); return err })
}

var errNoNumber = errors.New("its value is not a number")

// Of returns the value for a usage, which is finite. The error means that it cannot be evaluated, for example because of a division by zero.
//
// A nil Measure has no value.
func (m *Measure) Of(u *Usage) (float64, error) {
	if m == nil {
		return 0, errNoNumber
	}
	out, _, err := m.program.Eval(u)
	if err != nil {
		return 0, err
	}
	var n float64
	switch v := out.Value().(type) {
	case int64:
		n = float64(v)
	case uint64:
		n = float64(v)
	case float64:
		n = v
	default:
		return 0, errNoNumber
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, errNoNumber
	}
	return n, nil
}

// Uses reports whether the expression names a variable.
func (m *Measure) Uses(variable string) bool { return m != nil && m.uses[variable] }

// Filter is a condition on usage. Safe for concurrent use.
type Filter struct {
	program cel.Program
	uses    map[string]bool
}

// ParseFilter parses a condition in CEL, as ParseMeasure does.
func ParseFilter(text string) (*Filter, error) {
	program, uses, err := usages.compile(text, "true or false", cel.BoolType)
	if err != nil {
		return nil, err
	}
	f := &Filter{program, uses}
	return f, tryUsages(func(u *Usage) error { _, err := f.Holds(u); return err })
}

// Holds reports whether a usage meets the condition. The error means that it cannot be evaluated.
func (f *Filter) Holds(u *Usage) (bool, error) { return holds(f.program, u) }

// Uses reports whether the condition names a variable. A nil Filter names none.
func (f *Filter) Uses(variable string) bool { return f != nil && f.uses[variable] }

// tryUsages evaluates an expression for two usages, whose numbers are none and some.
func tryUsages(evaluate func(*Usage) error) error {
	name := Usage{Model: "model", Provider: "provider", Subsystem: "subsystem", Key: "key", KeyName: "name", Tier: "pro"}
	some := name
	some.Input, some.Cached, some.CacheWrite, some.Output, some.Reasoning, some.CostUSD = 3000, 1000, 1000, 2000, 1000, 0.01
	if err := evaluate(&name); err != nil {
		return fmt.Errorf("for a request that used nothing it has no value: %w", err)
	}
	if err := evaluate(&some); err != nil {
		return fmt.Errorf("for a request that used some of everything it has no value: %w", err)
	}
	return nil
}
