package responses

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// words are what clients of this format call what the canonical form names as Anthropic does.
var words = map[string]string{
	"thinking": "reasoning", "effort": "reasoning", "budget_tokens": "reasoning", "image": "input_image", "document": "input_file",
	"stop_sequences": "stop", "user_id": "user", "format": "text", "max_tokens": "max_output_tokens",
	"tool_use": "function_call", "tool_result": "function_call_output",
}

// readConversation parses what a request says. What the canonical form cannot carry is named in Unmapped.
func readConversation(r *chat.Request) (*chat.Conversation, error) {
	c := &chat.Conversation{Words: words}
	if len(r.Needs) > 0 { // no other format has a place for what another provider keeps
		return nil, KeptElsewhere(r.Needs[0].Member)
	}
	for i := range r.Doc.Members {
		m := &r.Doc.Members[i]
		v := jsonx.Value{Raw: r.Doc.Bytes[m.Start:m.End], At: m.Start}
		if v.IsNull() {
			continue
		}
		if err := readInto(c, m.Key, v); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func readInto(c *chat.Conversation, key string, v jsonx.Value) error {
	switch key {
	case "model", "stream", "max_output_tokens", wire.HintKey, "background":
		return nil
	case "instructions":
		return readInstructions(c, v)
	case "input":
		return readInput(c, v)
	case "tools":
		return readTools(c, v)
	case "tool_choice":
		return readToolChoice(c, v)
	case "parallel_tool_calls":
		on, ok := v.Bool()
		if !ok {
			return wire.WrongKind(key, "a boolean", v)
		}
		c.ParallelTools = &on
		return nil
	}
	return readParam(c, key, v)
}

// readInstructions puts the instructions before what the input's own system messages say.
func readInstructions(c *chat.Conversation, v jsonx.Value) error {
	t, ok := v.Str()
	switch {
	case !ok:
		return wire.WrongKind("instructions", "a string", v)
	case t != "":
		c.System = append([]chat.Part{{Kind: chat.PartText, Text: t}}, c.System...)
	}
	return nil
}

func readInput(c *chat.Conversation, v jsonx.Value) error {
	if t, ok := v.Str(); ok {
		c.Messages = append(c.Messages, chat.Message{Role: chat.RoleUser, At: "input", Parts: []chat.Part{{Kind: chat.PartText, Text: t}}})
		return nil
	}
	rd := reader{c: c, opening: true}
	for i, item := range v.Each {
		if err := rd.item(item, itemAt(i)); err != nil {
			return err
		}
	}
	return nil
}

// reader turns items into turns.
type reader struct {
	c       *chat.Conversation
	opening bool // system messages before the first turn are the system prompt
}

// say adds to the conversation. What the assistant says in several items that follow each other is one turn.
func (rd *reader) say(role chat.Role, at string, parts ...chat.Part) {
	ms := rd.c.Messages
	switch n := len(ms); {
	case len(parts) == 0 && role != chat.RoleAssistant:
	case role == chat.RoleSystem && rd.opening:
		rd.c.System = append(rd.c.System, parts...)
	case role == chat.RoleAssistant && n > 0 && ms[n-1].Role == role:
		ms[n-1].Parts = append(ms[n-1].Parts, parts...)
	default:
		rd.opening = false
		rd.c.Messages = append(rd.c.Messages, chat.Message{Role: role, At: at, Parts: parts})
	}
}

var roles = map[string]chat.Role{
	"system": chat.RoleSystem, "developer": chat.RoleSystem, "user": chat.RoleUser, "assistant": chat.RoleAssistant,
}

// item reads one item of the input. A message may leave out that it is one.
func (rd *reader) item(v jsonx.Value, at string) error {
	if v.Kind() != jsonx.Object {
		return wire.WrongKind(at, "an object", v)
	}
	kind, ok := v.Get("type").Str()
	if !ok {
		if t := v.Get("type"); !t.IsNull() || v.Get("role").IsNull() {
			return wire.WrongKind(at+".type", "a string", t)
		}
		kind = "message"
	}
	switch kind {
	case "message":
		return rd.message(v, at)
	case "function_call":
		return rd.functionCall(v, at)
	case "custom_tool_call":
		return rd.customCall(v, at)
	case "function_call_output", "custom_tool_call_output":
		return rd.output(v, at)
	case "reasoning":
		return rd.reasoning(v, at)
	case itemReference:
		return KeptElsewhere(at)
	}
	rd.say(chat.RoleAssistant, at, chat.Part{Kind: chat.PartOther, Name: kind, At: at, Raw: v.Raw, Trace: traces[kind]})
	return nil
}

// traces are the items that OpenAI's own tools leave in an answer and that say nothing to another provider: what was called or listed.
// Any other item that only this format has is content.
var traces = map[string]bool{"web_search_call": true, "file_search_call": true, "mcp_list_tools": true}

func (rd *reader) message(v jsonx.Value, at string) error {
	name, ok := v.Get("role").Str()
	if !ok {
		return wire.WrongKind(at+".role", "a string", v.Get("role"))
	}
	role, known := roles[name]
	if !known {
		return wire.Invalid(at+".role", "%s.role must be one of system, developer, user, assistant", at)
	}
	wire.UnmapUnknown(rd.c, v, "type", "id", "role", "content", "status")
	parts, err := readContent(rd.c, v.Get("content"), at+".content")
	if err == nil {
		rd.say(role, at, parts...)
	}
	return err
}

// functionCall reads a call. Its arguments are a JSON text.
func (rd *reader) functionCall(v jsonx.Value, at string) error {
	wire.UnmapUnknown(rd.c, v, "type", "id", "call_id", "name", "arguments", "status")
	call, err := readCall(v, at)
	if err != nil {
		return err
	}
	if call.Args, err = wire.ReadOptional(at+".arguments", v.Get("arguments")); err != nil {
		return err
	}
	if call.Args == "" {
		call.Args = "{}"
	}
	rd.say(chat.RoleAssistant, at, chat.Part{Kind: chat.PartToolUse, Tool: call})
	return nil
}

// customCall reads a call whose argument is a text. Elsewhere it is a call of the function that stands in for the tool.
func (rd *reader) customCall(v jsonx.Value, at string) error {
	wire.UnmapUnknown(rd.c, v, "type", "id", "call_id", "name", "input", "status")
	call, err := readCall(v, at)
	if err != nil {
		return err
	}
	input, err := wire.ReadOptional(at+".input", v.Get("input"))
	if err != nil {
		return err
	}
	call.Args = string(append(jsonx.AppendString([]byte(`{"`+customInput+`":`), input), '}'))
	rd.say(chat.RoleAssistant, at, chat.Part{Kind: chat.PartToolUse, Tool: call})
	return nil
}

func readCall(v jsonx.Value, at string) (call chat.ToolCall, err error) {
	if call.ID, err = readRequired(at+".call_id", v.Get("call_id")); err != nil {
		return call, err
	}
	call.Name, err = readRequired(at+".name", v.Get("name"))
	return call, err
}

// output reads what a call returned: a text, or parts.
func (rd *reader) output(v jsonx.Value, at string) error {
	wire.UnmapUnknown(rd.c, v, "type", "id", "call_id", "output", "status")
	id, err := readRequired(at+".call_id", v.Get("call_id"))
	if err != nil {
		return err
	}
	out := v.Get("output")
	if !out.Exists() {
		return wire.Invalid(at+".output", "%s.output is required", at)
	}
	parts, err := readContent(rd.c, out, at+".output")
	if err != nil {
		return err
	}
	rd.say(chat.RoleTool, at, chat.Part{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: id}, Parts: parts})
	return nil
}
