package structured

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Providers enforce less than JSON Schema can say. A schema is made one that they take, which allows every answer that the form allows
// (besides members that the form does not name): objects are closed; limits on values become words in descriptions; where every
// member has to be required, the optional ones may be null. Nulls that stand for "not there" are taken out of the answer again, and the
// answer is checked with the form itself.

// strictly is the form as rules want it. undo says that answers may have nulls that the form does not know; ok is false where it
// cannot be said in the rules' words.
func (f *Form) strictly(r Rules) (strict jsonx.Raw, undo, ok bool) {
	s := stricter{root: f.schema, rules: r, ok: true}
	b := s.schema(nil, f.schema, 0)
	if !s.ok {
		return nil, false, false
	}
	v, err := jsonx.Parse(b)
	if err != nil || !wire.Enforceable(v, r.enforcedBy()) || !small(v, r) {
		return nil, false, false
	}
	return b, s.nulled, true
}

// stricter writes a schema anew.
type stricter struct {
	root   jsonx.Value
	rules  Rules
	nulled bool // a member that was optional may be null now
	ok     bool
}

func (s *stricter) refuse(dst []byte) []byte {
	s.ok = false
	return dst
}

// schema appends a schema that a value of v's is valid by.
func (s *stricter) schema(dst []byte, v jsonx.Value, depth int) []byte {
	if !s.ok || v.Kind() != jsonx.Object || depth > deepestSchema {
		return s.refuse(dst)
	}
	if ref := v.Get("$ref"); ref.Exists() {
		return s.reference(dst, v, ref, depth)
	}
	if one, ok := onlyOf(v, "allOf"); ok {
		return s.schema(dst, one, depth+1)
	}
	if !closable(v) {
		return s.refuse(dst)
	}
	w := member{dst: append(dst, '{')}
	var notes []string
	for key, e := range v.Members {
		if !s.keyword(&w, string(key), e, v, depth) {
			if n := limit(string(key), e); n != "" {
				notes = append(notes, n)
			}
		}
	}
	if isClosed(v) {
		w.add("additionalProperties", []byte("false"))
		s.required(&w, v)
	}
	described(&w, v, notes)
	return append(w.dst, '}')
}

// reference appends a reference, which stands alone.
func (s *stricter) reference(dst []byte, v, ref jsonx.Value, depth int) []byte {
	name, _ := ref.Str()
	if tokens, ok := pointer(name); !ok || len(tokens) == 0 || !resolved(s.root, v).Exists() {
		return s.refuse(dst)
	}
	if s.rules == RulesAnthropic && s.recurs(resolved(s.root, v), depth) {
		return s.refuse(dst)
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

// keyword appends one member of a schema, and reports whether it still means what it did.
func (s *stricter) keyword(w *member, key string, e, v jsonx.Value, depth int) bool {
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
		if s.rules == RulesAnthropic && beyondRegular(text) {
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
		w.dst = s.refuse(w.dst)
	case "additionalProperties":
		if e.Kind() == jsonx.Object || !v.Get("properties").Exists() && string(e.Raw) != "false" {
			w.dst = s.refuse(w.dst) // a map: closed, it could hold nothing
		}
	case "required", "description":
	default:
		return false
	}
	return true
}

// formats are those that both OpenAI and Anthropic document.
var formats = []string{"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}

// beyondRegular reports whether a pattern has what Anthropic does not take: groups with a question mark, edges of words, references back.
func beyondRegular(pattern string) bool {
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

// properties appends the members of an object, those that the rules want required and that the form does not as nullable.
func (s *stricter) properties(w *member, properties, v jsonx.Value, depth int) {
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
		s.nulled = true
		inner.dst = s.nullable(inner.dst, e, depth+1)
	}
	inner.dst = append(inner.dst, '}')
	w.dst = inner.dst
}

// nullable appends a schema that allows null besides.
func (s *stricter) nullable(dst []byte, v jsonx.Value, depth int) []byte {
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

// required lists what an object has to have.
func (s *stricter) required(w *member, v jsonx.Value) {
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

func (s *stricter) each(w *member, key string, schemas jsonx.Value, depth int) {
	w.open(key)
	inner := member{dst: append(w.dst, '{')}
	for name, e := range schemas.Members {
		inner.open(string(name))
		inner.dst = s.schema(inner.dst, e, depth+1)
	}
	inner.dst = append(inner.dst, '}')
	w.dst = inner.dst
}

func (s *stricter) alternatives(w *member, list jsonx.Value, depth int) {
	if w.has("anyOf") {
		w.dst = s.refuse(w.dst)
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

// admitsNull reports whether null is a value by a schema, of those that schema writes.
func (s *stricter) admitsNull(v jsonx.Value, depth int) bool { return admitsNull(s.root, v, depth) }

func admitsNull(root, v jsonx.Value, depth int) bool {
	v = resolved(root, v)
	if v.Kind() != jsonx.Object || depth > longestChain {
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

// onlyOf is the only element of a list beside which the schema says nothing that matters: how some libraries write a reference.
func onlyOf(v jsonx.Value, key string) (one jsonx.Value, ok bool) {
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

// closable reports whether a schema says enough of what its values look like: of an object that may have any members, or an array of
// anything, nothing would be left.
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

// isClosed reports whether a schema describes objects, which the rules want closed.
func isClosed(v jsonx.Value) bool {
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
