package config

import "reflect"

// ReadAtStart returns the keys whose values AtStart compares.
func ReadAtStart() []string { return readAtStart("", reflect.TypeFor[Config]()) }

func readAtStart(prefix string, t reflect.Type) (keys []string) {
	for _, f := range fieldsOf(t) {
		key, inner := join(prefix, f.name), t.Field(f.index).Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.start:
			keys = append(keys, key)
		case isTable(inner):
			keys = append(keys, readAtStart(key, inner)...)
		}
	}
	return keys
}
