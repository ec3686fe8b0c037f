// Package toolcall adds tool calling to models without native support: it renders tool definitions, calls and results into the prompt, and
// parses calls from the model's text. There are three text formats: those of the Hermes and Qwen models, and plain JSON for all others. It does
// not know the API formats of clients and providers.
package toolcall

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Format is the text format of a model's calls.
type Format string

// The formats.
const (
	Hermes Format = "hermes" // <tool_call>{"name": …, "arguments": {…}}</tool_call>
	Qwen   Format = "qwen"   // as Hermes, or <tool_call><function=…><parameter=…>…</parameter></function></tool_call>
	JSON   Format = "json"   // {"name": …, "arguments": {…}}, or an array of them, as the whole answer or in a fenced block
)

// Known reports whether the format exists. Models with native tool calling have none.
func (f Format) Known() bool { return f == Hermes || f == Qwen || f == JSON }

// Closers returns the closing tags of calls in this format.
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

// Offered returns the tools that the model may call in text: none if tool_choice is none, and no built-in tools of providers.
func Offered(c *chat.Conversation) []chat.Tool {
	if c.ToolChoice.Mode == chat.ToolNone {
		return nil
	}
	var ts []chat.Tool
	for i := range c.Tools {
		if c.Tools[i].Raw == nil && c.Allows(&c.Tools[i]) { // not a provider's built-in tool
			ts = append(ts, c.Tools[i])
		}
	}
	return ts
}

// noArgs is the arguments of a call without any.
const noArgs = "{}"

// tools are the offered tools by name.
type tools map[string]*chat.Tool

func toolsByName(ts []chat.Tool) tools {
	m := make(tools, len(ts))
	for i := range ts {
		m[ts[i].Name] = &ts[i]
	}
	return m
}

// parseCall parses the JSON object of a call. ok is false if it is not a call of an offered tool. With strict, the object must have
// arguments: outside of tags, a name alone does not make it a call.
func (ts tools) parseCall(v jsonx.Value, strict bool) (c chat.ToolCall, ok bool) {
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

// arguments parses the arguments of a call: an object, a string with an object, or nothing.
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

// parseLenient parses one JSON value. Unescaped control characters in strings, which models write, are accepted.
func parseLenient(text []byte) (v jsonx.Value, ok bool) {
	v, err := jsonx.Parse(text)
	if err != nil {
		v, err = jsonx.Parse(escapeControls(text))
	}
	return v, err == nil
}

// escapeControls escapes the control characters in the strings of a JSON text.
func escapeControls(text []byte) []byte {
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
