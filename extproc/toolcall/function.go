package toolcall

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// function is a call in Qwen's own tags, as far as it came.
type function struct {
	name string
	keys []parameter
}

// parameter is one argument, as text.
type parameter struct{ key, value string }

// Limits on a function: how long its name and those of its parameters may be, in bytes, and how many it may have.
const (
	maxName       = 256
	maxParameters = 256
)

// function goes on with <function=…>.
func (f *tagFinder) function(b []byte, end bool) (verdict, int, []chat.ToolCall) {
	switch f.stage { //nolint:exhaustive // the others are not of a function
	case inFunction:
		f.at += len(openFunction)
		f.stage = inName
	case inName, inKey:
		name, found, bad := f.name(b)
		switch {
		case bad:
			return f.refuse(f.at)
		case !found:
			return f.wait(end)
		case f.stage == inKey && len(f.fn.keys) == maxParameters:
			return f.refuse(f.at)
		case f.stage == inKey:
			f.fn.keys = append(f.fn.keys, parameter{key: name})
			f.stage = inValue
			f.ended = f.at
			return undecided, 0, nil
		case f.tools[name] == nil:
			return f.refuse(f.at)
		}
		f.fn.name = name
		return f.between(b, end)
	case inBetween:
		return f.between(b, end)
	case inValue:
		at := bytes.Index(b[f.at:], []byte(closeParameter))
		if at < 0 {
			f.at = max(f.at, len(b)-len(closeParameter)+1)
			return f.wait(end)
		}
		f.fn.keys[len(f.fn.keys)-1].value = string(b[f.ended : f.at+at])
		f.at += at + len(closeParameter)
		return f.between(b, end)
	}
	return undecided, 0, nil
}

// name reads up to the end of a tag that holds a name. The place moves only past a whole one, or to where it is none.
func (f *tagFinder) name(b []byte) (name string, found, bad bool) {
	rest := b[f.at:]
	n := bytes.IndexAny(rest, "><\n")
	switch {
	case n < 0 && len(rest) <= maxName:
		return "", false, false
	case n <= 0 || n > maxName || rest[n] != '>':
		return "", false, true
	}
	f.at += n + 1
	return string(bytes.TrimSpace(rest[:n])), true, false
}

// between looks for the next parameter, or the end of the function.
func (f *tagFinder) between(b []byte, end bool) (verdict, int, []chat.ToolCall) {
	f.stage = inBetween
	f.at = spaces(b, f.at)
	at, waits := f.at, f.at == len(b)
	for _, tag := range []string{openParameter, closeFunction, closeCall} {
		whole, part := match(b, at, tag)
		waits = waits || part
		if !whole {
			continue
		}
		switch tag {
		case openParameter:
			f.at += len(tag)
			f.stage = inKey
			return undecided, 0, nil
		case closeFunction:
			f.at += len(tag)
		}
		f.stage, f.ended = closing, f.at
		return undecided, 0, nil
	}
	if waits {
		return f.wait(end)
	}
	return f.refuse(at)
}

// called is the call that a function's tags are: each value of the kind that the tool's schema says.
func (ts tools) called(f *function) (c chat.ToolCall, ok bool) {
	t := ts[f.name]
	if t == nil {
		return c, false
	}
	properties := jsonx.Value{Raw: t.Schema}.Get("properties")
	args := []byte{'{'}
	for i, p := range f.keys {
		if slices.ContainsFunc(f.keys[:i], func(q parameter) bool { return q.key == p.key }) {
			return c, false
		}
		if i > 0 {
			args = append(args, ',')
		}
		args = append(jsonx.AppendString(args, p.key), ':')
		args = appendValue(args, trimmed(p.value), properties.Get(p.key))
	}
	return chat.ToolCall{Name: f.name, Args: string(append(args, '}'))}, true
}

// trimmed is a value without the line breaks that its tags stand on.
func trimmed(s string) string {
	if len(s) > 0 && s[0] == '\n' {
		s = s[1:]
	}
	if n := len(s); n > 0 && s[n-1] == '\n' {
		s = s[:n-1]
	}
	return s
}

// appendValue appends a value as JSON: as it stands where it is of a kind that the schema has besides text, else as text.
func appendValue(dst []byte, s string, schema jsonx.Value) []byte {
	v, err := jsonx.Parse([]byte(s))
	if err != nil || v.Kind() == jsonx.String || !allows(schema, v.Kind()) {
		return jsonx.AppendString(dst, s)
	}
	return append(dst, v.Raw...)
}

// allows reports whether a parameter may be of a kind, and need not be read as text.
func allows(schema jsonx.Value, k jsonx.Kind) bool {
	names := kinds(schema)
	isText := slices.Contains(names, "string")
	for _, name := range names {
		switch {
		case name == "null" && k == jsonx.Null,
			name == "object" && k == jsonx.Object && !isText,
			name == "array" && k == jsonx.Array && !isText,
			name == "boolean" && (k == jsonx.Bool) && !isText,
			(name == "number" || name == "integer") && k == jsonx.Number && !isText:
			return true
		}
	}
	return false
}

// kinds are the types that a schema names, its alternatives' too.
func kinds(schema jsonx.Value) []string {
	var names []string
	add := func(v jsonx.Value) {
		if s, ok := v.Str(); ok {
			names = append(names, s)
		}
		for _, e := range v.Each {
			if s, ok := e.Str(); ok {
				names = append(names, s)
			}
		}
	}
	add(schema.Get("type"))
	for _, key := range []string{"anyOf", "oneOf"} {
		for _, e := range schema.Get(key).Each {
			add(e.Get("type"))
		}
	}
	return names
}
