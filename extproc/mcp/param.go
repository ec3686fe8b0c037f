package mcp

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"bardo.money/gateway/internal/jsonx"
)

// The schema of a tool can name arguments that calls repeat in headers, for proxies that route by them (revision 2026-07-28). The operator's rules judge the
// arguments, so a server gets these headers as the gateway writes them from the arguments, and none that a client sends.

const (
	paramPrefix = "Mcp-Param-"
	paramMember = "x-mcp-header" // of the schema of an argument
)

// maxSafe is the largest whole number that such an argument can be, as the protocol says.
const maxSafe = 1<<53 - 1

// param is an argument that calls repeat in a header.
type param struct {
	header string   // its canonical name
	path   []string // the names from the arguments to the value
}

// params are those of one tool.
type params []param

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")

// paramsOf returns those that a tool's schema names; ok is false if the protocol does not allow it to name them so: such a tool does not exist for clients.
func paramsOf(schema []byte) (p params, ok bool) {
	if !bytes.Contains(schema, []byte(paramMember)) {
		return nil, true
	}
	v, err := jsonx.Parse(schema)
	return p, err == nil && p.read(v, nil)
}

// read reads the schema of the value at a path. Only members of properties have paths.
func (p *params) read(schema jsonx.Value, path []string) bool {
	for key, v := range schema.Members {
		switch string(key) {
		case paramMember:
			if !p.add(schema, path) {
				return false
			}
		case "properties":
			for name, of := range v.Members {
				if !p.read(of, append(slices.Clone(path), string(name))) {
					return false
				}
			}
		case "const", "default", "enum", "examples": // values
		default:
			for s, isName := range v.Strings {
				if isName && s.Equal(paramMember) {
					return false
				}
			}
		}
	}
	return true
}

// add adds the argument at a path.
func (p *params) add(schema jsonx.Value, path []string) bool {
	name, _ := schema.Get(paramMember).Str()
	kind, _ := schema.Get("type").Str()
	if len(path) == 0 || !token.MatchString(name) || kind != "string" && kind != "integer" && kind != "boolean" {
		return false
	}
	header := http.CanonicalHeaderKey(paramPrefix + name)
	if slices.ContainsFunc(*p, func(other param) bool { return other.header == header }) {
		return false
	}
	*p = append(*p, param{header, path})
	return true
}

// headers returns the headers of a call for a server. wrong is the first of a client's headers that does not repeat an argument, or that is missing; "" for
// none. sent are all headers of the client; nil for one of a revision without such headers.
func (p *params) headers(args jsonx.Value, sent http.Header) (out http.Header, wrong string) {
	out = http.Header{}
	for _, one := range *p {
		v, ok := one.find(args)
		text, primitive := textOf(v)
		switch values := sent[one.header]; {
		case !ok:
			return nil, one.header
		case !v.Exists() || v.IsNull():
			if len(values) > 0 {
				return nil, one.header
			}
			continue
		case sent != nil && (!primitive || len(values) != 1 || !repeats(values[0], v, text)):
			return nil, one.header
		}
		if primitive {
			out.Set(one.header, encodeName(text))
		}
	}
	for name := range sent {
		if len(name) > len(paramPrefix) && name[:len(paramPrefix)] == paramPrefix && !slices.ContainsFunc(*p, func(one param) bool { return one.header == name }) {
			return nil, name
		}
	}
	return out, ""
}

// find returns the value of the argument; ok is false if there are two, of which a server could read either.
func (p *param) find(args jsonx.Value) (v jsonx.Value, ok bool) {
	v = args
	for _, name := range p.path {
		in := v
		v = jsonx.Value{}
		for key, m := range in.Members {
			if string(key) != name {
				continue
			}
			if v.Exists() {
				return v, false
			}
			v = m
		}
	}
	return v, true
}

// textOf returns a value as it is in a header; ok is false for one that cannot be there.
func textOf(v jsonx.Value) (text string, ok bool) {
	switch v.Kind() {
	case jsonx.String:
		return v.Str()
	case jsonx.Bool:
		return string(v.Raw), true
	case jsonx.Object, jsonx.Array, jsonx.Null, jsonx.Invalid:
	case jsonx.Number:
		f, ok := v.Float()
		n := int64(max(min(f, maxSafe+1), -maxSafe-1))
		return strconv.FormatInt(n, 10), ok && float64(n) == f && n >= -maxSafe && n <= maxSafe
	}
	return "", false
}

// repeats reports whether a header's value stands for the value of an argument, whose text in a header is given. Numbers may be written in another way.
func repeats(header string, v jsonx.Value, text string) bool {
	got, ok := decodeName(header)
	if ok && v.Kind() == jsonx.Number {
		n, err := jsonx.Parse([]byte(got))
		if err != nil || n.Kind() != jsonx.Number {
			return false
		}
		got, ok = textOf(n)
	}
	return ok && got == text
}
