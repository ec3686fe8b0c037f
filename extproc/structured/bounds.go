package structured

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Limits of a schema from a client, which bound the cost of compiling it. OpenAI's limits are 5,000 properties and 10 levels.
const (
	maxSchemaBytes  = 256 << 10 // bytes
	maxSchemaDepth  = 64        // levels of JSON
	maxSchemaValues = 20_000    // objects and arrays
)

var (
	errNoObject = errors.New("the schema is not a JSON object")
	errSize     = fmt.Errorf("the schema is larger than %d KiB", maxSchemaBytes>>10)
)

// parseBounded parses a schema and checks it against the limits.
func parseBounded(b []byte) (jsonx.Value, error) {
	if len(b) > maxSchemaBytes {
		return jsonx.Value{}, errSize
	}
	v, err := jsonx.Parse(trimmed(b))
	if err != nil {
		return v, fmt.Errorf("the schema is not valid JSON: %w", err)
	}
	if v.Kind() != jsonx.Object {
		return v, errNoObject
	}
	w := schemaWalker{graph: graph{root: v, reaches: map[int]reach{}, targets: map[string]jsonx.Value{}}}
	w.draft4 = strings.Contains(string(v.Get("$schema").Raw), "draft-04")
	return v, w.value(v, roleSchema)
}

// role is the meaning of a value inside a schema.
type role uint8

const (
	roleSchema role = iota
	roleData        // plain data, even if it looks like a schema
	roleMap         // an object whose members are schemas
)

// roleOf returns the role of a keyword's value. The elements of a list have the role of the list.
func roleOf(keyword string) role {
	switch keyword {
	case "const", "default", "enum", "examples", "example":
		return roleData
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		return roleMap
	}
	return roleSchema
}

// schemaWalker checks every value of a schema against the limits.
type schemaWalker struct {
	graph

	path   []string
	values int
	draft4 bool
}

func (w *schemaWalker) fail(format string, args ...any) error {
	where := "the schema"
	if len(w.path) > 0 {
		where = "#/" + clip(strings.Join(w.path, "/"))
	}
	return fmt.Errorf("%s "+format, append([]any{where}, args...)...)
}

func (w *schemaWalker) value(v jsonx.Value, r role) error {
	switch v.Kind() {
	case jsonx.Object, jsonx.Array:
	case jsonx.Number:
		return w.number(v)
	case jsonx.Invalid, jsonx.Null, jsonx.Bool, jsonx.String:
		return nil
	}
	if w.values++; w.values > maxSchemaValues {
		return w.fail("has more than %d objects and arrays", maxSchemaValues)
	}
	if len(w.path) > maxSchemaDepth {
		return w.fail("is nested more than %d levels deep", maxSchemaDepth)
	}
	seen := map[string]bool{}
	for key, e := range v.Members {
		name := string(key)
		if seen[name] {
			return w.fail("has the member %q twice", clip(name))
		}
		seen[name] = true
		if err := w.member(name, e, r); err != nil {
			return err
		}
	}
	for i, e := range v.Each {
		if err := w.inside(strconv.Itoa(i), e, r); err != nil {
			return err
		}
	}
	if r != roleSchema {
		return nil
	}
	if _, err := w.reachOf(v); err != nil {
		return w.fail("%w", err)
	}
	return nil
}

func (w *schemaWalker) inside(name string, v jsonx.Value, r role) error {
	w.path = append(w.path, name)
	defer func() { w.path = w.path[:len(w.path)-1] }()
	return w.value(v, r)
}

// countKeywords are the keywords whose values must be non-negative integers.
var countKeywords = []string{
	"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
}

// member checks a member of an object of the given role.
func (w *schemaWalker) member(name string, v jsonx.Value, r role) error {
	switch r {
	case roleData:
		return w.inside(name, v, roleData)
	case roleMap:
		return w.inside(name, v, roleSchema)
	case roleSchema:
	}
	if err := w.keyword(name, v); err != nil {
		return err
	}
	return w.inside(name, v, roleOf(name))
}

// keyword checks a member of a schema.
func (w *schemaWalker) keyword(name string, v jsonx.Value) error {
	text, ok := v.Str()
	switch {
	case !ok:
	case name == "$ref":
		if _, leads := w.target(text); !leads {
			return w.fail("refers to %q: a reference must be a path inside the schema (#/…)", clip(text))
		}
	case name == "$dynamicRef", name == "$recursiveRef":
		return w.fail("has a %s, which is not supported", name)
	case len(w.path) > 0 && (name == "$id" || name == "id" && w.draft4):
		return w.fail("has an id of its own (%s), which is allowed only at the top of the schema", name)
	}
	if slices.Contains(countKeywords, name) && v.Kind() == jsonx.Number {
		if f, ok := v.Float(); !ok || f < 0 || f > 1<<53 {
			return w.fail("has a %s that is not a count: %s", name, clip(string(v.Raw)))
		}
	}
	return nil
}

func (w *schemaWalker) number(v jsonx.Value) error {
	if !isBoundedNumber(v.Raw) {
		return w.fail("is a number with too many digits or too large an exponent")
	}
	return nil
}

// Limits of numbers, because the validator compares them exactly, with arbitrary precision.
const (
	maxNumberBytes = 128 // bytes
	maxExponent    = 310 // decimal; a float64 ends at 308
)

// isBoundedNumber reports whether a number is within the limits.
func isBoundedNumber(n jsonx.Raw) bool {
	if len(n) > maxNumberBytes {
		return false
	}
	i := slices.IndexFunc(n, func(c byte) bool { return c|0x20 == 'e' })
	if i < 0 {
		return true
	}
	power, err := strconv.Atoi(strings.TrimPrefix(string(n[i+1:]), "+"))
	return err == nil && power <= maxExponent && power >= -maxExponent
}
