package toolcall

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// The prompts that explain how to call tools: for Hermes and Qwen, those of the models' chat templates.
const (
	hermesBefore = "You are a function calling AI model. You are provided with function signatures within <tools></tools> XML tags. " +
		"You may call one or more functions to assist with the user query. Don't make assumptions about what values to plug into functions. " +
		"Here are the available tools: <tools>\n"
	hermesAfter = "</tools> Use the following pydantic model json schema for each tool call you will make: " +
		`{"properties": {"arguments": {"title": "Arguments", "type": "object"}, "name": {"title": "Name", "type": "string"}}, ` +
		`"required": ["arguments", "name"], "title": "FunctionCall", "type": "object"} ` +
		"For each function call return a json object with function name and arguments within <tool_call></tool_call> XML tags as follows:\n" +
		"<tool_call>\n" + `{"arguments": <args-dict>, "name": <function-name>}` + "\n</tool_call>"

	qwenBefore = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
	qwenAfter = "</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n" +
		"<tool_call>\n" + `{"name": <function-name>, "arguments": <args-json-object>}` + "\n</tool_call>"

	jsonBefore = "You can call functions. These are their signatures, one per line:\n"
	jsonAfter  = "\nTo call functions, answer with a JSON array and nothing else, with one element for each call:\n" +
		`[{"name": <function-name>, "arguments": <object of arguments>}]` + "\n" +
		"What they returned is then told to you within <tool_response></tool_response> tags. Where no call is needed, answer in words."
)

// toolPrompt returns the part of the system prompt about tools. It is deterministic, so that providers can cache it.
func toolPrompt(c *chat.Conversation, f Format, offered []chat.Tool) string {
	before, after := hermesBefore, hermesAfter
	switch f {
	case Hermes:
	case Qwen:
		before, after = qwenBefore, qwenAfter
	case JSON:
		before, after = jsonBefore, jsonAfter
	}
	b := []byte(before)
	for i := range offered {
		b = append(appendTool(b, &offered[i]), '\n')
	}
	b = append(b, after...)
	return string(append(b, constraints(c)...))
}

// constraints expresses tool_choice and parallel_tool_calls in the prompt.
func constraints(c *chat.Conversation) string {
	var s strings.Builder
	switch c.ToolChoice.Mode {
	case chat.ToolAny:
		s.WriteString("\n\nYou must call at least one function now. Do not answer without a function call.")
	case chat.ToolNamed:
		s.WriteString("\n\nYou must call the function " + c.ToolChoice.Name + " now. Do not answer without calling it, and call no other function.")
	case chat.ToolAuto, chat.ToolNone:
	}
	if p := c.ParallelTools; p != nil && !*p {
		s.WriteString("\n\nCall at most one function in each answer.")
	}
	return s.String()
}

// appendTool appends a tool's definition on one line.
func appendTool(dst []byte, t *chat.Tool) []byte {
	dst = append(dst, `{"type": "function", "function": {"name": `...)
	dst = jsonx.AppendString(dst, t.Name)
	if t.Description != "" {
		dst = jsonx.AppendString(append(dst, `, "description": `...), t.Description)
	}
	dst = append(dst, `, "parameters": `...)
	if len(t.Schema) > 0 {
		dst = appendLine(dst, t.Schema)
	} else {
		dst = append(dst, `{"type": "object", "properties": {}}`...)
	}
	return append(dst, "}}"...)
}

// appendLine appends a JSON text without its line breaks.
func appendLine(dst, json []byte) []byte {
	for _, c := range json {
		if c != '\n' && c != '\r' {
			dst = append(dst, c)
		}
	}
	return dst
}

// appendCalls appends the first of the parts as the model would have written the call; in the JSON format, all calls of the parts. If
// afterText is set, text precedes it, and the JSON is put in a fenced block.
func appendCalls(dst []byte, f Format, parts []chat.Part, afterText bool) []byte {
	before, after := openCall+"\n", "\n"+closeCall
	switch {
	case f == JSON && afterText:
		before, after = fence+"json\n[", "]\n"+fence
	case f == JSON:
		before, after = "[", "]"
	}
	if afterText {
		dst = append(dst, '\n')
	}
	dst = appendCall(append(dst, before...), &parts[0].Tool)
	for i := range parts[1:] {
		if p := &parts[1+i]; f == JSON && p.Kind == chat.PartToolUse {
			dst = appendCall(append(dst, ", "...), &p.Tool)
		}
	}
	return append(dst, after...)
}

// appendCall appends a call's object.
func appendCall(dst []byte, call *chat.ToolCall) []byte {
	dst = jsonx.AppendString(append(dst, `{"name": `...), call.Name)
	dst = append(dst, `, "arguments": `...)
	if v, err := jsonx.Parse([]byte(call.Args)); err == nil && v.Kind() == jsonx.Object {
		dst = appendLine(dst, v.Raw)
	} else {
		dst = jsonx.AppendString(dst, call.Args) // not JSON: as a string
	}
	return append(dst, '}')
}

// appendResult appends the result of a call.
func appendResult(dst []byte, f Format, name, text string) []byte {
	dst = append(dst, "<tool_response>\n"...)
	if f == Qwen {
		dst = append(dst, text...)
		return append(dst, "\n</tool_response>"...)
	}
	dst = append(dst, '{')
	if name != "" {
		dst = append(jsonx.AppendString(append(dst, `"name": `...), name), ", "...)
	}
	dst = append(dst, `"content": `...)
	if v, err := jsonx.Parse([]byte(text)); err == nil && (v.Kind() == jsonx.Object || v.Kind() == jsonx.Array) {
		dst = appendLine(dst, v.Raw)
	} else {
		dst = jsonx.AppendString(dst, text)
	}
	return append(dst, "}\n</tool_response>"...)
}
