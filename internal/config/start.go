package config

import "reflect"

// AtStart returns the keys whose values differ between two configurations and are only read at the start of a process.
func AtStart(before, after *Config) []string {
	return atStart("", reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem())
}

func atStart(prefix string, before, after reflect.Value) (changed []string) {
	t := before.Type()
	for _, f := range fieldsOf(t) {
		key, a, b := join(prefix, f.name), before.Field(f.index), after.Field(f.index)
		switch {
		case f.start:
			if !reflect.DeepEqual(a.Interface(), b.Interface()) {
				changed = append(changed, key)
			}
		case isTable(t.Field(f.index).Type):
			changed = append(changed, atStart(key, a, b)...)
		case a.Kind() == reflect.Pointer && isTable(a.Type().Elem()):
			changed = append(changed, atStart(key, tableOf(a), tableOf(b))...)
		}
	}
	return changed
}

// tableOf dereferences a pointer to a table; nil becomes an empty table.
func tableOf(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}
