package config

import "reflect"

// Secrets returns all credentials of the configuration, including those from the environment. Some may be unset.
func (c *Config) Secrets() []Secret {
	out := append(c.Store.Ledger.passwords(), Database(c.Store.Vectors).passwords()...)
	gather(reflect.ValueOf(c), &out)
	return out
}

// gather collects the secrets of a value recursively.
func gather(v reflect.Value, out *[]Secret) {
	if s, ok := reflect.TypeAssert[Secret](v); ok {
		*out = append(*out, s)
		return
	}
	switch v.Kind() { //nolint:exhaustive // the others hold nothing
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			gather(v.Elem(), out)
		}
	case reflect.Struct:
		for f, field := range v.Fields() {
			if f.IsExported() {
				gather(field, out)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			gather(v.Index(i), out)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			gather(it.Value(), out)
		}
	}
}
