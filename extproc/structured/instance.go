package structured

import (
	"encoding/json"
	"strconv"

	"bardo.money/gateway/internal/jsonx"
)

// mostAnswer is the longest answer that is looked at, in bytes.
const mostAnswer = 2 << 20

// decoded is a JSON value as the validator takes it, with its numbers as they are written. Issues are what JSON allows and no two
// programs read alike.
type decoded struct {
	path   []string
	issues []string
}

func (d *decoded) issue(what string) {
	where := at(d.path)
	if where == "" {
		where = "the answer"
	}
	d.issues = append(d.issues, where+": "+what)
}

func (d *decoded) value(v jsonx.Value) any {
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
		if !reasonable(v.Raw) {
			d.issue("is a number beyond all measure")
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

func (d *decoded) object(v jsonx.Value) any {
	m := map[string]any{}
	for key, e := range v.Members {
		name := string(key)
		_, twice := m[name]
		m[name] = d.inside(name, e)
		if twice {
			d.path = append(d.path, name)
			d.issue("is there twice")
			d.path = d.path[:len(d.path)-1]
		}
	}
	return m
}

func (d *decoded) inside(name string, v jsonx.Value) any {
	d.path = append(d.path, name)
	out := d.value(v)
	d.path = d.path[:len(d.path)-1]
	return out
}

// validate is what is wrong with a JSON text. It ends in a bounded time, whatever the schema is.
func (f *Form) validate(b []byte) []string {
	v, err := jsonx.Parse(b)
	if err != nil {
		return []string{"the answer is no JSON"}
	}
	d := decoded{}
	value := d.value(v)
	if len(d.issues) > 0 {
		return bound(d.issues)
	}
	c, err := f.checker()
	if err != nil {
		return []string{"the answer cannot be checked"}
	}
	issues, ok := c.check(value)
	if !ok { // what it left behind is not for others
		return []string{"the answer cannot be checked: its schema takes too many steps"}
	}
	f.checkers.Put(c)
	return issues
}
