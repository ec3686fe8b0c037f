package wire

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// What OpenAI's formats, Chat Completions and Responses, write identically. OwnTools is for the other formats.

// EmptySchema is the schema of a function without parameters.
const EmptySchema = `{"type":"object","properties":{}}`

// maxUser is the maximum length in bytes of a user name at OpenAI.
const maxUser = 64

// Functions writes the member "tools" with the functions among tools that the model may call, each by write. Tools of the client's dialect
// only are named as degraded. It reports whether there was a function.
func (w *Writer) Functions(tools []chat.Tool, write func(*chat.Tool)) bool {
	functions := 0
	for i := range tools {
		switch t := &tools[i]; {
		case t.Raw != nil:
			kind, _ := jsonx.Value{Raw: t.Raw}.Get("type").Str()
			w.DegradeAs(kind)
		case w.Conv.Allows(t):
			functions++
		}
	}
	if functions == 0 {
		if mode := w.Conv.ToolChoice.Mode; mode == chat.ToolAny || mode == chat.ToolNamed {
			w.Degrade("tool_choice")
		}
		return false
	}
	w.Key("tools")
	w.OpenArray()
	for i := range tools {
		if t := &tools[i]; t.Raw == nil && w.Conv.Allows(t) {
			write(t)
		}
	}
	w.Raw("]")
	return true
}

// OwnTools returns the functions among the client's tools that the model may call. Tools of its dialect only are named as degraded; a tool choice that names one of
// them is dropped. A choice that requires a call is named if no function is left. look is called for each tool; it may be nil.
func (w *Writer) OwnTools(tools []chat.Tool, choice *chat.ToolChoice, look func(*chat.Tool)) []chat.Tool {
	var functions []chat.Tool
	for i := range tools {
		t := &tools[i]
		if look != nil {
			look(t)
		}
		if t.Raw == nil {
			if w.Conv.Allows(t) {
				functions = append(functions, *t)
			}
			continue
		}
		kind, _ := jsonx.Value{Raw: t.Raw}.Get("type").Str()
		w.DegradeAs(kind)
		if choice.Mode == chat.ToolNamed && choice.Name == t.Name {
			w.Degrade("tool_choice")
			*choice = chat.ToolChoice{}
		}
	}
	if len(functions) == 0 && (choice.Mode == chat.ToolAny || choice.Mode == chat.ToolNamed) {
		w.Degrade("tool_choice")
	}
	return functions
}

// FunctionHead writes the members of a function that are equal in both formats: from the value of "name" up to its parameters.
func (w *Writer) FunctionHead(t *chat.Tool) {
	w.Str(ToolName(t.Name, chat.OpenAI))
	if t.Description != "" {
		w.Key("description")
		w.Str(t.Description)
	}
	w.Key("parameters")
	w.inputSchema(t.Schema)
}

// inputSchema writes the schema of a function's arguments. OpenAI refuses an object schema without a type or without properties.
func (w *Writer) inputSchema(r jsonx.Raw) {
	v := jsonx.Value{Raw: r}
	if v.Kind() != jsonx.Object || IsEmpty(v) {
		w.Raw(EmptySchema)
		return
	}
	kind := v.Get("type")
	w.JSON(r[:len(r)-1])
	if !kind.Exists() {
		w.Raw(`,"type":"object"`)
	}
	if (!kind.Exists() || kind.Equal("object")) && !v.Get("properties").Exists() {
		w.Raw(`,"properties":{}`)
	}
	w.Raw("}")
}

// ToolChoice writes the members "tool_choice" and "parallel_tool_calls". open and end enclose the quoted name of a required function.
func (w *Writer) ToolChoice(open, end string) {
	switch choice := w.Conv.ToolChoice; choice.Mode {
	case chat.ToolAuto:
	case chat.ToolNone:
		w.Raw(`,"tool_choice":"none"`)
	case chat.ToolAny:
		w.Raw(`,"tool_choice":"required"`)
	case chat.ToolNamed:
		if slices.ContainsFunc(w.Conv.Tools, func(t chat.Tool) bool { return t.Name == choice.Name && t.Raw != nil }) {
			w.Degrade("tool_choice")
			break
		}
		w.Key("tool_choice")
		w.Raw(open)
		w.Str(ToolName(choice.Name, chat.OpenAI))
		w.Raw(end)
	}
	if p := w.Conv.ParallelTools; p != nil {
		w.Key("parallel_tool_calls")
		w.Boolean(*p)
	}
}

// Effort returns the effort to send for the thinking parameters of a client of another dialect: its effort, or the equivalent of its token
// budget; "" to send none. accepts is whether the model accepts efforts, and efforts are those that it accepts; nil: any.
func (w *Writer) Effort(p *chat.Params, accepts bool, efforts []string) string {
	if !accepts {
		if p.ThinkingBudget > 0 || p.Thinking == chat.ThinkingAdaptive {
			w.Degrade("thinking")
		}
		if p.Effort != "" && p.Effort != EffortNone {
			w.Degrade("effort")
		}
		return ""
	}
	effort := p.Effort
	switch {
	case effort != "" && p.ThinkingBudget > 0:
		w.Degrade("budget_tokens")
	case effort == "" && p.ThinkingBudget > 0:
		effort = EffortOf(p.ThinkingBudget)
	case effort == "" && p.Thinking == chat.ThinkingOff && slices.Contains(efforts, EffortNone):
		effort = EffortNone
	}
	if p.Thinking == chat.ThinkingOff && effort != EffortNone {
		w.Degrade("thinking")
	}
	fitting := FitEffort(efforts, effort)
	if fitting != effort {
		w.Degrade("effort")
	}
	return fitting
}

// EndUser writes the member "user". A name over OpenAI's maximum length is omitted.
func (w *Writer) EndUser(name string) {
	switch {
	case name == "":
	case len(name) > maxUser:
		w.Degrade("user_id")
	default:
		w.Key("user")
		w.Str(name)
	}
}

// PartURL writes a part's URL, or its data as a data: URL, inside a JSON string that is open.
func (w *Writer) PartURL(p *chat.Part) {
	if p.Data == "" {
		w.Dst = jsonx.AppendEscaped(w.Dst, p.URL)
		return
	}
	w.Raw("data:")
	w.Dst = jsonx.AppendEscaped(w.Dst, p.Media)
	w.Raw(";base64,")
	w.Dst = jsonx.AppendEscaped(w.Dst, p.Data)
}

// ResultsFirst visits the messages between two turns of the assistant: first all results of its tool calls, which must follow the calls,
// then the other parts, message by message.
func ResultsFirst(ms []chat.Message, result func(*chat.Part), other func(role chat.Role, parts []chat.Part)) {
	for i := range ms {
		for j := range ms[i].Parts {
			if p := &ms[i].Parts[j]; p.Kind == chat.PartToolResult {
				result(p)
			}
		}
	}
	for i := range ms {
		rest := ms[i].Parts
		if slices.ContainsFunc(rest, IsToolResult) {
			rest = slices.DeleteFunc(slices.Clone(rest), IsToolResult)
		}
		if len(rest) > 0 {
			other(ms[i].Role, rest)
		}
	}
}

// IsToolResult reports whether a part is the result of a tool call.
func IsToolResult(p chat.Part) bool { return p.Kind == chat.PartToolResult }
