package openai

import (
	"fmt"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Efforts that need a name here; the others pass as the client wrote them.
const (
	effortNone = "none"
	effortMax  = "max"
)

// readConversation parses what a request says. What the canonical form cannot carry is named in Unmapped.
func readConversation(r *chat.Request) (*chat.Conversation, error) {
	c := &chat.Conversation{}
	var err error
	for i := range r.Doc.Members {
		m := &r.Doc.Members[i]
		v := jsonx.Value{Raw: r.Doc.Bytes[m.Start:m.End], At: m.Start}
		if v.IsNull() {
			continue
		}
		switch m.Key {
		case "model", "stream", "stream_options", "max_tokens", "max_completion_tokens", wire.HintKey:
		case "messages":
			err = readMessages(c, v)
		case "tools":
			err = readTools(c, v)
		case "functions":
			err = readFunctions(c, v)
		case "tool_choice", "function_call":
			err = readToolChoice(c, m.Key, v)
		case "parallel_tool_calls":
			if on, ok := v.Bool(); ok {
				c.ParallelTools = &on
			} else {
				err = wrongKind(m.Key, "a boolean", v)
			}
		default:
			err = readParam(c, r, m.Key, v)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// reader turns messages into turns. It numbers calls of the legacy function format, which has no ids.
type reader struct {
	c     *chat.Conversation
	calls int
}

func readMessages(c *chat.Conversation, v jsonx.Value) error {
	rd := reader{c: c}
	opening := true // system messages before the first turn are the system prompt
	for i, m := range v.Each {
		at := "messages[" + strconv.Itoa(i) + "]"
		if m.Kind() != jsonx.Object {
			return wrongKind(at, "an object", m)
		}
		role, ok := m.Get("role").Str()
		if !ok {
			return wrongKind(at+".role", "a string", m.Get("role"))
		}
		parts, err := rd.message(role, m, at)
		if err != nil {
			return err
		}
		canonical, known := roles[role]
		switch {
		case !known:
			return invalid(at+".role", "%s.role must be one of system, developer, user, assistant, tool", at)
		case canonical == chat.RoleSystem && opening:
			c.System = append(c.System, parts...)
		default:
			opening = false
			c.Messages = append(c.Messages, chat.Message{Role: canonical, Parts: parts})
		}
	}
	return nil
}

var roles = map[string]chat.Role{
	"system": chat.RoleSystem, "developer": chat.RoleSystem, "user": chat.RoleUser, "assistant": chat.RoleAssistant,
	"tool": chat.RoleTool, "function": chat.RoleTool,
}

func (rd *reader) message(role string, m jsonx.Value, at string) ([]chat.Part, error) {
	parts, err := readContent(m.Get("content"), at+".content")
	if err != nil {
		return nil, err
	}
	switch role {
	case "assistant":
		parts, err = rd.assistant(m, at, parts)
	case "tool":
		id, ok := m.Get("tool_call_id").Str()
		if !ok {
			return nil, wrongKind(at+".tool_call_id", "a string", m.Get("tool_call_id"))
		}
		parts = []chat.Part{{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: id}, Parts: parts}}
	case "function":
		parts = []chat.Part{{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: rd.legacyID()}, Parts: parts}}
	}
	if cc := m.Get("cache_control"); !cc.IsNull() && len(parts) > 0 {
		parts[len(parts)-1].CacheControl = cc.Raw
	}
	return parts, err
}

func (rd *reader) legacyID() string { return "call_function_" + strconv.Itoa(rd.calls) }

// assistant adds to an assistant's content what stands beside it: reasoning before, refusal and calls after.
func (rd *reader) assistant(m jsonx.Value, at string, parts []chat.Part) ([]chat.Part, error) {
	for _, key := range [...]string{"reasoning_content", "reasoning"} {
		if t, ok := m.Get(key).Str(); ok && t != "" {
			parts = append([]chat.Part{{Kind: chat.PartThinking, Text: t}}, parts...)
			break
		}
	}
	if t, ok := m.Get("refusal").Str(); ok && t != "" {
		parts = append(parts, chat.Part{Kind: chat.PartRefusal, Text: t})
	}
	if call := m.Get("function_call"); !call.IsNull() {
		rd.calls++
		parts = append(parts, readCall(rd.legacyID(), call))
	}
	calls := m.Get("tool_calls")
	if !calls.IsNull() && calls.Kind() != jsonx.Array {
		return nil, wrongKind(at+".tool_calls", "an array", calls)
	}
	for i, call := range calls.Each {
		id, ok := call.Get("id").Str()
		if !ok || id == "" {
			field := fmt.Sprintf("%s.tool_calls[%d].id", at, i)
			return nil, invalid(field, "%s must be a non-empty string", field)
		}
		p := readCall(id, call.Get("function"))
		if custom := call.Get("custom"); custom.Exists() {
			p = chat.Part{Kind: chat.PartOther, Raw: call.Raw}
		}
		p.CacheControl = present(call.Get("cache_control"))
		parts = append(parts, p)
	}
	return parts, nil
}

func readCall(id string, f jsonx.Value) chat.Part {
	name, _ := f.Get("name").Str()
	args, ok := f.Get("arguments").Str()
	if !ok && f.Get("arguments").Kind() == jsonx.Object {
		args = string(f.Get("arguments").Raw)
	}
	if strings.TrimSpace(args) == "" {
		args = "{}"
	}
	return chat.Part{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: id, Name: name, Args: args}}
}

// readContent reads a message's content, a string or an array of parts. Empty text says nothing and is left out,
// because other formats refuse it.
func readContent(v jsonx.Value, at string) ([]chat.Part, error) {
	switch v.Kind() {
	case jsonx.Invalid, jsonx.Null:
		return nil, nil
	case jsonx.String:
		t, _ := v.Str()
		if t == "" {
			return nil, nil
		}
		return []chat.Part{{Kind: chat.PartText, Text: t}}, nil
	case jsonx.Array:
		return readParts(v, at)
	case jsonx.Bool, jsonx.Number, jsonx.Object:
	}
	return nil, wrongKind(at, "a string or an array", v)
}

func readParts(v jsonx.Value, at string) ([]chat.Part, error) {
	var parts []chat.Part
	for i, e := range v.Each {
		p, err := readPart(e)
		if err != nil {
			field := at + "[" + strconv.Itoa(i) + "]" + err.Error()
			return nil, invalid(field, "%s must be a string", field)
		}
		p.CacheControl = present(e.Get("cache_control"))
		if p.Kind == chat.PartText && p.Text == "" {
			continue
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// notString is the path, inside a part, of what should be a string.
type notString string

func (e notString) Error() string { return string(e) }

func readPart(e jsonx.Value) (chat.Part, error) {
	kind, ok := e.Get("type").Str()
	if !ok {
		return chat.Part{}, notString(".type")
	}
	switch kind {
	case "text", "input_text", "output_text":
		t, ok := e.Get("text").Str()
		if !ok {
			return chat.Part{}, notString(".text")
		}
		return chat.Part{Kind: chat.PartText, Text: t}, nil
	case "refusal":
		t, ok := e.Get("refusal").Str()
		if !ok {
			return chat.Part{}, notString(".refusal")
		}
		return chat.Part{Kind: chat.PartRefusal, Text: t}, nil
	case "image_url":
		u, ok := e.Get("image_url").Get("url").Str()
		if !ok {
			if u, ok = e.Get("image_url").Str(); !ok { // a habit of some clients
				return chat.Part{}, notString(".image_url.url")
			}
		}
		return located(chat.PartImage, u), nil
	case "file":
		f := e.Get("file")
		if data, ok := f.Get("file_data").Str(); ok {
			p := located(chat.PartDocument, data)
			p.Name, _ = f.Get("filename").Str()
			return p, nil
		}
	}
	return chat.Part{Kind: chat.PartOther, Raw: e.Raw}, nil
}

// located makes a part of a URL; a data: URL is taken apart into media type and base64.
func located(kind chat.PartKind, url string) chat.Part {
	rest, isData := strings.CutPrefix(url, "data:")
	meta, data, hasComma := strings.Cut(rest, ",")
	media, isBase64 := strings.CutSuffix(meta, ";base64")
	if !isData || !hasComma || !isBase64 {
		return chat.Part{Kind: kind, URL: url}
	}
	media, _, _ = strings.Cut(media, ";")
	return chat.Part{Kind: kind, Media: media, Data: data}
}

// present is a value's text, or nil when it is absent or null.
func present(v jsonx.Value) jsonx.Raw {
	if v.IsNull() {
		return nil
	}
	return v.Raw
}
