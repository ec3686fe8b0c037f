package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/policy"
)

// Print writes the effective configuration as YAML, with secrets masked. Parse can read it.
func Print(cfg *Config) []byte {
	p := printer{kinds: cfg.kinds}
	p.table(reflect.ValueOf(cfg).Elem(), "")
	return []byte(p.String())
}

type printer struct {
	strings.Builder

	kinds kindsOf
}

// table writes the keys of a struct that are given or have a default, each on its own line.
func (p *printer) table(v reflect.Value, indent string) {
	p.fields(v, fieldsOf(v.Type()), indent)
}

func (p *printer) fields(v reflect.Value, fields []field, indent string) {
	for i, f := range fields {
		if i == 1 && v.Type() == reflect.TypeFor[Providers]() { // after order
			p.hosts(v.FieldByName("Hosts").Interface().(map[policy.ProviderID]*Host), indent) //nolint:forcetypeassert // its own type
		}
		fv := v.Field(f.index)
		switch {
		case isTable(fv.Type()):
			inner := printer{kinds: p.kinds}
			if inner.table(fv, indent+"  "); inner.Len() > 0 {
				fmt.Fprintf(p, "%s%s:\n%s", indent, f.name, inner.String())
			}
		case !fv.IsZero() || f.def != "":
			fmt.Fprintf(p, "%s%s:", indent, f.name)
			p.value(fv, indent)
		}
	}
}

// hosts writes the sections of kinds with the keys of a Host.
func (p *printer) hosts(hosts map[policy.ProviderID]*Host, indent string) {
	for _, k := range p.kinds.hosts() {
		if h := hosts[policy.ProviderID(k.Name)]; h != nil {
			fmt.Fprintf(p, "%s%s:\n", indent, k.Name)
			p.fields(reflect.ValueOf(h).Elem(), hostFields(k), indent+"  ")
		}
	}
}

// value writes the text after a key's colon.
func (p *printer) value(v reflect.Value, indent string) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case isTable(v.Type()):
		inner := printer{kinds: p.kinds}
		if inner.table(v, indent+"  "); inner.Len() == 0 {
			p.WriteString(" {}\n")
			return
		}
		p.WriteString("\n" + inner.String())
	case v.Kind() == reflect.Map && v.Len() == 0:
		p.WriteString(" {}\n")
	case v.Kind() == reflect.Map:
		p.WriteString("\n")
		p.dictionary(v, indent+"  ")
	case v.Kind() == reflect.Slice && isTable(v.Type().Elem()) && v.Len() > 0:
		p.WriteString("\n")
		for i := range v.Len() {
			p.element(v.Index(i), indent+"  ")
		}
	case v.Kind() == reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = text(v.Index(i))
		}
		p.WriteString(" [" + strings.Join(items, ", ") + "]\n")
	default:
		p.WriteString(" " + text(v) + "\n")
	}
}

// dictionary writes a map, sorted by key.
func (p *printer) dictionary(v reflect.Value, indent string) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys {
		fmt.Fprintf(p, "%s%s:", indent, quote(k.String()))
		p.value(v.MapIndex(k), indent)
	}
}

// element writes a struct as an element of a list: the dash is in the indentation of its first key.
func (p *printer) element(v reflect.Value, indent string) {
	var inner printer
	inner.table(v, indent+"  ")
	p.WriteString(indent + "- " + strings.TrimPrefix(inner.String(), indent+"  "))
}

// text writes a scalar so that it parses to the same value.
func text(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case bool:
		return strconv.FormatBool(x)
	case int, int64:
		return strconv.FormatInt(v.Int(), 10)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case policy.Micro:
		return policy.Pico(int64(x) * 1_000_000).String()
	case policy.Price:
		return policy.Pico(int64(x) * int64(policy.USD)).String()
	case time.Duration:
		return duration(x)
	case Interval:
		return x.String()
	case Addr:
		if x == "" {
			return "off"
		}
		return strconv.Quote(string(x))
	case fmt.Stringer: // URL, and Secret, which masks itself
		return strconv.Quote(x.String())
	default:
		return quote(v.String())
	}
}

// duration writes 15m for Go's 15m0s.
func duration(t time.Duration) string {
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// quote leaves plain words unquoted, quotes anything else, and escapes "${".
func quote(s string) string {
	isPlain := !slices.Contains([]string{"", "null", "true", "false"}, strings.ToLower(s)) && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_'
	})
	if isPlain {
		return s
	}
	return strconv.Quote(strings.ReplaceAll(s, "${", "$${"))
}
