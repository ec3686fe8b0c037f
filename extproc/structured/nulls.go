package structured

import (
	"bardo.money/gateway/internal/jsonx"
)

// dropNulls removes nulls in place of optional members, which a strict schema required. An answer without any is returned unchanged.
func (sch *Schema) dropNulls(b []byte) []byte {
	v, err := jsonx.Parse(b)
	if err != nil {
		return b
	}
	u := nullDropper{root: sch.schema, steps: maxSteps}
	out := u.value(nil, sch.schema, v, 0)
	if u.dropped == 0 || u.steps < 0 {
		return b
	}
	return out
}

// nullDropper rewrites an answer.
type nullDropper struct {
	root    jsonx.Value
	dropped int
	steps   int // steps
}

func (u *nullDropper) value(dst []byte, schema, v jsonx.Value, depth int) []byte {
	schema = resolved(u.root, schema)
	if u.steps--; u.steps < 0 || depth > 4*maxSchemaDepth {
		return append(dst, v.Raw...)
	}
	if one, ok := singleOf(schema, "allOf"); ok {
		return u.value(dst, one, v, depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if list := schema.Get(key); list.Exists() && !schema.Get("properties").Exists() {
			return u.value(dst, u.branch(list, v), v, depth+1)
		}
	}
	switch v.Kind() {
	case jsonx.Object:
		return u.object(dst, schema, v, depth)
	case jsonx.Array:
		dst = append(dst, '[')
		items := schema.Get("items")
		for i, e := range v.Each {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = u.value(dst, items, e, depth+1)
		}
		return append(dst, ']')
	case jsonx.Invalid, jsonx.Null, jsonx.Bool, jsonx.Number, jsonx.String:
	}
	return append(dst, v.Raw...)
}

func (u *nullDropper) object(dst []byte, schema, v jsonx.Value, depth int) []byte {
	properties, required := schema.Get("properties"), requiredBy(schema)
	w := member{dst: append(dst, '{')}
	for key, e := range v.Members {
		name := string(key)
		property := properties.Get(name)
		if e.Kind() == jsonx.Null && property.Exists() && !required[name] && !admitsNull(u.root, property, 0) {
			u.dropped++
			continue
		}
		w.open(name)
		w.dst = u.value(w.dst, property, e, depth+1)
	}
	return append(w.dst, '}')
}

// branch returns the first alternative that fits a value, or the first one of its type.
func (u *nullDropper) branch(list, v jsonx.Value) jsonx.Value {
	var kind jsonx.Value
	for _, e := range list.Each {
		s := resolved(u.root, e)
		if !ofType(s, v) {
			continue
		}
		if !kind.Exists() {
			kind = s
		}
		if u.fits(s, v) {
			return s
		}
	}
	return kind
}

// ofType reports whether a schema's type allows a value.
func ofType(s, v jsonx.Value) bool {
	names := typesOf(s)
	for _, name := range names {
		if kindNamed(name) == v.Kind() {
			return true
		}
	}
	return len(names) == 0
}

// fits reports whether an object has the schema's required members and constants, and no others if the schema is closed.
func (u *nullDropper) fits(s, v jsonx.Value) bool {
	if u.steps--; v.Kind() != jsonx.Object || u.steps < 0 {
		return true
	}
	properties := s.Get("properties")
	for name := range requiredBy(s) {
		if !v.Get(name).Exists() {
			return false
		}
	}
	for key, e := range v.Members {
		property := properties.Get(string(key))
		if !property.Exists() && string(s.Get("additionalProperties").Raw) == "false" {
			return false
		}
		if e.Kind() == jsonx.Null {
			continue
		}
		property = resolved(u.root, property)
		if !ofType(property, e) {
			return false
		}
		if c := property.Get("const"); c.Exists() && string(c.Raw) != string(e.Raw) {
			return false
		}
		if list := property.Get("enum"); list.Exists() && !contains(list, e) {
			return false
		}
	}
	return true
}

func contains(list, v jsonx.Value) bool {
	for _, e := range list.Each {
		if string(e.Raw) == string(v.Raw) {
			return true
		}
	}
	return false
}
