package openai

import (
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Efforts with a special meaning here; others are opaque.
const (
	effortNone = wire.EffortNone
	effortMax  = wire.EffortMax
)

// Members of an assistant's message that hold media.
const (
	keyAudio  = "audio"  // the id of audio that OpenAI stores
	keyImages = "images" // OpenRouter
)

// words maps canonical names, which are Anthropic's, to this format's names.
var words = map[string]string{
	"thinking": "reasoning_content", "effort": "reasoning_effort", "image": "image_url", "document": "file",
	"stop_sequences": "stop", "user_id": "user", "format": "response_format", "budget_tokens": "reasoning", "tool_use": "tool_calls", "disable_parallel_tool_use": "parallel_tool_calls", "tool_result": "tool",
}

// readConversation parses a request. What the canonical form lacks is listed in Unmapped: unknown top-level members, and unknown members of
// messages, parts, calls and tools, by their keys.
func readConversation(r *chat.Request) (*chat.Conversation, error) {
	c := &chat.Conversation{Words: words}
	for key, v := range wire.TopMembers(&r.Doc) {
		if v.IsNull() {
			continue
		}
		if err := readInto(c, r, key, v); err != nil {
			return nil, err
		}
	}
	wire.NoteUndocumented(c, Names)
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
		if !r.Doc.Get("tool_choice").IsNull() { // its current name has precedence
			wire.Unmap(c, key)
			return nil
		}
		return readToolChoice(c, key, v)
	case "tool_choice":
		return readToolChoice(c, key, v)
	case "parallel_tool_calls":
		on, err := wire.ReadFlag(key, v)
		c.ParallelTools = &on
		return err
	}
	return readParam(c, r, key, v)
}

// reader converts messages. It numbers the calls of the legacy function format, which has no ids.
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
		wire.UnmapUnknown(rd.c, m, assistantKeys...)
		parts, err = rd.assistant(m, at, append(thoughtParts(rd.c, m, parts), modelMedia(m, at)...))
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

// The members of an assistant's message, and of its calls, that are read, or that hold nothing for a model.
var (
	assistantKeys = slices.Concat([]string{
		"role", "content", keyMark, keyRefusal, keyCall, keyCalls, keyReasoningContent, keyReasoning, keyDetails, keyAudio, keyImages, keyAnnotations,
	}, addedKeys)
	callKeys = slices.Concat([]string{"id", "type", "index", "function", "custom", keyMark}, addedKeys)
)

// modelMedia returns the media of an assistant's message: audio that OpenAI stores under an id, and images as in OpenRouter's answers. The model made
// them, so providers that do not accept them get the conversation without them.
func modelMedia(m jsonx.Value, at string) (parts []chat.Part) {
	if v := m.Get(keyAudio); !wire.IsEmpty(v) {
		parts = append(parts, chat.Part{Kind: chat.PartOther, Name: keyAudio, At: at + "." + keyAudio, Raw: v.Raw, Trace: true})
	}
	v := m.Get(keyImages)
	if wire.IsEmpty(v) {
		return parts
	}
	images := wire.PicturesIn(&chat.Event{Kind: chat.Extra, ID: wire.ChatPictures, Text: v.Raw})
	for i, p := range images {
		parts = append(parts, chat.Part{
			Kind: chat.PartImage, Media: p.Media, Data: p.Data, Name: keyImages, At: at + "." + keyImages + "[" + strconv.Itoa(i) + "]", Trace: true,
		})
	}
	if len(images) == 0 {
		parts = append(parts, chat.Part{Kind: chat.PartOther, Name: keyImages, At: at + "." + keyImages, Raw: v.Raw, Trace: true})
	}
	return parts
}

// mark puts a cache mark at the end of parts, on the last one. Thinking cannot have a mark.
func mark(c *chat.Conversation, parts []chat.Part, cacheControl jsonx.Raw) {
	n := len(parts)
	if n == 0 || parts[n-1].Kind == chat.PartThinking || parts[n-1].Kind == chat.PartRedacted {
		wire.Unmap(c, "cache_control")
		return
	}
	parts[n-1].CacheControl = cacheControl
}

// toolResult reads a message of role tool. The format has no flag for a failed call; some clients send Anthropic's.
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

// assistant adds an assistant's other members to its content: refusal and calls after it, reasoning at its positions.
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
	return interleave(thoughts, parts), nil
}

func (rd *reader) toolCall(call jsonx.Value, at string) (chat.Part, error) {
	id, ok := call.Get("id").Str()
	if !ok || id == "" {
		return chat.Part{}, wire.Invalid(at+".id", "%s.id must be a non-empty string", at)
	}
	wire.UnmapUnknown(rd.c, call, callKeys...)
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
