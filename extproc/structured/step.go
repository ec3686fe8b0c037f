package structured

import (
	"encoding/json"
	"math/big"

	"github.com/santhosh-tekuri/jsonschema/v6"
	why "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// step is what every schema has besides its own keywords: it counts what applying it costs, and looks values up in its enum, which the
// library would compare one by one, and nobody would count.
type step struct {
	steps  *budget
	weight int // of the schemas that are applied to the same value
	enum   *wordList
}

// enumKey is the keyword that stands for enum in schemas that the library reads.
const enumKey = "bardo:enum"

// alternating are the keywords with lists of schemas for the same value.
var alternating = []string{"allOf", "anyOf", "oneOf"}

func newStep(steps *budget, obj map[string]any) *step {
	s := &step{steps: steps, weight: 1}
	for _, key := range alternating {
		if list, ok := obj[key].([]any); ok {
			s.weight += alternative * len(list)
		}
	}
	if list, ok := obj[enumKey].([]any); ok {
		s.enum = newWordList(list)
	}
	return s
}

// alternative is what one of several schemas for a value costs: it may be refused before anybody counts.
const alternative = 4

// bytesOfText is how many bytes of a text cost as much as one schema.
const bytesOfText = 1 << 10

// Validate is called for each value that the schema is applied to.
func (s *step) Validate(ctx *jsonschema.ValidatorContext, v any) {
	cost := s.weight
	switch v := v.(type) {
	case map[string]any:
		cost += len(v)
	case []any:
		cost += len(v)
	case string:
		cost += len(v) / bytesOfText
	}
	s.steps.spend(cost)
	if s.enum != nil && !s.enum.has(v, s.steps) {
		ctx.AddError(&why.Enum{Got: v, Want: s.enum.list})
	}
}

// countEnums has every enum of a schema looked up by step.
func countEnums(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			switch key {
			case "const", "default", "examples", enumKey: // what is in there is no schema
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
				named, _ := e.(map[string]any)
				for _, s := range named {
					countEnums(s)
				}
			case "enum":
				if list, ok := e.([]any); ok {
					delete(v, key)
					v[enumKey] = list
				}
			default:
				countEnums(e)
			}
		}
	case []any:
		for _, e := range v {
			countEnums(e)
		}
	}
}

// wordList is the values of an enum.
type wordList struct {
	list   []any
	keys   map[string]bool
	nested bool // there are objects or arrays among them
}

func newWordList(list []any) *wordList {
	w := &wordList{list: list, keys: make(map[string]bool, len(list))}
	for _, v := range list {
		w.keys[keyOf(v)] = true
		w.nested = w.nested || isNested(v)
	}
	return w
}

func (w *wordList) has(v any, steps *budget) bool {
	if isNested(v) && !w.nested {
		return false
	}
	key := keyOf(v)
	steps.spend(len(key) / bytesOfText)
	return w.keys[key]
}

func isNested(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// keyOf is a text that only equal values have.
func keyOf(v any) string {
	b, err := json.Marshal(plainNumbers(v))
	if err != nil {
		return ""
	}
	return string(b)
}

// plainNumbers is a value with its numbers written in one way.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(string(v)); ok {
			n, _ := r.FloatPrec() // decimals are exact
			return json.Number(r.FloatString(n))
		}
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, e := range v {
			m[key] = plainNumbers(e)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = plainNumbers(e)
		}
		return list
	}
	return v
}
