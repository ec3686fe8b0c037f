package toolcall

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// function is a call in Qwen's tags, as far as it was received.
type function struct {
	name       string
	parameters []parameter
}

// parameter is one argument, unparsed.
type parameter struct{ key, value string }

// Limits of a function: the length of names in bytes, and the number of parameters.
const (
	maxName       = 256
	maxParameters = 256
)

// function continues to parse <function=…>.
func (f *tagFinder) function(b []byte, end bool) (decision, int, []chat.ToolCall) {
	switch f.stage { //nolint:exhaustive // step handles the other stages
	case inFunction:
		f.at += len(openFunction)
		f.stage = inName
	case inName, inKey:
		name, found, bad := f.readName(b)
		switch {
		case bad:
			return f.reject(f.at)
		case !found:
			return f.needMore(end)
		case f.stage == inKey && len(f.fn.parameters) == maxParameters:
			return f.reject(f.at)
		case f.stage == inKey:
			f.fn.parameters = append(f.fn.parameters, parameter{key: name})
			f.stage = inValue
			f.valueEnd = f.at
			return undecided, 0, nil
		case f.tools[name] == nil:
			return f.reject(f.at)
		}
		f.fn.name = name
		return f.betweenParameters(b, end)
	case inBetween:
		return f.betweenParameters(b, end)
	case inValue:
		at := bytes.Index(b[f.at:], []byte(closeParameter))
		if at < 0 {
			f.at = max(f.at, len(b)-len(closeParameter)+1)
			return f.needMore(end)
		}
		f.fn.parameters[len(f.fn.parameters)-1].value = string(b[f.valueEnd : f.at+at])
		f.at += at + len(closeParameter)
		return f.betweenParameters(b, end)
	}
	return undecided, 0, nil
}

// readName reads a name up to the end of its tag. f.at advances only if the name is complete. bad is true if it is not a name.
func (f *tagFinder) readName(b []byte) (name string, found, bad bool) {
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

// betweenParameters looks for the next parameter or the end of the function.
func (f *tagFinder) betweenParameters(b []byte, end bool) (decision, int, []chat.ToolCall) {
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
		f.stage, f.valueEnd = closing, f.at
		return undecided, 0, nil
	}
	if waits {
		return f.needMore(end)
	}
	return f.reject(at)
}

// functionCall converts a function to a call, with values of the types in the tool's schema.
func (ts tools) functionCall(f *function) (c chat.ToolCall, ok bool) {
	t := ts[f.name]
	if t == nil {
		return c, false
	}
	properties := jsonx.Value{Raw: t.Schema}.Get("properties")
	args := []byte{'{'}
	for i, p := range f.parameters {
		if slices.ContainsFunc(f.parameters[:i], func(q parameter) bool { return q.key == p.key }) {
			return c, false
		}
		if i > 0 {
			args = append(args, ',')
		}
		args = append(jsonx.AppendString(args, p.key), ':')
		args = appendValue(args, trimLineBreaks(p.value), properties.Get(p.key))
	}
	return chat.ToolCall{Name: f.name, Args: string(append(args, '}'))}, true
}

// trimLineBreaks removes the line breaks next to the tags of a value.
func trimLineBreaks(s string) string {
	if len(s) > 0 && s[0] == '\n' {
		s = s[1:]
	}
	if n := len(s); n > 0 && s[n-1] == '\n' {
		s = s[:n-1]
	}
	return s
}

// appendValue appends a value as JSON: unchanged if it is JSON of a type that the schema allows, else as a string.
func appendValue(dst []byte, s string, schema jsonx.Value) []byte {
	v, err := jsonx.Parse([]byte(s))
	if err != nil || v.Kind() == jsonx.String || !allows(schema, v.Kind()) {
		return jsonx.AppendString(dst, s)
	}
	return append(dst, v.Raw...)
}

// allows reports whether a schema allows a type. If it also allows strings, only null is not taken for a string.
func allows(schema jsonx.Value, k jsonx.Kind) bool {
	names := typeNames(schema)
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

// typeNames are the names in a schema's "type", with those of its alternatives.
func typeNames(schema jsonx.Value) []string {
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
