package config

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/baseurl"
	"bardo.money/gateway/internal/configfile"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// maxPrice limits a price, so that the cost of any request fits its integer: 10,000 USD per million tokens.
const maxPrice = policy.Price(10_000) * policy.Price(policy.USD)

// decoder fills the structs of the schema from a tree and collects all problems.
type decoder struct {
	env      func(string) (string, bool)
	dir      string                    // of the configuration file
	where    map[string]configfile.Pos // position of each given key
	kinds    kindsOf                   // that can be configured
	problems []Problem
	meant    []string // keys that were given under a wrong name
}

// Messages about a required key.
const (
	missing = "missing"
	noKey   = "no key"
)

func (d *decoder) fail(at configfile.Pos, key, expected, format string, args ...any) {
	d.problems = append(d.problems, at.Problem(key, expected, format, args...))
}

func (d *decoder) warn(at configfile.Pos, key, format string, args ...any) {
	p := at.Problem(key, "", format, args...)
	p.Warning = true
	d.problems = append(d.problems, p)
}

// structure decodes a table into a struct, whose fields already hold their defaults.
func (d *decoder) structure(key string, n *configfile.Node, v reflect.Value) {
	d.members(key, n, v, fieldsOf(v.Type()))
}

// members decodes a table into some fields of a struct.
func (d *decoder) members(key string, n *configfile.Node, v reflect.Value, fields []field) {
	for _, e := range n.Keys {
		full := join(key, e.Name)
		d.where[full] = e.At
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == e.Name })
		switch {
		case i >= 0:
			d.value(full, e.Value, v.Field(fields[i].index), fields[i])
		case isLater(full):
			d.later(full, e)
		case d.isHost(v, e.Name):
			d.host(full, e.Value, v.Addr().Interface().(*Providers), d.kinds.find(e.Name)) //nolint:forcetypeassert // isHost looked at it
		default:
			d.unknown(full, e, append(d.names(v, fields), laterBelow(key)...))
		}
	}
}

// isHost reports whether a key of a table is the section of a kind with the keys of a Host.
func (d *decoder) isHost(v reflect.Value, name string) bool {
	return v.Type() == reflect.TypeFor[Providers]() && slices.ContainsFunc(d.kinds.hosts(), func(k kind.Kind) bool { return k.Name == name })
}

// host decodes the section of a kind with the keys of a Host.
func (d *decoder) host(key string, n *configfile.Node, p *Providers, k kind.Kind) {
	switch n.Kind {
	case configfile.Null:
	case configfile.Table:
		h := &Host{}
		p.Hosts[policy.ProviderID(k.Name)] = h
		d.members(key, n, reflect.ValueOf(h).Elem(), hostFields(k))
	default:
		d.fail(n.At, key, configfile.Table.String(), "%s", n.Kind)
	}
}

// names returns the keys that a table may have.
func (d *decoder) names(v reflect.Value, fields []field) []string {
	out := names(fields)
	if v.Type() != reflect.TypeFor[Providers]() {
		return out
	}
	for i, k := range d.kinds.hosts() {
		out = slices.Insert(out, i+1, k.Name) // after order
	}
	return out
}

func (d *decoder) unknown(key string, e configfile.Entry, known []string) {
	parent := strings.TrimSuffix(strings.TrimSuffix(key, e.Name), ".")
	like := near.Names(e.Name, known, 1)
	if other := synonyms[e.Name]; len(like) == 0 && slices.Contains(known, other) {
		like = []string{other}
	}
	if len(like) > 0 {
		d.fail(e.At, key, like[0], "unknown key")
		d.meant = append(d.meant, join(parent, like[0]))
		return
	}
	if deeper := keyBelow(d.kinds, parent, e.Name); deeper != "" {
		d.fail(e.At, key, deeper+": indent it further", "unknown key here")
		return
	}
	if parent == "providers" {
		d.fail(e.At, key, "one of "+strings.Join(known, ", ")+
			`; for any other server use custom with format openai, such as custom: [{id: `+e.Name+`, format: openai, endpoints: ["https://host/v1"], api_key: "${KEY}"}]`,
			"unknown provider")
		return
	}
	d.fail(e.At, key, "one of "+strings.Join(known, ", "), "unknown key")
}

// synonyms are names of the same setting in other tables.
var synonyms = map[string]string{"base_url": "endpoints", "endpoints": "base_url", "endpoint": "base_url"}

// keyBelow returns the first key of this name below a table of the schema; "" if there is none. A key of a nested table that appears in the outer one
// is usually indented too little.
func keyBelow(kinds []kind.Kind, table, name string) string {
	for _, f := range Schema(kinds...) {
		rest, below := strings.CutPrefix(f.Key, table)
		if below && strings.HasSuffix(rest, "."+name) {
			return f.Key
		}
	}
	return ""
}

// value decodes a node of any kind. A missing node leaves the default.
func (d *decoder) value(key string, n *configfile.Node, v reflect.Value, f field) {
	if n.Kind == configfile.Null {
		return
	}
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(newWithDefaults(v.Type().Elem()))
		}
		d.value(key, n, v.Elem(), f)
	case isTable(v.Type()):
		if n.Kind != configfile.Table {
			d.fail(n.At, key, configfile.Table.String(), "%s", n.Kind)
			return
		}
		d.structure(key, n, v)
	case v.Kind() == reflect.Slice:
		d.list(key, n, v, f)
	case v.Kind() == reflect.Map:
		d.dictionary(key, n, v, f)
	default:
		d.scalar(key, n, v, f)
	}
}

func (d *decoder) list(key string, n *configfile.Node, v reflect.Value, f field) {
	if n.Kind != configfile.List {
		d.fail(n.At, key, configfile.List.String(), "%s", n.Kind)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, len(n.Items)))
	for i, item := range n.Items {
		one := key + "[" + strconv.Itoa(i) + "]"
		d.where[one] = item.At
		if item.Kind == configfile.Null {
			d.fail(item.At, one, "a value", "nothing")
			continue
		}
		e := newWithDefaults(v.Type().Elem()).Elem()
		d.value(one, item, e, f)
		v.Set(reflect.Append(v, e))
	}
}

// dictionary decodes a table whose keys are the operator's own.
func (d *decoder) dictionary(key string, n *configfile.Node, v reflect.Value, f field) {
	if n.Kind != configfile.Table {
		d.fail(n.At, key, configfile.Table.String(), "%s", n.Kind)
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range n.Keys {
		full := join(key, e.Name)
		d.where[full] = e.At
		value := newWithDefaults(v.Type().Elem()).Elem()
		d.value(full, e.Value, value, f)
		v.SetMapIndex(reflect.ValueOf(e.Name).Convert(v.Type().Key()), value)
	}
}

func (d *decoder) scalar(key string, n *configfile.Node, v reflect.Value, f field) {
	f = f.of(d.kinds)
	if n.Kind != configfile.Scalar {
		d.fail(n.At, key, f.expected(v.Type()), "%s", n.Kind)
		return
	}
	secret := v.Type() == reflect.TypeFor[Secret]()
	mayHide := secret || v.Type() == reflect.TypeFor[Database]() || v.Type() == reflect.TypeFor[Vectors]() // their URLs may contain passwords
	text, err := expand(n.Text, secret, d.env)
	if err != nil {
		expected := "it in the environment of this command"
		if errors.Is(err, errUnclosed) || errors.Is(err, errName) {
			expected = "${NAME}"
		}
		d.fail(n.At, key, expected, "%s", err)
		return
	}
	if name := bareVariable(n.Text); secret && name != "" {
		d.fail(n.At, key, "${"+name+"}", "the variable %s without braces", name)
		return
	}
	if err := set(v, text, f); err != nil {
		// The text as written in the file: values of variables may be secret.
		shown := strconv.Quote(n.Text) + ": "
		if mayHide || hasCredentials(n.Text) {
			shown = ""
		}
		d.fail(n.At, key, f.expected(v.Type()), "%s%s", shown, err)
		return
	}
	if f.path != "" {
		v.SetString(d.beside(f, v.String()))
	}
}

// hasCredentials reports whether a refused text may be a URL, valid or not, with a password or with a key in its query.
func hasCredentials(text string) bool {
	_, rest, ok := strings.Cut(text, "//")
	return ok && strings.ContainsAny(rest, "@?#")
}

// set parses text into a scalar field by its type and its limits.
func set(v reflect.Value, text string, f field) error {
	var err error
	switch p := v.Addr().Interface().(type) {
	case *Secret:
		*p = secret.New(text)
	case *Addr:
		*p, err = parseAddr(text)
	case *Database:
		*p, err = parseDatabase(text)
	case *Vectors:
		*p, err = parseVectors(text)
	case *Socket:
		*p, err = parseSocket(text)
	case *URL:
		*p, err = baseurl.Parse(text)
	case *time.Duration:
		*p, err = parseDuration(text)
	case *Interval:
		*p, err = parseInterval(text)
	case *policy.Price:
		*p, err = parsePrice(text)
	case *policy.Micro:
		*p, err = parseUSD(text)
	case *policy.Feature:
		*p, err = parseFeature(text)
	case *bool:
		*p, err = parseBool(text)
	case *int:
		var n int64
		n, err = parseInt(text, strconv.IntSize, f)
		*p = int(n)
	case *int64:
		*p, err = parseInt(text, 64, f)
	case *float64:
		*p, err = parseFloat(text, f)
	default: // string and types based on it
		if f.oneOf != nil && !slices.Contains(f.oneOf, text) {
			return errors.New("not one of the choices")
		}
		v.SetString(text)
	}
	return err
}

func parseDuration(s string) (time.Duration, error) {
	t, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, errors.New("not a duration")
	case t <= 0:
		return 0, errors.New("not a positive duration")
	}
	return t, nil
}

func parsePrice(s string) (policy.Price, error) {
	p, err := policy.ParsePrice(strings.ReplaceAll(s, "_", ""))
	switch {
	case err != nil:
		return 0, errors.New("not a decimal amount with at most six decimals")
	case p < 0:
		return 0, errors.New("a negative price")
	case p > maxPrice:
		return 0, errors.New("more than 10000 per million tokens")
	}
	return p, nil
}

func parseUSD(s string) (policy.Micro, error) {
	m, err := policy.ParseUSD(strings.ReplaceAll(s, "_", ""))
	switch {
	case err != nil:
		return 0, errors.New("not a decimal amount with at most six decimals")
	case m < 0:
		return 0, errors.New("a negative amount")
	}
	return m, nil
}

// parseFloat reads a number within integer bounds.
func parseFloat(s string, f field) (float64, error) {
	n, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
		return 0, errors.New("not a number")
	case n < float64(f.min) || n > float64(f.max):
		return 0, errors.New("out of range")
	}
	return n, nil
}

func parseFeature(s string) (policy.Feature, error) {
	f, ok := policy.ParseFeature(s)
	if ok {
		return f, nil
	}
	var known []string
	for _, f := range policy.Features() {
		known = append(known, string(f))
	}
	if like := near.Names(s, known, 1); len(like) > 0 {
		return "", errors.New("unknown, the nearest is " + like[0])
	}
	return "", errors.New("unknown, there are " + strings.Join(known, ", "))
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("not a truth value")
}

func parseInt(s string, bits int, f field) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, bits)
	switch {
	case err != nil:
		return 0, errors.New("not a whole number")
	case n < f.min || n > f.max:
		return 0, errors.New("out of range")
	}
	return n, nil
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
