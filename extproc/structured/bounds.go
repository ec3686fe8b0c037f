package structured

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Bounds on schemas: what a compiled form may cost. OpenAI's are 5,000 properties and 10 levels.
const (
	mostSchema    = 256 << 10 // bytes
	deepestSchema = 64        // levels of JSON
	mostValues    = 20_000    // objects and arrays
)

var (
	errNoObject = errors.New("the schema is no JSON object")
	errSize     = fmt.Errorf("the schema is larger than %d KiB", mostSchema>>10)
)

// bounded is a schema as JSON, if it is within the bounds.
func bounded(b []byte) (jsonx.Value, error) {
	if len(b) > mostSchema {
		return jsonx.Value{}, errSize
	}
	v, err := jsonx.Parse(clean(b))
	if err != nil {
		return v, fmt.Errorf("the schema is not valid JSON: %w", err)
	}
	if v.Kind() != jsonx.Object {
		return v, errNoObject
	}
	w := survey{graph: graph{root: v, known: map[int]reach{}, targets: map[string]jsonx.Value{}}}
	w.draft4 = strings.Contains(string(v.Get("$schema").Raw), "draft-04")
	return v, w.value(v, aSchema)
}

// role is what a value inside a schema is there for.
type role uint8

const (
	aSchema  role = iota
	someData      // and no schema, whatever it looks like
	byName        // an object of schemas
)

// roleOf is what the value of a keyword is there for. A list has the role of what is in it.
func roleOf(keyword string) role {
	switch keyword {
	case "const", "default", "enum", "examples", "example":
		return someData
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		return byName
	}
	return aSchema
}

// survey looks at every value of a schema.
type survey struct {
	graph

	path   []string
	values int
	draft4 bool
}

func (w *survey) fail(format string, args ...any) error {
	where := "the schema"
	if len(w.path) > 0 {
		where = "#/" + clip(strings.Join(w.path, "/"))
	}
	return fmt.Errorf("%s "+format, append([]any{where}, args...)...)
}

func (w *survey) value(v jsonx.Value, r role) error {
	switch v.Kind() {
	case jsonx.Object, jsonx.Array:
	case jsonx.Number:
		return w.number(v)
	case jsonx.Invalid, jsonx.Null, jsonx.Bool, jsonx.String:
		return nil
	}
	if w.values++; w.values > mostValues {
		return w.fail("has more than %d objects and arrays", mostValues)
	}
	if len(w.path) > deepestSchema {
		return w.fail("is nested more than %d levels deep", deepestSchema)
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
	if r != aSchema {
		return nil
	}
	if _, err := w.from(v); err != nil {
		return w.fail("%w", err)
	}
	return nil
}

func (w *survey) inside(name string, v jsonx.Value, r role) error {
	w.path = append(w.path, name)
	defer func() { w.path = w.path[:len(w.path)-1] }()
	return w.value(v, r)
}

// counted are the keywords whose numbers are counts.
var counted = []string{
	"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
}

// member looks at a member of an object that has a role.
func (w *survey) member(name string, v jsonx.Value, r role) error {
	switch r {
	case someData:
		return w.inside(name, v, someData)
	case byName:
		return w.inside(name, v, aSchema)
	case aSchema:
	}
	if err := w.keyword(name, v); err != nil {
		return err
	}
	return w.inside(name, v, roleOf(name))
}

// keyword looks at a member of a schema.
func (w *survey) keyword(name string, v jsonx.Value) error {
	text, ok := v.Str()
	switch {
	case !ok:
	case name == "$ref":
		if _, leads := w.target(text); !leads {
			return w.fail("refers to %q: references are paths to places inside the schema (#/…)", clip(text))
		}
	case name == "$dynamicRef", name == "$recursiveRef":
		return w.fail("has a %s, which is not taken here", name)
	case len(w.path) > 0 && (name == "$id" || name == "id" && w.draft4):
		return w.fail("has a name of its own (%s), which only the schema as a whole may", name)
	}
	if slices.Contains(counted, name) && v.Kind() == jsonx.Number {
		if f, ok := v.Float(); !ok || f < 0 || f > 1<<53 {
			return w.fail("has a %s that is no count: %s", name, clip(string(v.Raw)))
		}
	}
	return nil
}

func (w *survey) number(v jsonx.Value) error {
	if !reasonable(v.Raw) {
		return w.fail("is a number beyond all measure")
	}
	return nil
}

// Bounds on numbers: comparing them exactly costs their length.
const (
	longestNumber  = 128 // bytes
	largestPowerOf = 310 // ten; what programs calculate with ends at 308
)

// reasonable reports whether a number can be compared exactly at little cost.
func reasonable(n jsonx.Raw) bool {
	if len(n) > longestNumber {
		return false
	}
	i := slices.IndexFunc(n, func(c byte) bool { return c|0x20 == 'e' })
	if i < 0 {
		return true
	}
	power, err := strconv.Atoi(strings.TrimPrefix(string(n[i+1:]), "+"))
	return err == nil && power <= largestPowerOf && power >= -largestPowerOf
}
