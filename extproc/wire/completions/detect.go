// Package completions is the endpoint that old clients and those of either format share: it finds out which format a
// request to /v1/completions is written in, and serves the legacy form with a prompt as a conversation of one turn.
package completions

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Detect says in which format a body is written: chat.Anthropic when a top-level system prompt, a tool's input_schema or
// a content block of that format shows it, chat.Completions when there are no messages, else chat.OpenAI.
// A body that is not valid JSON is OpenAI's, whose dialect says what is wrong with it.
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

// isAnthropicBlock reports whether only that format has such a block: text blocks are the same in both.
func isAnthropicBlock(block jsonx.Value) bool {
	kind, _ := block.Get("type").Str()
	switch kind {
	case "tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image", "search_result":
		return true
	}
	return false
}
