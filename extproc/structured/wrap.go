package structured

import (
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// OpenAI takes only schemas of objects. Any other is sent as the only member of an object, which is taken off the answer again.

// wrapKey is the member that holds the answer.
const wrapKey = "value"

// wrap is the object with the form as its only member; nil for a form that is written as an object already, or that cannot be wrapped.
func (f *Form) wrap() *Form {
	if f.schema.Get("type").Equal("object") {
		return nil
	}
	w := member{dst: []byte(`{"type":"object","properties":{"` + wrapKey + `":`)}
	inner := member{dst: []byte{'{'}}
	var definitions member
	for key, e := range (jsonx.Value{Raw: f.plain}).Members {
		name := string(key)
		if name == "$defs" || name == "definitions" { // they stay at the top
			definitions.open(name)
			definitions.dst = moved(definitions.dst, e, byName)
			continue
		}
		inner.open(name)
		inner.dst = movedKeyword(inner.dst, name, e)
	}
	w.dst = append(append(w.dst, inner.dst...), `}},"required":["`+wrapKey+`"],"additionalProperties":false`...)
	if len(definitions.keys) > 0 {
		w.dst = append(append(w.dst, ','), definitions.dst...)
	}
	outer, err := compile(f.name, append(w.dst, '}'))
	if err != nil {
		return nil
	}
	return outer
}

func movedKeyword(dst []byte, keyword string, v jsonx.Value) []byte {
	if ref, ok := v.Str(); ok && keyword == "$ref" {
		return jsonx.AppendString(dst, movedRef(ref))
	}
	return moved(dst, v, roleOf(keyword))
}

// moved is a part of a schema, with references that lead to where the schema is inside its object.
func moved(dst []byte, v jsonx.Value, as role) []byte {
	switch {
	case as == someData:
	case v.Kind() == jsonx.Object:
		w := member{dst: append(dst, '{')}
		for key, e := range v.Members {
			name := string(key)
			w.open(name)
			if as == byName {
				w.dst = moved(w.dst, e, aSchema)
				continue
			}
			w.dst = movedKeyword(w.dst, name, e)
		}
		return append(w.dst, '}')
	case v.Kind() == jsonx.Array:
		dst = append(dst, '[')
		for i, e := range v.Each {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = moved(dst, e, aSchema)
		}
		return append(dst, ']')
	}
	return append(dst, v.Raw...)
}

// movedRef is a reference inside a schema that stands in an object now. Definitions stay at the top.
func movedRef(ref string) string {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || strings.HasPrefix(path, "/$defs/") || strings.HasPrefix(path, "/definitions/") {
		return ref
	}
	return "#/properties/" + wrapKey + path
}

// unwrapped is the verdict on an answer in its object.
func (p *Plan) unwrapped(text []byte, cut bool) Verdict {
	for c := range candidates(text, jsonx.Object, cut) {
		b := c.json
		if p.undo {
			b = p.outer.undone(b)
		}
		v, err := jsonx.Parse(b)
		if err != nil {
			break
		}
		if inner := v.Get(wrapKey); inner.Exists() {
			return Verdict{JSON: inner.Raw, Repaired: c.repaired, Issues: p.form.validate(inner.Raw)}
		}
		break
	}
	return Verdict{}
}

// wordIn is the verdict on an answer that is a word without quotes.
func (p *Plan) wordIn(text []byte) Verdict {
	return Verdict{JSON: text, Issues: p.form.validate(jsonx.AppendString(nil, text))}
}

// asWord takes the quotes off an answer where the client asked for a word.
func (p *Plan) asWord(v Verdict) Verdict {
	if !p.word || !v.Valid() {
		return v
	}
	if s, ok := (jsonx.Value{Raw: v.JSON}).Str(); ok {
		v.JSON = []byte(s)
	}
	return v
}
