// Package example generates values that a JSON Schema allows, for fake models. It is not a validator.
package example

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/rawjson"
)

// Options select the value. The zero value selects the first valid one.
type Options struct {
	Variant int // another value, if the schema allows several

	// Flaws, if the schema has numbers, enumerations, or required properties of the root.
	OutOfRange bool // every number is far below its minimum, else far above its maximum, else far below zero
	OffEnum    bool // enumerated values are replaced by others
	Incomplete bool // the first required property is missing
}

// Of generates a value, as JSON: always the same one for a schema and options. It has all properties, in the schema's order; nullable values are null
// in the first variant.
//
// It supports types, enumerations, ranges, lengths, formats, patterns, references inside the schema, the first of alternatives, and limits in the
// text of a description: "minimum 3". It ignores not, if, and dependencies between properties.
func Of(schema []byte, o Options) string {
	left := maxValues
	return maker{Options: o, root: schema, top: true, left: &left}.value(schema, 0)
}

// maker generates values.
type maker struct {
	Options
	root []byte
	top  bool // the value is the root
	left *int // values that may still be generated
}

// Limits of generated values: beyond them a value is null, or shorter than its schema requires.
const (
	maxValues = 10_000
	maxItems  = 1000
	maxLength = 10_000
)

// bounded clamps a count that a schema requires to a limit.
func bounded(n float64, limit int) int { return int(min(max(n, 0), float64(limit))) }

// inside returns the maker of element i of an object or array.
func (m maker) inside(i int) maker {
	m.top = false
	m.Variant += i
	return m
}

// Depths at which a recursive schema ends: for optional values, and for all.
const (
	depthOfOptional = 10
	depthOfAll      = 60
)

func (m maker) value(raw json.RawMessage, depth int) string {
	s, err := rawjson.Parse(raw)
	if *m.left--; err != nil || depth > depthOfAll || *m.left < 0 { // true: anything
		return "null"
	}
	s = withStatedLimits(s)
	switch {
	case s.Has("$ref"):
		return m.value(rawjson.Resolve(m.root, s.Str("$ref")), depth+1)
	case s["const"] != nil:
		return m.chosen(s["const"])
	case s.Has("enum"):
		return m.enum(s)
	case s.Has("allOf"):
		return m.value(all(s), depth+1)
	case s.Has("anyOf"):
		return m.any(s, "anyOf", depth)
	case s.Has("oneOf"):
		return m.any(s, "oneOf", depth)
	}
	switch kind := m.kind(s); kind {
	case "object":
		return m.object(s, depth)
	case "array":
		return m.array(s, depth)
	case "string":
		return quote(m.text(s))
	case "number", "integer":
		return m.number(s, kind == "integer")
	case "boolean":
		return "false"
	}
	return "null"
}

// limits matches keywords of limits in a description.
var limits = regexp.MustCompile(`\b(minimum|maximum|exclusiveMinimum|exclusiveMaximum|multipleOf|minLength|maxLength|minItems|maxItems|minProperties|format|pattern|uniqueItems) (-?\d[\d.eE+-]*|true|"(?:[^"\\]|\\.)*")`)

// withStatedLimits adds the limits that a description states, such as "minimum 2".
func withStatedLimits(s object) object {
	description := limits.FindAllStringSubmatch(s.Str("description"), -1)
	if len(description) == 0 {
		return s
	}
	out := s.Clone()
	for _, limit := range description {
		if !s.Has(limit[1]) && json.Valid([]byte(limit[2])) {
			out[limit[1]] = json.RawMessage(limit[2])
		}
	}
	return out
}

// kind returns the type of the value, guessed if the schema has none. Google writes types in capitals.
func (m maker) kind(s object) string {
	kinds := s.Strings("type")
	if kind := s.Str("type"); kind != "" {
		kinds = []string{kind}
	}
	for i := range kinds {
		kinds[i] = strings.ToLower(kinds[i])
	}
	if (s.Bool("nullable") || slices.Contains(kinds, "null")) && m.nulls() {
		return "null"
	}
	kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == "null" })
	if len(kinds) > 0 {
		return kinds[0]
	}
	for _, guess := range []struct{ keyword, kind string }{
		{"properties", "object"},
		{"required", "object"},
		{"items", "array"},
		{"pattern", "string"},
		{"minLength", "string"},
		{"minimum", "number"},
		{"maximum", "number"},
	} {
		if s.Has(guess.keyword) {
			return guess.kind
		}
	}
	return "null"
}

// nulls reports whether a nullable value is null: never the root.
func (m maker) nulls() bool { return !m.top && m.Variant == 0 }

// chosen returns one of a schema's enumerated values, or with OffEnum a value that is none of them.
func (m maker) chosen(value json.RawMessage) string {
	if m.OffEnum {
		return `"none of these"`
	}
	return string(value)
}

func (m maker) enum(s object) string {
	var values []json.RawMessage
	_ = json.Unmarshal(s["enum"], &values) // another type reads as empty
	if len(values) == 0 {
		return "null"
	}
	return m.chosen(values[m.Variant%len(values)])
}

// any returns a value of one of several alternative schemas, merged with the schema's other keywords.
func (m maker) any(s object, key string, depth int) string {
	var of []json.RawMessage
	_ = json.Unmarshal(s[key], &of) // another type reads as empty
	var kept []json.RawMessage
	for _, alternative := range of {
		if a, _ := rawjson.Parse(alternative); a.Str("type") != "null" {
			kept = append(kept, alternative)
		}
	}
	if len(kept) == 0 || len(kept) < len(of) && m.nulls() {
		return "null"
	}
	rest := s.Clone()
	delete(rest, key)
	return m.value(merged(rest.Raw(), kept[m.Variant%len(kept)]), depth+1)
}

func (m maker) object(s object, depth int) string {
	required := s.Strings("required")
	keys := rawjson.Keys(s["properties"])
	properties := s.Object("properties")
	for _, key := range required {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if depth > depthOfOptional {
		keys = slices.DeleteFunc(keys, func(key string) bool { return !slices.Contains(required, key) })
	}
	least, _ := s.Num("minProperties")
	for i := 0; len(keys) < bounded(least, maxItems); i++ {
		keys = append(keys, "key_"+strconv.Itoa(i))
		properties = properties.Clone()
		properties[keys[len(keys)-1]] = s["additionalProperties"]
	}
	if m.Incomplete && m.top && len(keys) > 0 {
		lost := keys[0]
		if len(required) > 0 {
			lost = required[0]
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == lost })
	}
	members := make([]string, len(keys))
	for i, key := range keys {
		value := `"x"`
		if p, ok := properties[key]; ok {
			value = m.inside(0).value(p, depth+1)
		}
		members[i] = quote(key) + ":" + value
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (m maker) array(s object, depth int) string {
	n := 1
	if least, ok := s.Num("minItems"); ok {
		n = max(n, bounded(least, maxItems))
	}
	if limit, ok := s.Num("maxItems"); ok {
		n = min(n, bounded(limit, maxItems))
	}
	if least, _ := s.Num("minItems"); depth > depthOfOptional {
		n = bounded(least, maxItems)
	}
	var prefix []json.RawMessage
	_ = json.Unmarshal(s["prefixItems"], &prefix) // another type reads as empty
	if prefix != nil {
		n = max(n, len(prefix))
	}
	items := make([]string, n)
	for i := range items {
		of := s["items"]
		if i < len(prefix) {
			of = prefix[i]
		}
		items[i] = m.inside(i).value(of, depth+1)
	}
	return "[" + strings.Join(items, ",") + "]"
}

// formats are examples of values by format.
var formats = map[string]string{
	"date-time": "2026-01-01T00:00:00Z", "date": "2026-01-01", "time": "00:00:00Z", "duration": "P1D", "email": "a@example.com",
	"hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "uuid": "00000000-0000-4000-8000-000000000000",
}

func (m maker) text(s object) string {
	if p := s.Str("pattern"); p != "" {
		if text, ok := matching(p); ok {
			return text
		}
	}
	if example, ok := formats[s.Str("format")]; ok {
		return example
	}
	text := "some text"
	if m.Variant > 0 {
		text += " " + strconv.Itoa(m.Variant)
	}
	if least, ok := s.Num("minLength"); ok && len(text) < bounded(least, maxLength) {
		text += strings.Repeat("x", bounded(least, maxLength)-len(text))
	}
	if limit, ok := s.Num("maxLength"); ok && len(text) > bounded(limit, maxLength) {
		text = text[len(text)-bounded(limit, maxLength):]
	}
	return text
}

// wrongBy is how far a wrong number is from a valid one.
const wrongBy = 1_000_000

func (m maker) number(s object, whole bool) string {
	low, above := s.Num("minimum")
	high, below := s.Num("maximum")
	step := 1.0
	if !whole {
		step = 0.001
	}
	if n, ok := s.Num("exclusiveMinimum"); ok {
		low, above = n+step, true
	}
	if n, ok := s.Num("exclusiveMaximum"); ok {
		high, below = n-step, true
	}
	n := 0.5
	if whole {
		n = 1
	}
	switch {
	case m.OutOfRange && !above && below:
		n = math.Ceil(high) + wrongBy
	case m.OutOfRange:
		n = math.Floor(low) - wrongBy
	case above && below && whole:
		if n = math.Floor((low + high) / 2); n < low {
			n = math.Ceil(low)
		}
	case above && below:
		n = (low + high) / 2
	case above:
		n = max(n, math.Ceil(low))
	case below:
		n = min(n, math.Floor(high))
	}
	if !m.OutOfRange {
		n = m.stepped(s, n, high, below)
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// stepped returns a multiple near a number; each variant has another.
func (m maker) stepped(s object, n, high float64, below bool) float64 {
	by, ok := s.Num("multipleOf")
	if ok && by > 0 {
		if n = math.Ceil(n/by) * by; below && n > high {
			n = math.Floor(high/by) * by
		}
	} else {
		by = 1
	}
	if next := n + float64(m.Variant)*by; !below || next <= high {
		return next
	}
	return n
}
