package structured

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Providers enforce a subset of JSON Schema. A client's schema is rewritten to one that they accept and that allows every answer the original
// allows, except additional members: objects are closed; limits on values move to the descriptions; where every member must be required,
// optional ones may be null. Nulls in place of absent members are removed from the answer, which is then validated with the original.

// makeStrict rewrites the schema for a provider. undo is true if optional members may be null; ok is false if it cannot be expressed in what
// the provider supports.
func (sch *Schema) makeStrict(r Rules) (strict jsonx.Raw, undo, ok bool) {
	s := strictWriter{root: sch.schema, rules: r, ok: true}
	b := s.schema(nil, sch.schema, 0)
	if !s.ok {
		return nil, false, false
	}
	v, err := jsonx.Parse(b)
	if err != nil || !wire.Enforceable(v, r.enforcedBy()) || !withinLimits(v, r) {
		return nil, false, false
	}
	return b, s.addedNull, true
}

// strictWriter rewrites a schema.
type strictWriter struct {
	root      jsonx.Value
	rules     Rules
	addedNull bool // an optional member was made nullable
	ok        bool
}

func (s *strictWriter) unsupported(dst []byte) []byte {
	s.ok = false
	return dst
}

// schema appends a rewritten schema that accepts every value v accepts.
func (s *strictWriter) schema(dst []byte, v jsonx.Value, depth int) []byte {
	if !s.ok || v.Kind() != jsonx.Object || depth > maxSchemaDepth {
		return s.unsupported(dst)
	}
	if ref := v.Get("$ref"); ref.Exists() {
		return s.reference(dst, v, ref, depth)
	}
	if one, ok := singleOf(v, "allOf"); ok {
		return s.schema(dst, one, depth+1)
	}
	if !closable(v) {
		return s.unsupported(dst)
	}
	w := member{dst: append(dst, '{')}
	var notes []string
	for key, e := range v.Members {
		if !s.keyword(&w, string(key), e, v, depth) {
			if n := limitNote(string(key), e); n != "" {
				notes = append(notes, n)
			}
		}
	}
	if describesObject(v) {
		w.add("additionalProperties", []byte("false"))
		s.required(&w, v)
	}
	addDescription(&w, v, notes)
	return append(w.dst, '}')
}

// reference appends a $ref. Providers allow no other keywords beside it except definitions.
func (s *strictWriter) reference(dst []byte, v, ref jsonx.Value, depth int) []byte {
	name, _ := ref.Str()
	if tokens, ok := parsePointer(name); !ok || len(tokens) == 0 || !resolved(s.root, v).Exists() {
		return s.unsupported(dst)
	}
	if s.rules == RulesAnthropic && s.isRecursive(resolved(s.root, v), depth) {
		return s.unsupported(dst)
	}
	w := member{dst: append(dst, '{')}
	w.add("$ref", ref.Raw)
	for _, key := range []string{"$defs", "definitions"} {
		if d := v.Get(key); d.Exists() {
			s.each(&w, key, d, depth)
		}
	}
	return append(w.dst, '}')
}

// keyword appends one member of a schema, and reports whether the provider enforces it.
func (s *strictWriter) keyword(w *member, key string, e, v jsonx.Value, depth int) bool {
	switch key {
	case "type", "title", "enum", "const":
		w.add(key, e.Raw)
	case "format":
		name, _ := e.Str()
		if !slices.Contains(formats, name) {
			return false
		}
		w.add(key, e.Raw)
	case "pattern":
		text, _ := e.Str()
		if s.rules == RulesAnthropic && unsupportedPattern(text) {
			return false
		}
		w.add(key, e.Raw)
	case "minItems":
		if n, ok := e.Int(); !ok || n > 1 {
			return false
		}
		w.add(key, e.Raw)
	case "properties":
		s.properties(w, e, v, depth)
	case "$defs", "definitions":
		s.each(w, key, e, depth)
	case "items":
		w.open(key)
		w.dst = s.schema(w.dst, e, depth+1)
	case "anyOf", "oneOf":
		s.alternatives(w, e, depth)
	case "allOf", "prefixItems", "additionalItems", "patternProperties", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef":
		w.dst = s.unsupported(w.dst)
	case "additionalProperties":
		if e.Kind() == jsonx.Object || !v.Get("properties").Exists() && string(e.Raw) != "false" {
			w.dst = s.unsupported(w.dst) // a map with arbitrary keys: closed, it could have no members
		}
	case "required", "description":
	default:
		return false
	}
	return true
}

// formats are the values of "format" that both OpenAI and Anthropic support.
var formats = []string{"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}

// unsupportedPattern reports whether a pattern has what Anthropic does not support: (? groups, word boundaries or backreferences.
func unsupportedPattern(pattern string) bool {
	if strings.Contains(pattern, "(?") {
		return true
	}
	for i := 0; i+1 < len(pattern); i++ {
		if pattern[i] != '\\' {
			continue
		}
		if i++; strings.IndexByte("bBk123456789", pattern[i]) >= 0 {
			return true
		}
	}
	return false
}

// properties appends the members of an object. For OpenAI, which requires all of them, optional ones become nullable.
func (s *strictWriter) properties(w *member, properties, v jsonx.Value, depth int) {
	required := requiredBy(v)
	w.open("properties")
	inner := member{dst: append(w.dst, '{')}
	for key, e := range properties.Members {
		name := string(key)
		inner.open(name)
		if s.rules != RulesOpenAI || required[name] || s.admitsNull(e, 0) {
			inner.dst = s.schema(inner.dst, e, depth+1)
			continue
		}
		s.addedNull = true
		inner.dst = s.nullable(inner.dst, e, depth+1)
	}
	inner.dst = append(inner.dst, '}')
	w.dst = inner.dst
}

// nullable appends a schema that also allows null.
func (s *strictWriter) nullable(dst []byte, v jsonx.Value, depth int) []byte {
	name, plain := v.Get("type").Str()
	if plain && name != "object" && name != "array" && !v.Get("enum").Exists() && !v.Get("const").Exists() && !v.Get("$ref").Exists() {
		rest := s.schema(nil, v, depth)
		if !s.ok {
			return dst
		}
		w := member{dst: append(dst, '{')}
		for key, e := range (jsonx.Value{Raw: rest}).Members {
			if string(key) == "type" {
				w.add("type", append(append([]byte{'['}, e.Raw...), `,"null"]`...))
				continue
			}
			w.add(string(key), e.Raw)
		}
		return append(w.dst, '}')
	}
	dst = append(dst, `{"anyOf":[`...)
	dst = s.schema(dst, v, depth)
	return append(dst, `,{"type":"null"}]}`...)
}

// required appends the list of required members: for OpenAI, all of them.
func (s *strictWriter) required(w *member, v jsonx.Value) {
	if s.rules != RulesOpenAI {
		if r := v.Get("required"); r.Exists() {
			w.add("required", r.Raw)
		}
		return
	}
	w.open("required")
	w.dst = append(w.dst, '[')
	n := 0
	for key := range v.Get("properties").Members {
		if n++; n > 1 {
			w.dst = append(w.dst, ',')
		}
		w.dst = jsonx.AppendString(w.dst, key)
	}
	w.dst = append(w.dst, ']')
}

func (s *strictWriter) each(w *member, key string, schemas jsonx.Value, depth int) {
	w.open(key)
	inner := member{dst: append(w.dst, '{')}
	for name, e := range schemas.Members {
		inner.open(string(name))
		inner.dst = s.schema(inner.dst, e, depth+1)
	}
	inner.dst = append(inner.dst, '}')
	w.dst = inner.dst
}

func (s *strictWriter) alternatives(w *member, list jsonx.Value, depth int) {
	if w.has("anyOf") {
		w.dst = s.unsupported(w.dst)
		return
	}
	w.open("anyOf")
	w.dst = append(w.dst, '[')
	for i, e := range list.Each {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		w.dst = s.schema(w.dst, e, depth+1)
	}
	w.dst = append(w.dst, ']')
}

// admitsNull reports whether a schema allows null, as far as the keywords that schema supports.
func (s *strictWriter) admitsNull(v jsonx.Value, depth int) bool { return admitsNull(s.root, v, depth) }

func admitsNull(root, v jsonx.Value, depth int) bool {
	v = resolved(root, v)
	if v.Kind() != jsonx.Object || depth > maxRefChain {
		return false
	}
	if t := v.Get("type"); t.Exists() && !slices.Contains(typesOf(v), "null") {
		return false
	}
	if c := v.Get("const"); c.Exists() && c.Kind() != jsonx.Null {
		return false
	}
	if list := v.Get("enum"); list.Exists() && !slices.ContainsFunc(listOf(list), func(e jsonx.Value) bool { return e.Kind() == jsonx.Null }) {
		return false
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		some := func(e jsonx.Value) bool { return admitsNull(root, e, depth+1) }
		if list := v.Get(key); list.Exists() && !slices.ContainsFunc(listOf(list), some) {
			return false
		}
	}
	for _, e := range listOf(v.Get("allOf")) {
		if !admitsNull(root, e, depth+1) {
			return false
		}
	}
	return true
}

func listOf(v jsonx.Value) (list []jsonx.Value) {
	for _, e := range v.Each {
		list = append(list, e)
	}
	return list
}

// singleOf is the only element of a list such as allOf, if the schema has no other validating keyword: some libraries write references so.
func singleOf(v jsonx.Value, key string) (one jsonx.Value, ok bool) {
	list := listOf(v.Get(key))
	if len(list) != 1 {
		return one, false
	}
	for k := range v.Members {
		switch string(k) {
		case key, "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly":
		default:
			return one, false
		}
	}
	return list[0], true
}

// closable reports whether a schema describes its values well enough to be closed: not so an object with arbitrary members, or an array
// without items.
func closable(v jsonx.Value) bool {
	types := typesOf(v)
	switch {
	case len(types) == 0:
		return !v.Get("properties").Exists() &&
			(v.Get("enum").Exists() || v.Get("const").Exists() || v.Get("anyOf").Exists() || v.Get("oneOf").Exists())
	case slices.Contains(types, "object") && !v.Get("properties").Exists():
		return string(v.Get("additionalProperties").Raw) == "false"
	case slices.Contains(types, "array"):
		return v.Get("items").Kind() == jsonx.Object
	}
	return true
}

// describesObject reports whether a schema describes objects, for which providers require additionalProperties: false.
func describesObject(v jsonx.Value) bool {
	return v.Get("properties").Exists() || slices.Contains(typesOf(v), "object")
}

func requiredBy(v jsonx.Value) map[string]bool {
	names := map[string]bool{}
	for _, e := range v.Get("required").Each {
		name, _ := e.Str()
		names[name] = true
	}
	return names
}

// member writes the members of an object.
type member struct {
	dst  []byte
	keys []string
}

func (w *member) open(key string) {
	if len(w.keys) > 0 {
		w.dst = append(w.dst, ',')
	}
	w.keys = append(w.keys, key)
	w.dst = append(jsonx.AppendString(w.dst, key), ':')
}

func (w *member) add(key string, raw []byte) {
	w.open(key)
	w.dst = append(w.dst, raw...)
}

func (w *member) has(key string) bool { return slices.Contains(w.keys, key) }
