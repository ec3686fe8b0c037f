package structured

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy/schema"
)

// Schema is a compiled JSON Schema that an answer must follow. It is immutable and safe for concurrent use.
type Schema struct {
	name     string
	schema   jsonx.Value // unchanged
	compact  jsonx.Raw   // without $schema, $id, $comment and white space, as providers and models get it
	builtin  bool
	strict   bool
	fallback []byte
	kind     jsonx.Kind // the only JSON type of its values, Invalid if there are several
	enforced [2]func() providerSchema
	wrapped  func() *Schema // an object with this schema as its only member; returns nil if it needs none
	checkers sync.Pool      // of *checker, each for one check at a time

	anyObject bool // JSON mode: any object
}

// Compile compiles a client's schema. The error names the path in the schema and may be shown to the client. Recently used schemas are
// cached. Safe for concurrent use.
func Compile(name string, schema []byte) (*Schema, error) { return recent.get(name, schema) }

// compile compiles any schema, without the cache.
func compile(name string, b []byte) (*Schema, error) {
	v, err := parseBounded(b)
	if err != nil {
		return nil, err
	}
	c, err := newChecker(v)
	if err != nil {
		return nil, err
	}
	f := &Schema{name: name, schema: v, compact: withoutIDs(v)}
	f.kind = f.onlyKind()
	for i, r := range []Rules{RulesOpenAI, RulesAnthropic} {
		f.enforced[i] = sync.OnceValue(func() providerSchema { return f.forRules(r) })
	}
	f.wrapped = sync.OnceValue(f.wrap)
	f.checkers.Put(c)
	return f, nil
}

// AnyObject is the schema of JSON mode: any object. Safe for concurrent use.
var AnyObject = sync.OnceValue(func() *Schema {
	f, err := compile("json_object", []byte(`{"type":"object"}`))
	if err != nil {
		return nil // cannot happen: a test compiles it
	}
	f.anyObject = true
	return f
})

// IsAnyObject reports whether it is the schema of JSON mode.
func (sch *Schema) IsAnyObject() bool { return sch.anyObject }

// Published returns a built-in schema by its name, nil if there is none. Safe for concurrent use.
func Published(name string) *Schema { return published()[name] }

var published = sync.OnceValue(func() map[string]*Schema {
	forms := map[string]*Schema{}
	for _, s := range schema.All() {
		if f, err := compile(s.Name, s.JSON); err == nil { // a test checks that all compile
			f.builtin, f.strict, f.fallback = true, s.Strict, s.Default
			forms[s.Name] = f
		}
	}
	return forms
})

// Name returns the schema's name, which may be empty for a client's schema.
func (sch *Schema) Name() string { return sch.name }

// Builtin reports whether it is one of the schemas that Bardo publishes (policy/schema).
func (sch *Schema) Builtin() bool { return sch.builtin }

// Strict reports whether an answer is used unchanged or not at all: never repaired, retried or replaced by a default.
func (sch *Schema) Strict() bool { return sch.strict }

// Default returns the answer that is used if no valid one was received; nil if there is none. Read-only.
func (sch *Schema) Default() []byte { return sch.fallback }

// JSON returns the JSON Schema itself. Read-only.
func (sch *Schema) JSON() jsonx.Raw { return sch.schema.Raw }

// checker takes a checker from the pool; return it with checkers.Put.
func (sch *Schema) checker() (*checker, error) {
	if c, ok := sch.checkers.Get().(*checker); ok {
		return c, nil
	}
	return newChecker(sch.schema)
}

// onlyKind is the only JSON type that the schema's "type" allows; Invalid if it allows several.
func (sch *Schema) onlyKind() jsonx.Kind {
	kind := jsonx.Invalid
	for _, name := range typesOf(sch.resolved(sch.schema)) {
		k := kindNamed(name)
		if kind != jsonx.Invalid && kind != k {
			return jsonx.Invalid
		}
		kind = k
	}
	return kind
}

// typesOf returns the names in a schema's "type".
func typesOf(v jsonx.Value) []string {
	t := v.Get("type")
	if s, ok := t.Str(); ok {
		return []string{s}
	}
	var names []string
	for _, e := range t.Each {
		s, _ := e.Str()
		names = append(names, s)
	}
	return names
}

func kindNamed(name string) jsonx.Kind {
	switch name {
	case "object":
		return jsonx.Object
	case "array":
		return jsonx.Array
	case "string":
		return jsonx.String
	case "number", "integer":
		return jsonx.Number
	case "boolean":
		return jsonx.Bool
	case "null":
		return jsonx.Null
	}
	return jsonx.Invalid
}

// resolved follows a schema's references. The result does not exist if a reference has no target.
func (sch *Schema) resolved(v jsonx.Value) jsonx.Value { return resolved(sch.schema, v) }

// maxRefChain is how many references in a row are followed.
const maxRefChain = 64

func resolved(root, v jsonx.Value) jsonx.Value {
	for range maxRefChain {
		ref := v.Get("$ref")
		if !ref.Exists() {
			return v
		}
		s, ok := ref.Str()
		if !ok {
			return jsonx.Value{}
		}
		v = byPointer(root, s)
	}
	return jsonx.Value{}
}

// byPointer returns the value at a JSON pointer in a fragment, such as #/$defs/x.
func byPointer(root jsonx.Value, ref string) jsonx.Value {
	tokens, ok := parsePointer(ref)
	if !ok {
		return jsonx.Value{}
	}
	v := root
	for _, t := range tokens {
		v = child(v, t)
	}
	return v
}

func child(v jsonx.Value, token string) jsonx.Value {
	if v.Kind() == jsonx.Object {
		return v.Get(token)
	}
	for i, e := range v.Each {
		if fmt.Sprint(i) == token {
			return e
		}
	}
	return jsonx.Value{}
}

// withoutIDs returns a schema without the keywords that identify the document, which some providers refuse, and without white space.
func withoutIDs(v jsonx.Value) jsonx.Raw {
	w := member{dst: []byte{'{'}}
	for key, e := range v.Members {
		switch name := string(key); name {
		case "$schema", "$id", "$comment":
		default:
			w.add(name, e.Raw)
		}
	}
	var out bytes.Buffer
	if err := json.Compact(&out, append(w.dst, '}')); err != nil {
		return v.Raw
	}
	return out.Bytes()
}

// trimmed returns a schema's bytes without white space around them.
func trimmed(b []byte) []byte { return bytes.TrimSpace(b) }
