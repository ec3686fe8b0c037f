package responses

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// words maps canonical names, which are Anthropic's, to this format's names.
var words = map[string]string{
	"thinking": "reasoning", "effort": "reasoning", "budget_tokens": "reasoning", "image": "input_image", "document": "input_file",
	"stop_sequences": "stop", "user_id": "user", "format": "text", "max_tokens": "max_output_tokens",
	"tool_use": "function_call", "tool_result": "function_call_output", "messages": "input",
}

// readConversation parses a request. What the canonical form lacks is listed in Unmapped.
func readConversation(r *chat.Request) (*chat.Conversation, error) {
	c := &chat.Conversation{Words: words}
	if len(r.Needs) > 0 { // no other format can refer to what another provider stores
		return nil, StoredElsewhere(r.Needs[0].Member)
	}
	groups, opens := namespaces(&r.Doc)
	for key, v := range wire.TopMembers(&r.Doc) {
		if v.IsNull() {
			continue
		}
		if err := readInto(c, key, v, opens); err != nil {
			return nil, err
		}
	}
	if groups != nil {
		c.Tools = lastOfEach(c.Tools)
	}
	wire.NoteUndocumented(c, Names)
	return c, nil
}

// readInto reads a member. opens is whether groups of tools are read.
func readInto(c *chat.Conversation, key string, v jsonx.Value, opens bool) error {
	switch key {
	case "model", "stream", "max_output_tokens", wire.HintKey, "background":
		return nil
	case "instructions":
		return readInstructions(c, v)
	case "input":
		return readInput(c, v, opens)
	case "tools":
		if v.Kind() != jsonx.Array {
			return wire.WrongKind(key, "an array", v)
		}
		return readToolList(c, v, key, opens)
	case "tool_choice":
		return readToolChoice(c, v)
	case "parallel_tool_calls":
		on, err := wire.ReadFlag(key, v)
		c.ParallelTools = &on
		return err
	}
	return readParam(c, key, v)
}

// readInstructions puts the instructions before the input's own system messages.
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

func readInput(c *chat.Conversation, v jsonx.Value, opens bool) error {
	if t, ok := v.Str(); ok {
		c.Messages = append(c.Messages, chat.Message{Role: chat.RoleUser, At: "input", Parts: []chat.Part{{Kind: chat.PartText, Text: t}}})
		return nil
	}
	rd := reader{c: c, opening: true, opens: opens}
	for i, item := range v.Each {
		if err := rd.item(item, itemAt(i)); err != nil {
			return err
		}
	}
	return nil
}

// reader converts items into messages.
type reader struct {
	c       *chat.Conversation
	opening bool // system messages before the first turn are the system prompt
	opens   bool // groups of tools are read
}

// add adds parts to the conversation. Consecutive items of the assistant become one message.
func (rd *reader) add(role chat.Role, at string, parts ...chat.Part) {
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

// item reads one item of the input. The type of a message is optional.
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
	case pictureItem:
		rd.picture(v, at)
		return nil
	case itemReference:
		return StoredElsewhere(at)
	case additionalTools, searchOutput:
		if rd.opens {
			wire.UnmapUnknown(rd.c, v, "type", "id", "role", "tools", "status", "call_id", "execution")
			return readGroup(rd.c, v, at)
		}
	}
	rd.add(chat.RoleAssistant, at, chat.Part{Kind: chat.PartOther, Name: kind, At: at, Raw: v.Raw, Trace: traces[kind]})
	return nil
}

// picture reads an image that the model made.
func (rd *reader) picture(v jsonx.Value, at string) {
	images := wire.PicturesIn(&chat.Event{Kind: chat.Extra, ID: pictureItem, Text: v.Raw})
	for _, p := range images {
		rd.add(chat.RoleAssistant, at, chat.Part{Kind: chat.PartImage, Media: p.Media, Data: p.Data, Name: pictureItem, At: at, Trace: true})
	}
	if len(images) == 0 { // one that OpenAI stores, or that failed
		rd.add(chat.RoleAssistant, at, chat.Part{Kind: chat.PartOther, Name: pictureItem, At: at, Raw: v.Raw})
	}
}

// pictureItem is the type of items with an image that the model made.
const pictureItem = "image_generation_call"

// traces are the items that OpenAI's own tools leave in an answer and that mean nothing to another provider: calls and lists. Any other
// item of this format only is content.
var traces = map[string]bool{"web_search_call": true, "file_search_call": true, "mcp_list_tools": true, "tool_search_call": true}

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
		rd.add(role, at, parts...)
	}
	return err
}

// functionCall reads a function call. Its arguments are JSON in a string.
func (rd *reader) functionCall(v jsonx.Value, at string) error {
	wire.UnmapUnknown(rd.c, v, "type", "id", "call_id", "name", namespaceType, "arguments", "status")
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
	rd.add(chat.RoleAssistant, at, chat.Part{Kind: chat.PartToolUse, Tool: call})
	return nil
}

// customCall reads a call with a text argument. In other formats it is a call of the function that replaces the tool.
func (rd *reader) customCall(v jsonx.Value, at string) error {
	wire.UnmapUnknown(rd.c, v, "type", "id", "call_id", "name", namespaceType, "input", "status")
	call, err := readCall(v, at)
	if err != nil {
		return err
	}
	input, err := wire.ReadOptional(at+".input", v.Get("input"))
	if err != nil {
		return err
	}
	call.Args = string(append(jsonx.AppendString([]byte(`{"`+customInput+`":`), input), '}'))
	rd.add(chat.RoleAssistant, at, chat.Part{Kind: chat.PartToolUse, Tool: call})
	return nil
}

func readCall(v jsonx.Value, at string) (call chat.ToolCall, err error) {
	if call.ID, err = readRequired(at+".call_id", v.Get("call_id")); err != nil {
		return call, err
	}
	call.Name, err = readRequired(at+".name", v.Get("name"))
	return call, err
}

// output reads a call's result: a string, or parts.
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
	rd.add(chat.RoleTool, at, chat.Part{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: id}, Parts: parts})
	return nil
}
