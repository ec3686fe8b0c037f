package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/internal/configfile"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Field documents one key of the schema.
type Field struct {
	Key     string // dotted path; a list's elements are "[]", names chosen by the operator "*"
	Type    string // description of the expected value
	Default string // as written in a file, "" for none
	Doc     string
	Built   bool // false: accepted with a warning, without effect
}

// Schema lists every key that Parse accepts with these kinds of providers, in the order of the structs, keys without effect at the end.
func Schema(kinds ...kind.Kind) []Field {
	out := describe("", reflect.TypeFor[Config](), kinds)
	for _, l := range laterKeys {
		out = append(out, Field{Key: l.key, Type: "any", Doc: l.doc})
	}
	return out
}

func describe(prefix string, t reflect.Type, kinds kindsOf) []Field {
	return describeFields(prefix, t, fieldsOf(t), kinds)
}

func describeFields(prefix string, t reflect.Type, fields []field, kinds kindsOf) []Field {
	var out []Field
	for i, f := range fields {
		if i == 1 && t == reflect.TypeFor[Providers]() { // after order
			for _, k := range kinds.hosts() {
				out = append(out, Field{Key: join(prefix, k.Name), Type: configfile.Table.String(), Doc: k.Doc, Built: true})
				out = append(out, describeFields(join(prefix, k.Name), reflect.TypeFor[Host](), hostFields(k), kinds)...)
			}
		}
		key, ft := join(prefix, f.name), t.Field(f.index).Type
		doc := Field{Key: key, Type: f.of(kinds).expected(ft), Default: f.def, Doc: f.doc, Built: true}
		inner := ft
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			switch inner.Kind() { //nolint:exhaustive // of the three above
			case reflect.Slice:
				key += "[]"
			case reflect.Map:
				key += ".*"
			}
			inner = inner.Elem()
		}
		out = append(out, doc)
		if isTable(inner) {
			out = append(out, describe(key, inner, kinds)...)
		}
	}
	return out
}

// field is a struct field as its tags describe it.
type field struct {
	index    int
	name     string
	def      string
	doc      string
	oneOf    []string
	min, max int64
	start    bool   // a change takes effect at the next start
	path     string // pathFile or pathScheme: the value is, or may be, a path
}

// fieldsOf returns the fields of a structure that have keys, in order. They are shared and must not be changed.
func fieldsOf(t reflect.Type) []field {
	known, ok := fieldsByType.Load(t)
	if !ok {
		known, _ = fieldsByType.LoadOrStore(t, readFields(t))
	}
	return known.([]field) //nolint:forcetypeassert // nothing else is stored
}

// fieldsByType caches the fields of structures: []field by reflect.Type.
var fieldsByType sync.Map

func readFields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, ok := tag.Lookup("key")
		if !ok {
			continue
		}
		f := field{index: i, name: name, def: tag.Get("default"), doc: tag.Get("doc"), min: math.MinInt64, max: math.MaxInt64, start: tag.Get("start") == "true", path: tag.Get("path")}
		if s, ok := tag.Lookup("oneof"); ok {
			f.oneOf = strings.Fields(s)
		}
		if s, ok := tag.Lookup("min"); ok {
			f.min, _ = strconv.ParseInt(s, 10, 64)
		}
		if s, ok := tag.Lookup("max"); ok {
			f.max, _ = strconv.ParseInt(s, 10, 64)
		}
		out = append(out, f)
	}
	return out
}

// regionalKeys are the keys of a Host that only kinds with regions have.
var regionalKeys = []string{"region", "access_key_id", "secret_access_key", "session_token"}

// hostFields returns the fields of a Host that the section of a kind has.
func hostFields(k kind.Kind) []field {
	return slices.DeleteFunc(slices.Clone(fieldsOf(reflect.TypeFor[Host]())), func(f field) bool {
		return f.name == "models" && k.Section != kind.HostSection || f.name == "api_version" && k.APIVersion == "" ||
			!k.Regional() && slices.Contains(regionalKeys, f.name)
	})
}

// of returns the field with $vendors among its choices replaced by the names of the vendors.
func (f field) of(kinds kindsOf) field {
	if i := slices.Index(f.oneOf, "$vendors"); i >= 0 {
		f.oneOf = slices.Replace(slices.Clone(f.oneOf), i, i+1, kinds.vendors()...)
	}
	return f
}

func names(fs []field) []string {
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = f.name
	}
	return out
}

// isTable reports whether a type is written as a table: a struct with keys. URL and Secret are structs that are written as text.
func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[URL]() && t != reflect.TypeFor[Secret]()
}

// expected describes the values of a type.
func (f field) expected(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Addr]():
		return "host:port or off"
	case reflect.TypeFor[Database]():
		return "sqlite://path or postgres://user@host/database"
	case reflect.TypeFor[Vectors]():
		return "memory or postgres://user@host/database"
	case reflect.TypeFor[Socket]():
		return "unix:///path or host:port"
	case reflect.TypeFor[URL]():
		return "a URL such as https://api.example/v1"
	case reflect.TypeFor[time.Duration]():
		return "a duration such as 30s or 5m"
	case reflect.TypeFor[Interval]():
		return "a duration such as 30s or 5m, 0 or off"
	case reflect.TypeFor[policy.Price]():
		return "USD per million tokens such as 0.25"
	case reflect.TypeFor[policy.Micro]():
		return "USD such as 0.50"
	case reflect.TypeFor[policy.Feature]():
		return "the name of a feature"
	case reflect.TypeFor[Secret]():
		return "a secret, ${VAR} or env:VAR"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return f.expected(t.Elem())
	case reflect.Slice:
		return "a list: " + f.expected(t.Elem())
	case reflect.Struct:
		return configfile.Table.String()
	case reflect.Bool:
		return "true or false"
	case reflect.Map:
		return configfile.Table.String()
	case reflect.Int, reflect.Int64:
		return f.wholeNumber()
	case reflect.Float64:
		return strings.Replace(f.wholeNumber(), "whole number", "number", 1)
	default:
		if f.oneOf != nil {
			return strings.Join(f.oneOf[:len(f.oneOf)-1], ", ") + " or " + f.oneOf[len(f.oneOf)-1]
		}
		return "text"
	}
}

func (f field) wholeNumber() string {
	switch {
	case f.min > math.MinInt64 && f.max < math.MaxInt64:
		return fmt.Sprintf("a whole number from %d to %d", f.min, f.max)
	case f.min > math.MinInt64:
		return fmt.Sprintf("a whole number of at least %d", f.min)
	}
	return "a whole number"
}

// newWithDefaults returns a pointer to a value of t whose fields have the defaults of their tags.
func newWithDefaults(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if isTable(t) {
		setDefaults(v.Elem())
	}
	return v
}

func setDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		fv := v.Field(f.index)
		switch {
		case isTable(fv.Type()):
			setDefaults(fv)
		case f.def != "":
			_ = set(fv, f.def, f) // a test sets every default
		}
	}
}
