package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// readConversation parses a request. What the canonical form lacks is listed in Unmapped: unknown top-level members, and unknown members of
// messages, blocks and tools, by their keys.
func readConversation(r *chat.Request) (*chat.Conversation, error) {
	c := &chat.Conversation{}
	for key, v := range wire.TopMembers(&r.Doc) {
		if v.IsNull() {
			continue
		}
		if err := readInto(c, key, v); err != nil {
			return nil, err
		}
	}
	wire.NoteUndocumented(c, Names, "search_result")
	return c, nil
}

func readInto(c *chat.Conversation, key string, v jsonx.Value) (err error) {
	switch key {
	case "model", "stream", "max_tokens", wire.HintKey:
		return nil
	case "system":
		c.System, err = readContent(c, v, key)
		c.System = slices.DeleteFunc(c.System, isAttribution)
		return err
	case "messages":
		return readMessages(c, v)
	case "tools":
		return readTools(c, v)
	case "tool_choice":
		return readToolChoice(c, v)
	}
	return readParam(c, key, v)
}

// isAttribution reports whether a part of the system prompt is a header that Claude Code adds for Anthropic's statistics. It means nothing
// to a model, and differs between conversations: at the start of another provider's prompt it would defeat the prompt cache.
func isAttribution(p chat.Part) bool {
	return p.Kind == chat.PartText && strings.HasPrefix(p.Text, "x-anthropic-billing-header:")
}

func readMessages(c *chat.Conversation, v jsonx.Value) error {
	for i, m := range v.Each {
		at := "messages." + strconv.Itoa(i)
		if m.Kind() != jsonx.Object {
			return wire.WrongKind(at, "an object", m)
		}
		wire.UnmapUnknown(c, m, "role", "content")
		role, _ := m.Get("role").Str()
		parts, err := readContent(c, m.Get("content"), at+".content")
		if err != nil {
			return err
		}
		switch role {
		case "user":
			c.Messages = wire.AppendUser(c.Messages, at, parts)
		case "assistant":
			c.Messages = append(c.Messages, chat.Message{Role: chat.RoleAssistant, At: at, Parts: parts})
		case "system":
			c.Messages = append(c.Messages, chat.Message{Role: chat.RoleSystem, At: at, Parts: parts})
		default:
			return invalid(at+".role", "must be user or assistant")
		}
	}
	return nil
}

func readTools(c *chat.Conversation, v jsonx.Value) error {
	if v.Kind() != jsonx.Array {
		return wire.WrongKind("tools", "an array", v)
	}
	for i, e := range v.Each {
		at := "tools." + strconv.Itoa(i)
		name, ok := e.Get("name").Str()
		if kind, is := e.Get("type").Str(); is && kind != "custom" {
			c.Tools = append(c.Tools, chat.Tool{Name: name, Raw: e.Raw})
			continue
		}
		if !ok || name == "" {
			return invalid(at+".name", "must be a non-empty string")
		}
		t, err := readTool(c, name, e, at)
		if err != nil {
			return err
		}
		c.Tools = append(c.Tools, t)
	}
	return nil
}

func readTool(c *chat.Conversation, name string, e jsonx.Value, at string) (chat.Tool, error) {
	wire.UnmapUnknown(c, e, "type", "name", "description", "input_schema", "strict", "cache_control")
	t := chat.Tool{Name: name, Schema: wire.Present(e.Get("input_schema")), CacheControl: wire.Present(e.Get("cache_control"))}
	description, schema, strict := e.Get("description"), e.Get("input_schema"), e.Get("strict")
	var isText, isFlag bool
	t.Description, isText = description.Str()
	t.Strict, isFlag = strict.Bool()
	switch {
	case !isText && !description.IsNull():
		return t, wire.WrongKind(at+".description", "a string", description)
	case !isFlag && !strict.IsNull():
		return t, wire.WrongKind(at+".strict", "a boolean", strict)
	case t.Schema != nil && schema.Kind() != jsonx.Object:
		return t, wire.WrongKind(at+".input_schema", "an object", schema)
	}
	return t, nil
}

func readToolChoice(c *chat.Conversation, v jsonx.Value) error {
	wire.UnmapUnknown(c, v, "type", "name", "disable_parallel_tool_use")
	switch kind, _ := v.Get("type").Str(); kind {
	case "auto":
		c.ToolChoice.Mode = chat.ToolAuto
	case "any":
		c.ToolChoice.Mode = chat.ToolAny
	case "none":
		c.ToolChoice.Mode = chat.ToolNone
	case "tool":
		name, _ := v.Get("name").Str()
		if name == "" {
			return invalid("tool_choice.name", "must be a non-empty string")
		}
		c.ToolChoice = chat.ToolChoice{Mode: chat.ToolNamed, Name: name}
	default:
		return invalid("tool_choice.type", "must be auto, any, tool or none")
	}
	alone := v.Get("disable_parallel_tool_use")
	on, ok := alone.Bool()
	switch {
	case ok:
		on = !on
		c.ParallelTools = &on
	case !alone.IsNull():
		return wire.WrongKind("tool_choice.disable_parallel_tool_use", "a boolean", alone)
	}
	return nil
}
