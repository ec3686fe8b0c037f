package wire

import (
	"bytes"
	"maps"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// ObjectTool returns the tool with a schema that describes an object at its top level: OpenAI and Anthropic refuse a request with a tool whose schema has
// oneOf, anyOf, allOf or a reference there. Their properties become the schema's own, and a property is required if every alternative requires it.
// What this cannot express is named as degraded. Other schemas keep their bytes.
func (w *Writer) ObjectTool(t *chat.Tool) *chat.Tool {
	v := jsonx.Value{Raw: t.Schema}
	if v.Kind() != jsonx.Object || !isCombined(v) {
		return t
	}
	f := flattener{refs: refWalker{root: v}, left: maxFlat}
	flat := *t
	o := f.object(v, maxSchemaDepth)
	flat.Schema = o.appendTo(nil, v)
	if f.lossy {
		w.Degrade("tool_schema")
	}
	return &flat
}

// combining are the keywords that may not be at the top level of a tool's schema.
var combining = []string{"oneOf", "anyOf", "allOf", "not", "enum", "$ref"}

func isCombined(schema jsonx.Value) bool {
	return slices.ContainsFunc(combining, func(key string) bool { return schema.Get(key).Exists() })
}

// flattener merges what a schema combines into one object.
type flattener struct {
	refs  refWalker
	left  int  // how many bytes of schemas may still be read or copied
	lossy bool // the merged schema allows more than the schema does
}

// maxFlat bounds the work for one tool in bytes; a schema may name one definition often.
const maxFlat = 1 << 20

// object is what a schema says about an object.
type object struct {
	names    []string // of the properties, in order
	schemas  map[string]jsonx.Raw
	required map[string]bool
	closed   bool // it allows no other properties
}

// object reads a schema with all that it combines.
func (f *flattener) object(schema jsonx.Value, levels int) object {
	o := object{schemas: map[string]jsonx.Raw{}, required: map[string]bool{}}
	if f.left -= len(schema.Raw); levels == 0 || f.left < 0 {
		f.lossy = true
		return o
	}
	o.closed = string(schema.Get("additionalProperties").Raw) == "false"
	for key, v := range schema.Get("properties").Members {
		f.add(&o, string(key), v.Raw, "allOf")
	}
	for _, e := range schema.Get("required").Each {
		if name, ok := e.Str(); ok {
			o.required[name] = true
		}
	}
	if ref, ok := schema.Get("$ref").Str(); ok {
		f.and(&o, f.object(f.refs.resolve(ref), levels-1))
	}
	for _, e := range schema.Get("allOf").Each {
		f.and(&o, f.object(e, levels-1))
	}
	for _, key := range [...]string{"anyOf", "oneOf"} {
		if alternatives := schema.Get(key); alternatives.Kind() == jsonx.Array {
			f.and(&o, f.any(alternatives, levels-1))
		}
	}
	f.lossy = f.lossy || schema.Get("not").Exists() || schema.Get("enum").Exists()
	return o
}

// any reads alternatives. Those that allow no object are left out: the arguments of a call are one.
func (f *flattener) any(alternatives jsonx.Value, levels int) object {
	o := object{required: map[string]bool{}}
	count := 0
	for _, e := range alternatives.Each {
		if e.Get("type").Exists() && !isObject(e) {
			continue
		}
		b := f.object(e, levels)
		if count++; count == 1 {
			o = b
			continue
		}
		f.lossy = true
		for _, name := range b.names {
			f.add(&o, name, b.schemas[name], "anyOf")
		}
		maps.DeleteFunc(o.required, func(name string, _ bool) bool { return !b.required[name] })
		o.closed = o.closed && b.closed
	}
	return o
}

// and adds to o what another schema requires too.
func (f *flattener) and(o *object, b object) {
	for _, name := range b.names {
		f.add(o, name, b.schemas[name], "allOf")
	}
	maps.Copy(o.required, b.required)
	o.closed = o.closed || b.closed
}

// add adds a property to o. A property that has another schema already gets both, combined by a keyword.
func (f *flattener) add(o *object, name string, schema jsonx.Raw, keyword string) {
	was, ok := o.schemas[name]
	switch {
	case !ok:
		o.names = append(o.names, name)
		o.schemas[name] = schema
	case bytes.Equal(was, schema):
	case f.left < len(was):
		f.lossy = true
		o.schemas[name] = jsonx.Raw("{}")
	default:
		f.left -= len(was)
		o.schemas[name] = slices.Concat([]byte(`{"`+keyword+`":[`), was, []byte(","), schema, []byte("]}"))
	}
}

// appendTo appends the object's schema to dst, with the other members of the schema that it was read from.
func (o *object) appendTo(dst jsonx.Raw, from jsonx.Value) jsonx.Raw {
	dst = append(dst, `{"type":"object"`...)
	for key, v := range from.Members {
		switch k := string(key); {
		case k == "type", k == "properties", k == "required", k == "additionalProperties" && o.closed, slices.Contains(combining, k):
		default:
			dst = append(append(jsonx.AppendString(append(dst, ','), k), ':'), v.Raw...)
		}
	}
	dst = append(dst, `,"properties":{`...)
	for i, name := range o.names {
		dst = append(append(jsonx.AppendString(separate(dst, i), name), ':'), o.schemas[name]...)
	}
	dst = append(dst, '}')
	if len(o.required) > 0 {
		dst = append(dst, `,"required":[`...)
		for i, name := range slices.Sorted(maps.Keys(o.required)) {
			dst = jsonx.AppendString(separate(dst, i), name)
		}
		dst = append(dst, ']')
	}
	if o.closed {
		dst = append(dst, `,"additionalProperties":false`...)
	}
	return append(dst, '}')
}

// separate appends the comma before the i-th element.
func separate(dst jsonx.Raw, i int) jsonx.Raw {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}
