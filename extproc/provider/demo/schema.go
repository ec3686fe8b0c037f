package demo

import (
	"encoding/json"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// answerSchema returns the schema of the answer that a request requires: as its own parameter, as the input of a required tool, or in the
// prompt text that the gateway adds for models without schemas; nil for none.
func answerSchema(conv *chat.Conversation) (schema jsonx.Raw, tool string) {
	if len(conv.Params.Schema) > 0 {
		return conv.Params.Schema, ""
	}
	if conv.ToolChoice.Mode != chat.ToolNone {
		for i := range conv.Tools {
			if t := &conv.Tools[i]; strings.HasPrefix(t.Name, answers) && t.Raw == nil {
				return t.Schema, t.Name
			}
		}
	}
	_, rest, _ := strings.Cut(text(conv.System), promptPrefix)
	i := strings.IndexByte(rest, '{')
	if i < 0 || json.NewDecoder(strings.NewReader(rest[i:])).Decode((*json.RawMessage)(&schema)) != nil {
		return nil, ""
	}
	return schema, ""
}

const (
	answers      = "respond_" // prefix of the tools through which answers are returned
	promptPrefix = "espond ONLY with valid JSON matching this structure:"
)
