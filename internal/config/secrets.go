package config

import "reflect"

// Secrets are all credentials of the configuration, wherever they stand in it, those of the environment included. Some may not be set.
func (c *Config) Secrets() []Secret {
	out := append(c.Store.Ledger.passwords(), Database(c.Store.Vectors).passwords()...)
	gather(reflect.ValueOf(c), &out)
	return out
}

// gather walks over everything that a value holds.
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
