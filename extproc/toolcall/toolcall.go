// Package toolcall is for models that call tools in the text of their answers: it writes the tools, the calls and the results of a
// conversation as text for them, and finds the calls in what they say. Three formats are known: that of the Hermes models, that of
// the Qwen models, and plain JSON for all others. It knows nothing of the formats in which requests and answers travel.
package toolcall

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Format is how a model writes its calls.
type Format string

// The formats.
const (
	Hermes Format = "hermes" // <tool_call>{"name": …, "arguments": {…}}</tool_call>
	Qwen   Format = "qwen"   // as Hermes, or <tool_call><function=…><parameter=…>…</parameter></function></tool_call>
	JSON   Format = "json"   // {"name": …, "arguments": {…}}, or an array of such, as the whole answer or in a fenced block
)

// Known reports whether there is such a format. An unknown one is that of models that call tools natively.
func (f Format) Known() bool { return f == Hermes || f == Qwen || f == JSON }

// Closers are what calls of this format end with, where that can be told from their text alone.
func (f Format) Closers() [][]byte {
	switch f {
	case Hermes:
		return [][]byte{[]byte(closeCall)}
	case Qwen:
		return [][]byte{[]byte(closeCall), []byte(closeFunction)}
	case JSON:
	}
	return nil
}

// Offered are the tools that a conversation lets a model call in text. It has none when the caller wants no calls.
func Offered(c *chat.Conversation) []chat.Tool {
	if c.ToolChoice.Mode == chat.ToolNone {
		return nil
	}
	var ts []chat.Tool
	for i := range c.Tools {
		if c.Tools[i].Raw == nil { // what its provider runs cannot be called in words
			ts = append(ts, c.Tools[i])
		}
	}
	return ts
}

// noArgs is what a call without arguments has.
const noArgs = "{}"

// tools are the offered tools by name: only they can be called.
type tools map[string]*chat.Tool

func index(ts []chat.Tool) tools {
	m := make(tools, len(ts))
	for i := range ts {
		m[ts[i].Name] = &ts[i]
	}
	return m
}

// call reads the object of a call. ok is false when it is none, or calls what was not offered. strict: the object must have arguments,
// since nothing else tells that it is a call.
func (ts tools) call(v jsonx.Value, strict bool) (c chat.ToolCall, ok bool) {
	var name, args jsonx.Value
	for key, m := range v.Members {
		switch string(key) {
		case "name":
			name = m
		case "arguments":
			args = m
		case "parameters":
			if !args.Exists() {
				args = m
			}
		}
	}
	if c.Name, ok = name.Str(); !ok || ts[c.Name] == nil || strict && !args.Exists() {
		return c, false
	}
	c.Args, ok = arguments(args)
	return c, ok
}

// arguments are a call's: an object, a text that is one, or none at all.
func arguments(v jsonx.Value) (args string, ok bool) {
	if s, quoted := v.Text(nil); quoted {
		if s = bytes.TrimSpace(s); len(s) == 0 {
			return noArgs, true
		}
		inner, err := jsonx.Parse(s)
		if err != nil {
			return "", false
		}
		v = inner
	}
	switch {
	case v.IsNull():
		return noArgs, true
	case v.Kind() != jsonx.Object:
		return "", false
	}
	return string(v.Raw), true
}

// read parses a text as one JSON value. Models write line breaks and tabs into strings as they are; they are escaped.
func read(text []byte) (v jsonx.Value, ok bool) {
	v, err := jsonx.Parse(text)
	if err != nil {
		v, err = jsonx.Parse(escaped(text))
	}
	return v, err == nil
}

// escaped is a JSON text with the control characters in its strings escaped.
func escaped(text []byte) []byte {
	out := make([]byte, 0, len(text)+16)
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inside && c == '\\' && i+1 < len(text):
			out = append(out, c, text[i+1])
			i++
			continue
		case inside && c < ' ':
			out = jsonx.AppendEscaped(out, text[i:i+1])
			continue
		case c == '"':
			inside = !inside
		}
		out = append(out, text[i])
	}
	return out
}
