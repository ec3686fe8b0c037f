// Package rawjson reads JSON of any shape, member by member, where speed does not matter: schemas, and requests to fake providers. The data path uses
// internal/jsonx.
package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Object is a JSON object whose members are not parsed yet. Readers of a member return the zero value if it is missing or of another type.
type Object map[string]json.RawMessage

// Parse reads an object. The error means that raw is none.
func Parse(raw []byte) (Object, error) {
	var o Object
	err := json.Unmarshal(raw, &o)
	return o, err
}

// Unknown returns the first member, in alphabetical order, that is not in known; "" if there is none.
func (o Object) Unknown(known ...string) string {
	var unknown []string
	for k := range o {
		if !slices.Contains(known, k) {
			unknown = append(unknown, k)
		}
	}
	if len(unknown) == 0 {
		return ""
	}
	return slices.Min(unknown)
}

// Has reports whether a member is present and not null.
func (o Object) Has(key string) bool {
	v, ok := o[key]
	return ok && string(v) != "null"
}

// Str reads a string.
func (o Object) Str(key string) string { return member[string](o, key) }

// Bool reads a boolean.
func (o Object) Bool(key string) bool { return member[bool](o, key) }

// Object reads an object.
func (o Object) Object(key string) Object { return member[Object](o, key) }

// Strings reads an array of strings.
func (o Object) Strings(key string) []string { return member[[]string](o, key) }

// List reads an array of objects.
func (o Object) List(key string) []Object { return member[[]Object](o, key) }

// Num reads a number; ok is false if there is none.
func (o Object) Num(key string) (n float64, ok bool) {
	if !o.Has(key) {
		return 0, false
	}
	err := json.Unmarshal(o[key], &n)
	return n, err == nil
}

func member[T any](o Object, key string) T {
	var v T
	_ = json.Unmarshal(o[key], &v) // another type, also of a list's element, reads as the zero value
	return v
}

// Clone returns a copy that shares the members' text.
func (o Object) Clone() Object {
	c := make(Object, len(o)+1)
	maps.Copy(c, o)
	return c
}

// Raw returns the object as JSON; nil if a member is not JSON.
func (o Object) Raw() json.RawMessage {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil
	}
	return raw
}

// Keys returns the keys of an object in order; nil if raw is none.
func Keys(raw json.RawMessage) (keys []string) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return keys
		}
		keys = append(keys, fmt.Sprint(key))
	}
	return keys
}

// Resolve returns the target of a JSON Pointer in a schema's $ref inside root; nil for a reference to another document or to nothing.
func Resolve(root json.RawMessage, ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := root
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		o, err := Parse(at)
		if err != nil {
			return nil
		}
		at = o[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	return at
}
