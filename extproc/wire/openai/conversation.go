package openai

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Efforts that need a name here; the others pass as the client wrote them.
const (
	effortNone = wire.EffortNone
	effortMax  = wire.EffortMax
)

// words are what clients of this format call what the canonical form names as Anthropic does.
var words = map[string]string{
	"thinking": "reasoning_content", "effort": "reasoning_effort", "image": "image_url", "document": "file",
	"stop_sequences": "stop", "user_id": "user", "format": "response_format", "budget_tokens": "reasoning", "tool_use": "tool_calls", "disable_parallel_tool_use": "parallel_tool_calls", "tool_result": "tool",
}

// readConversation parses what a request says. What the canonical form cannot carry is named in Unmapped: unknown
// members at the top, and unknown members of messages, parts, calls and tools by their own keys.
func readConversation(r *chat.Request) (*chat.Conversation, error) {
	c := &chat.Conversation{Words: words}
	for i := range r.Doc.Members {
		m := &r.Doc.Members[i]
		v := jsonx.Value{Raw: r.Doc.Bytes[m.Start:m.End], At: m.Start}
		if v.IsNull() {
			continue
		}
		if err := readInto(c, r, m.Key, v); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func readInto(c *chat.Conversation, r *chat.Request, key string, v jsonx.Value) error {
	switch key {
	case "model", "stream", "max_tokens", wire.HintKey:
		return nil
	case "max_completion_tokens":
		wire.Rename(c, "max_tokens", key)
		return nil
	case "stream_options":
		wire.UnmapUnknown(c, v, "include_usage")
		return nil
	case "messages":
		return readMessages(c, v)
	case "tools":
		return readTools(c, v)
	case "functions":
		return readFunctions(c, v)
	case "function_call":
		if !r.Doc.Get("tool_choice").IsNull() { // the name that it has now
			wire.Unmap(c, key)
			return nil
		}
		return readToolChoice(c, key, v)
	case "tool_choice":
		return readToolChoice(c, key, v)
	case "parallel_tool_calls":
		on, ok := v.Bool()
		if !ok {
			return wire.WrongKind(key, "a boolean", v)
		}
		c.ParallelTools = &on
		return nil
	}
	return readParam(c, r, key, v)
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
			return wire.WrongKind(at, "an object", m)
		}
		role, ok := m.Get("role").Str()
		if !ok {
			return wire.WrongKind(at+".role", "a string", m.Get("role"))
		}
		canonical, known := roles[role]
		if !known {
			return wire.Invalid(at+".role", "%s.role must be one of system, developer, user, assistant, tool", at)
		}
		parts, err := rd.message(role, m, at)
		switch {
		case err != nil:
			return err
		case canonical == chat.RoleSystem && opening:
			c.System = append(c.System, parts...)
		default:
			opening = false
			c.Messages = append(c.Messages, chat.Message{Role: canonical, At: at, Parts: parts})
		}
	}
	return nil
}

var roles = map[string]chat.Role{
	"system": chat.RoleSystem, "developer": chat.RoleSystem, "user": chat.RoleUser, "assistant": chat.RoleAssistant,
	"tool": chat.RoleTool, "function": chat.RoleTool,
}

func (rd *reader) message(role string, m jsonx.Value, at string) ([]chat.Part, error) {
	parts, err := readContent(rd.c, m.Get("content"), at+".content")
	if err != nil {
		return nil, err
	}
	switch role {
	case "assistant":
		wire.UnmapUnknown(rd.c, m, "role", "content", "cache_control", "refusal", "function_call", "tool_calls",
			"reasoning_content", "reasoning", "reasoning_details", sound, pictures)
		parts, err = rd.assistant(m, at, append(thoughtParts(rd.c, m, parts), shown(m, at)...))
	case "tool":
		wire.UnmapUnknown(rd.c, m, "role", "content", "cache_control", "tool_call_id", "name", "is_error")
		parts, err = toolResult(m, at, parts)
	case "function":
		wire.UnmapUnknown(rd.c, m, "role", "content", "cache_control", "name")
		parts, err = rd.functionResult(at, parts)
	default:
		wire.UnmapUnknown(rd.c, m, "role", "content", "cache_control")
	}
	if cc := wire.Present(m.Get("cache_control")); cc != nil && err == nil {
		mark(rd.c, parts, cc)
	}
	return parts, err
}

// shown is what the model showed beside its text: sound that OpenAI holds by an id, and images as OpenRouter's answers have them.
func shown(m jsonx.Value, at string) (parts []chat.Part) {
	for _, key := range [...]string{sound, pictures} {
		if v := m.Get(key); !wire.IsEmpty(v) {
			parts = append(parts, chat.Part{Kind: chat.PartOther, Name: key, At: at + "." + key, Raw: v.Raw})
		}
	}
	return parts
}

// mark puts a cache mark that stands at the end of parts on the last of them. Thinking cannot have one.
func mark(c *chat.Conversation, parts []chat.Part, cacheControl jsonx.Raw) {
	n := len(parts)
	if n == 0 || parts[n-1].Kind == chat.PartThinking || parts[n-1].Kind == chat.PartRedacted {
		wire.Unmap(c, "cache_control")
		return
	}
	parts[n-1].CacheControl = cacheControl
}

// toolResult reads a message of role tool. That a call failed has no place in this format; some clients say it as
// Anthropic does.
func toolResult(m jsonx.Value, at string, parts []chat.Part) ([]chat.Part, error) {
	id, ok := m.Get("tool_call_id").Str()
	if !ok {
		return nil, wire.WrongKind(at+".tool_call_id", "a string", m.Get("tool_call_id"))
	}
	failed, err := wire.ReadFlag(at+".is_error", m.Get("is_error"))
	if err != nil {
		return nil, err
	}
	return []chat.Part{{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: id}, Parts: parts, IsError: failed}}, nil
}

func (rd *reader) functionResult(at string, parts []chat.Part) ([]chat.Part, error) {
	if rd.calls == 0 {
		return nil, wire.Invalid(at, "%s is the result of a function that the assistant did not call", at)
	}
	return []chat.Part{{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: rd.legacyID()}, Parts: parts}}, nil
}

func (rd *reader) legacyID() string { return "call_function_" + strconv.Itoa(rd.calls) }

// assistant adds to an assistant's content what stands beside it: refusal and calls after it, and reasoning at its places.
func (rd *reader) assistant(m jsonx.Value, at string, content []chat.Part) ([]chat.Part, error) {
	thoughts, err := readReasoningOf(rd.c, m, at)
	if err != nil {
		return nil, err
	}
	parts := content
	switch t, err := wire.ReadOptional(at+".refusal", m.Get("refusal")); {
	case err != nil:
		return nil, err
	case t != "":
		parts = append(parts, chat.Part{Kind: chat.PartRefusal, Text: t})
	}
	if call := m.Get("function_call"); !call.IsNull() {
		rd.calls++
		p, err := readCall(rd.c, rd.legacyID(), call, at+".function_call")
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	calls := m.Get("tool_calls")
	if !calls.IsNull() && calls.Kind() != jsonx.Array {
		return nil, wire.WrongKind(at+".tool_calls", "an array", calls)
	}
	for i, call := range calls.Each {
		p, err := rd.toolCall(call, at+".tool_calls["+strconv.Itoa(i)+"]")
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return weave(thoughts, parts), nil
}

func (rd *reader) toolCall(call jsonx.Value, at string) (chat.Part, error) {
	id, ok := call.Get("id").Str()
	if !ok || id == "" {
		return chat.Part{}, wire.Invalid(at+".id", "%s.id must be a non-empty string", at)
	}
	wire.UnmapUnknown(rd.c, call, "id", "type", "index", "function", "custom", "cache_control")
	var p chat.Part
	var err error
	if custom := call.Get("custom"); custom.Exists() {
		wire.Unmap(rd.c, "custom")
		p, err = readCustomCall(id, custom, at+".custom")
	} else {
		p, err = readCall(rd.c, id, call.Get("function"), at+".function")
	}
	p.CacheControl = wire.Present(call.Get("cache_control"))
	return p, err
}
