package structured

import (
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// OpenAI accepts only schemas of objects. Any other is sent as the only member of a wrapper object, which is removed from the answer.

// wrapKey is the wrapper's member.
const wrapKey = "value"

// wrap returns the wrapper object with the schema as its only member; nil for a schema of an object, and if it cannot be wrapped.
func (sch *Schema) wrap() *Schema {
	if sch.schema.Get("type").Equal("object") {
		return nil
	}
	w := member{dst: []byte(`{"type":"object","properties":{"` + wrapKey + `":`)}
	inner := member{dst: []byte{'{'}}
	var definitions member
	for key, e := range (jsonx.Value{Raw: sch.compact}).Members {
		name := string(key)
		if name == "$defs" || name == "definitions" { // definitions stay at the top
			definitions.open(name)
			definitions.dst = relocated(definitions.dst, e, roleMap)
			continue
		}
		inner.open(name)
		inner.dst = relocatedKeyword(inner.dst, name, e)
	}
	w.dst = append(append(w.dst, inner.dst...), `}},"required":["`+wrapKey+`"],"additionalProperties":false`...)
	if len(definitions.keys) > 0 {
		w.dst = append(append(w.dst, ','), definitions.dst...)
	}
	outer, err := compile(sch.name, append(w.dst, '}'))
	if err != nil {
		return nil
	}
	return outer
}

func relocatedKeyword(dst []byte, keyword string, v jsonx.Value) []byte {
	if ref, ok := v.Str(); ok && keyword == "$ref" {
		return jsonx.AppendString(dst, relocatedRef(ref))
	}
	return relocated(dst, v, roleOf(keyword))
}

// relocated appends a part of a schema with its references adjusted to its new place in the wrapper.
func relocated(dst []byte, v jsonx.Value, as role) []byte {
	switch {
	case as == roleData:
	case v.Kind() == jsonx.Object:
		w := member{dst: append(dst, '{')}
		for key, e := range v.Members {
			name := string(key)
			w.open(name)
			if as == roleMap {
				w.dst = relocated(w.dst, e, roleSchema)
				continue
			}
			w.dst = relocatedKeyword(w.dst, name, e)
		}
		return append(w.dst, '}')
	case v.Kind() == jsonx.Array:
		dst = append(dst, '[')
		for i, e := range v.Each {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = relocated(dst, e, roleSchema)
		}
		return append(dst, ']')
	}
	return append(dst, v.Raw...)
}

// relocatedRef adjusts a reference to the wrapper. Definitions stay at the top.
func relocatedRef(ref string) string {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || strings.HasPrefix(path, "/$defs/") || strings.HasPrefix(path, "/definitions/") {
		return ref
	}
	return "#/properties/" + wrapKey + path
}

// checkWrapped validates the answer inside the wrapper.
func (p *Plan) checkWrapped(text []byte, cut bool) Validation {
	for c := range candidates(text, jsonx.Object, cut) {
		b := c.json
		if p.dropNulls {
			b = p.wrapper.dropNulls(b)
		}
		v, err := jsonx.Parse(b)
		if err != nil {
			break
		}
		if inner := v.Get(wrapKey); inner.Exists() {
			return Validation{JSON: inner.Raw, Repaired: c.repaired, Issues: p.schema.validate(inner.Raw)}
		}
		break
	}
	return Validation{}
}

// checkBareText validates an enum value without quotes.
func (p *Plan) checkBareText(text []byte) Validation {
	return Validation{JSON: text, Issues: p.schema.validate(jsonx.AppendString(nil, text))}
}

// unquoted removes the quotes of an answer if the client asked for an enum as plain text.
func (p *Plan) unquoted(v Validation) Validation {
	if !p.enumText || !v.Valid() {
		return v
	}
	if s, ok := (jsonx.Value{Raw: v.JSON}).Str(); ok {
		v.JSON = []byte(s)
	}
	return v
}
