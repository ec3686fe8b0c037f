package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// Field is a member of a change: absent (keeps the current value), null (removes the limit or restriction), or a value.
type Field[T any] struct {
	Given bool
	Null  bool
	Value T
}

// Set returns a field with a value.
func Set[T any](v T) Field[T] { return Field[T]{Given: true, Value: v} }

// Null returns a field that is null.
func Null[T any]() Field[T] { return Field[T]{Given: true, Null: true} }

// IsZero reports whether the field is absent.
func (f Field[T]) IsZero() bool { return !f.Given }

// MarshalJSON writes the value, or null.
func (f Field[T]) MarshalJSON() ([]byte, error) {
	if f.Null || !f.Given {
		return []byte("null"), nil
	}
	return json.Marshal(f.Value)
}

// UnmarshalJSON reads a value, or null.
func (f *Field[T]) UnmarshalJSON(b []byte) error {
	f.Given = true
	if f.Null = string(b) == "null"; f.Null {
		return nil
	}
	return json.Unmarshal(b, &f.Value)
}

// Nullable marks a field as a member that may be null, for Decode.
func (f *Field[T]) Nullable() {}

// Decode reads a JSON object into a struct. It refuses duplicate members, members that the struct lacks, names in another case, and null for anything
// but a Field. An empty body counts as an empty object. The error is a fault that names the member.
func Decode(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	v, err := jsonx.Unique.Parse(body)
	if err != nil {
		return fault.Newf(fault.InvalidRequest, "the body: %v", err)
	}
	if v.Kind() != jsonx.Object {
		return fault.New(fault.InvalidRequest, "the body is not a JSON object", nil)
	}
	fields := members(reflect.ValueOf(into).Elem())
	for key, m := range v.Members {
		name := string(key)
		to, ok := fields[name]
		if !ok {
			return invalid(fault.Clip(name), " is not a member of this request")
		}
		if _, ok := reflect.TypeAssert[interface{ Nullable() }](to.Addr()); !ok && m.Kind() == jsonx.Null {
			return invalid(name, ": null, expected %s", typeName(to.Type()))
		}
		if err := json.Unmarshal(m.Raw, to.Addr().Interface()); err != nil {
			return memberFault(name, err)
		}
	}
	return nil
}

// memberFault returns the fault for an invalid member.
func memberFault(name string, err error) error {
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Param != "" {
		return invalid(name+"."+f.Param, "%s", strings.TrimPrefix(f.Public, f.Param))
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid(name, ": a JSON %s, expected %s", t.Value, typeName(t.Type))
	}
	return invalid(name, ": %v", err)
}

// typeName returns a type's name for error messages.
func typeName(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // the others are named below
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	}
	return "a JSON " + t.Kind().String()
}

// members returns the fields of a struct, and of those that it embeds, by their JSON names.
func members(v reflect.Value) map[string]reflect.Value {
	all := map[string]reflect.Value{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && !f.Anonymous {
			all[name] = v.FieldByIndex(f.Index)
		}
	}
	return all
}
