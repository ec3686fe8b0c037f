package structured

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy/schema"
)

// Form is a JSON Schema that an answer is to follow. It is immutable, and safe for concurrent use.
type Form struct {
	name     string
	schema   jsonx.Value // as it came
	plain    jsonx.Raw   // the same without what only says which kind of document it is; as providers and models are shown it
	ours     bool
	strict   bool
	fallback []byte
	kind     jsonx.Kind // of its values, Invalid for any
	enforced [2]func() sent
	wrapped  func() *Form // the object with this form as its only member; nil where there is none
	checkers sync.Pool    // of *checker; each serves one check at a time

	anyObject bool // JSON mode: an object, whatever it has
}

// Compile reads a caller's schema. The error names the place in the schema, and is fit for the caller. Forms of recent schemas are
// kept, so that the same one costs little again. Safe for concurrent use.
func Compile(name string, schema []byte) (*Form, error) { return recent.form(name, schema) }

// compile reads a schema, whoever's it is.
func compile(name string, b []byte) (*Form, error) {
	v, err := bounded(b)
	if err != nil {
		return nil, err
	}
	c, err := newChecker(v)
	if err != nil {
		return nil, err
	}
	f := &Form{name: name, schema: v, plain: bare(v)}
	f.kind = f.wants()
	for i, r := range []Rules{RulesOpenAI, RulesAnthropic} {
		f.enforced[i] = sync.OnceValue(func() sent { return f.sentBy(r) })
	}
	f.wrapped = sync.OnceValue(f.wrap)
	f.checkers.Put(c)
	return f, nil
}

// AnyObject is the form of JSON mode: an object, whatever it has. Safe for concurrent use.
var AnyObject = sync.OnceValue(func() *Form {
	f, err := compile("json_object", []byte(`{"type":"object"}`))
	if err != nil {
		return nil // a test compiles it
	}
	f.anyObject = true
	return f
})

// IsAnyObject reports whether it is the form of JSON mode.
func (f *Form) IsAnyObject() bool { return f.anyObject }

// Named is one of the published forms, nil for none. Safe for concurrent use.
func Named(name string) *Form { return named()[name] }

var named = sync.OnceValue(func() map[string]*Form {
	forms := map[string]*Form{}
	for _, s := range schema.All() {
		if f, err := compile(s.Name, s.JSON); err == nil { // a test compiles them all
			f.ours, f.strict, f.fallback = true, s.Strict, s.Default
			forms[s.Name] = f
		}
	}
	return forms
})

// Name is what the caller, or we, call it. It may be empty.
func (f *Form) Name() string { return f.name }

// Ours reports whether it is one of the published forms.
func (f *Form) Ours() bool { return f.ours }

// Strict reports whether an answer is taken as it comes or not at all: it is neither repaired, nor asked for again, nor made up.
func (f *Form) Strict() bool { return f.strict }

// Default is what stands in for an answer that cannot be had; nil for none. Read-only.
func (f *Form) Default() []byte { return f.fallback }

// Schema is the form's JSON Schema. Read-only.
func (f *Form) Schema() jsonx.Raw { return f.schema.Raw }

// checker is one to check with; put gives it back.
func (f *Form) checker() (*checker, error) {
	if c, ok := f.checkers.Get().(*checker); ok {
		return c, nil
	}
	return newChecker(f.schema)
}

// wants is the only kind of JSON value that the form allows, as far as its type says.
func (f *Form) wants() jsonx.Kind {
	kind := jsonx.Invalid
	for _, name := range typesOf(f.resolved(f.schema)) {
		k := kindNamed(name)
		if kind != jsonx.Invalid && kind != k {
			return jsonx.Invalid
		}
		kind = k
	}
	return kind
}

// typesOf are the names at a schema's "type".
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

// resolved follows references inside the schema to what they refer to. It does not exist for what leads nowhere.
func (f *Form) resolved(v jsonx.Value) jsonx.Value { return resolved(f.schema, v) }

// longestChain is how many references may follow each other.
const longestChain = 64

func resolved(root, v jsonx.Value) jsonx.Value {
	for range longestChain {
		ref := v.Get("$ref")
		if !ref.Exists() {
			return v
		}
		s, ok := ref.Str()
		if !ok {
			return jsonx.Value{}
		}
		v = pointed(root, s)
	}
	return jsonx.Value{}
}

// pointed is the value that a JSON pointer in a fragment names: #/$defs/x.
func pointed(root jsonx.Value, ref string) jsonx.Value {
	tokens, ok := pointer(ref)
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

// bare is a schema without its names as a document, which some providers refuse, and without white space in between.
func bare(v jsonx.Value) jsonx.Raw {
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

// clean is the bytes of a schema without white space around.
func clean(b []byte) []byte { return bytes.TrimSpace(b) }
