package structured

import (
	"encoding/json"
	"math/big"

	"github.com/santhosh-tekuri/jsonschema/v6"
	why "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// costKeyword is added to every schema as a validator extension: it counts the cost of applying the schema, and checks its enum with a map,
// because the library compares enum values one by one without counting the cost.
type costKeyword struct {
	steps  *budget
	weight int // steps for one application, with the schemas that apply to the same value
	enum   *enumSet
}

// enumKey replaces the keyword enum in schemas that are given to the library.
const enumKey = "bardo:enum"

// applicators are the keywords with lists of schemas that apply to the same value.
var applicators = []string{"allOf", "anyOf", "oneOf"}

func newCostKeyword(steps *budget, obj map[string]any) *costKeyword {
	s := &costKeyword{steps: steps, weight: 1}
	for _, key := range applicators {
		if list, ok := obj[key].([]any); ok {
			s.weight += alternative * len(list)
		}
	}
	if list, ok := obj[enumKey].([]any); ok {
		s.enum = newEnumSet(list)
	}
	return s
}

// alternative is the cost in steps of each schema in an applicator, which the library may refuse before costKeyword is called.
const alternative = 4

// bytesOfText is how many bytes of text count as one step.
const bytesOfText = 1 << 10

// Validate is called by the library for each value that the schema is applied to.
func (s *costKeyword) Validate(ctx *jsonschema.ValidatorContext, v any) {
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

// replaceEnums renames every enum in a schema to enumKey, so that costKeyword checks it.
func replaceEnums(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			switch key {
			case "const", "default", "examples", enumKey: // data, not schemas
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
				named, _ := e.(map[string]any)
				for _, s := range named {
					replaceEnums(s)
				}
			case "enum":
				if list, ok := e.([]any); ok {
					delete(v, key)
					v[enumKey] = list
				}
			default:
				replaceEnums(e)
			}
		}
	case []any:
		for _, e := range v {
			replaceEnums(e)
		}
	}
}

// enumSet is the values of an enum, by their canonical JSON.
type enumSet struct {
	list   []any
	keys   map[string]bool
	nested bool // some are objects or arrays
}

func newEnumSet(list []any) *enumSet {
	w := &enumSet{list: list, keys: make(map[string]bool, len(list))}
	for _, v := range list {
		w.keys[enumHash(v)] = true
		w.nested = w.nested || isNested(v)
	}
	return w
}

func (w *enumSet) has(v any, steps *budget) bool {
	if isNested(v) && !w.nested {
		return false
	}
	key := enumHash(v)
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

// enumHash returns a canonical text: equal for equal values only.
func enumHash(v any) string {
	b, err := json.Marshal(normalizedNumbers(v))
	if err != nil {
		return ""
	}
	return string(b)
}

// normalizedNumbers returns a value with numbers in one notation.
func normalizedNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(string(v)); ok {
			n, _ := r.FloatPrec() // decimals are exact
			return json.Number(r.FloatString(n))
		}
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, e := range v {
			m[key] = normalizedNumbers(e)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = normalizedNumbers(e)
		}
		return list
	}
	return v
}
