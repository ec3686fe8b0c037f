// Package completions is the endpoint /v1/completions. It detects the format of a request, which is the legacy one or one of two current
// ones, and serves a legacy prompt as a conversation of one turn.
package completions

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Detect returns the dialect of a body: chat.Anthropic if it has a top-level system prompt, a tool's input_schema or a content block of that
// format, chat.Completions if it has no messages, else chat.OpenAI. A body that is not valid JSON is OpenAI's, whose decoder reports the
// error.
func Detect(body []byte) chat.Dialect {
	doc, err := jsonx.Scan(body)
	switch {
	case err != nil:
		return chat.OpenAI
	case isAnthropic(&doc):
		return chat.Anthropic
	case doc.Find("messages") < 0:
		return chat.Completions
	}
	return chat.OpenAI
}

func isAnthropic(doc *jsonx.Doc) bool {
	if !doc.Get("system").IsNull() || !doc.Get("stop_sequences").IsNull() {
		return true
	}
	for _, tool := range doc.Get("tools").Each {
		return tool.Get("input_schema").Exists()
	}
	for _, m := range doc.Get("messages").Each {
		for _, block := range m.Get("content").Each {
			if isAnthropicBlock(block) {
				return true
			}
		}
	}
	return false
}

// isAnthropicBlock reports whether a block is of Anthropic's format only: text blocks are the same in both.
func isAnthropicBlock(block jsonx.Value) bool {
	kind, _ := block.Get("type").Str()
	switch kind {
	case "tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image", "search_result":
		return true
	}
	return false
}
