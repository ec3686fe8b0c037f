package structured

import (
	"encoding/json"
	"strconv"

	"bardo.money/gateway/internal/jsonx"
)

// maxAnswerBytes is the longest answer that is checked.
const maxAnswerBytes = 2 << 20

// instance converts a JSON value to the validator's types, with numbers as json.Number. Issues are duplicate members and numbers beyond
// the limits, which parsers treat differently.
type instance struct {
	path   []string
	issues []string
}

func (d *instance) issue(what string) {
	where := readablePath(d.path)
	if where == "" {
		where = "the answer"
	}
	d.issues = append(d.issues, where+": "+what)
}

func (d *instance) value(v jsonx.Value) any {
	switch v.Kind() {
	case jsonx.Object:
		return d.object(v)
	case jsonx.Array:
		list := []any{}
		for i, e := range v.Each {
			list = append(list, d.inside(strconv.Itoa(i), e))
		}
		return list
	case jsonx.String:
		s, _ := v.Str()
		return s
	case jsonx.Number:
		if !isBoundedNumber(v.Raw) {
			d.issue("is a number with too many digits or too large an exponent")
			return json.Number("0")
		}
		return json.Number(v.Raw)
	case jsonx.Bool:
		b, _ := v.Bool()
		return b
	case jsonx.Invalid, jsonx.Null:
	}
	return nil
}

func (d *instance) object(v jsonx.Value) any {
	m := map[string]any{}
	for key, e := range v.Members {
		name := string(key)
		_, twice := m[name]
		m[name] = d.inside(name, e)
		if twice {
			d.path = append(d.path, name)
			d.issue("appears twice")
			d.path = d.path[:len(d.path)-1]
		}
	}
	return m
}

func (d *instance) inside(name string, v jsonx.Value) any {
	d.path = append(d.path, name)
	out := d.value(v)
	d.path = d.path[:len(d.path)-1]
	return out
}

// validate lists what is wrong with a JSON text. Its time is bounded for every schema.
func (sch *Schema) validate(b []byte) []string {
	v, err := jsonx.Parse(b)
	if err != nil {
		return []string{"the answer is not JSON"}
	}
	d := instance{}
	value := d.value(v)
	if len(d.issues) > 0 {
		return limited(d.issues)
	}
	c, err := sch.checker()
	if err != nil {
		return []string{"the answer cannot be checked"}
	}
	issues, ok := c.check(value)
	if !ok { // the aborted checker may be inconsistent: it is not returned to the pool
		return []string{"the answer cannot be checked: its schema takes too many steps"}
	}
	sch.checkers.Put(c)
	return issues
}

// Allows reports whether a JSON text follows the schema, as it is: nothing is extracted or repaired. Its time is bounded for every schema. Safe for concurrent use.
func (sch *Schema) Allows(b []byte) bool { return len(sch.validate(b)) == 0 }
