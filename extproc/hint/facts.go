package hint

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Facts are what a request needs by what it holds. output is the most that may come of it, in tokens. Its conversation is parsed only
// where the model is left to the gateway, or where the bytes look as if there could be images or a schema in it; one that cannot be
// parsed has neither.
func Facts(r *chat.Request, output int64) intent.Facts {
	f := intent.Facts{
		Model: r.Model, Provider: policy.ProviderID(r.Provider), InputTokens: r.InputTokens, OutputTokens: output, MaxTokens: r.MaxTokens,
		Effort: effort(r), Tools: someTools(r),
	}
	auto := intent.Auto(r.Model)
	if !auto && !mayHaveSchema(r) && !mayHaveImages(r) {
		return f
	}
	c, err := r.Conversation()
	if err != nil {
		return f
	}
	f.Schema, f.Images, f.Tools = len(c.Params.Schema) > 0, hasImages(c), len(c.Tools)
	if auto {
		if e, ok := policy.ParseEffort(c.Params.Effort); ok {
			f.Effort = e
		}
		f.SystemBytes, f.Text = textBytes(c.System), newestText(c)
	}
	return f
}

// effort is what the caller asks for, as far as a request's scalars tell.
func effort(r *chat.Request) policy.Effort {
	switch {
	case r.HighEffort:
		return policy.EffortHigh
	case r.Thinking:
		return policy.EffortMedium
	}
	return policy.EffortUnsaid
}

// someTools is 1 when there is a tool: how many there are matters only to what parses the conversation.
func someTools(r *chat.Request) int {
	for _, member := range []string{"tools", "functions"} {
		for range r.Doc.Get(member).Each {
			return 1
		}
	}
	return 0
}

// schemaMembers are where the dialects have the schema of an answer.
var schemaMembers = []string{"response_format", "output_config", "output_format", "text", "generationConfig", "generation_config"}

func mayHaveSchema(r *chat.Request) bool {
	for _, m := range schemaMembers {
		if r.Doc.Get(m).Kind() == jsonx.Object {
			return true
		}
	}
	return false
}

// imageMarks are what a body with an image has somewhere, in each dialect.
var imageMarks = map[chat.Dialect][][]byte{
	chat.OpenAI:      {[]byte(`"image_url"`)},
	chat.Completions: nil, // its requests are of OpenAI's
	chat.Anthropic:   {[]byte(`"image"`)},
	chat.Responses:   {[]byte(`"input_image"`)},
	chat.Gemini:      {[]byte(`"inlineData"`), []byte(`"inline_data"`), []byte(`"fileData"`), []byte(`"file_data"`)},
}

func mayHaveImages(r *chat.Request) bool {
	for _, mark := range imageMarks[r.Dialect] {
		if bytes.Contains(r.Doc.Bytes, mark) {
			return true
		}
	}
	return false
}

func hasImages(c *chat.Conversation) bool {
	for i := range c.Messages {
		if imagesIn(c.Messages[i].Parts) {
			return true
		}
	}
	return false
}

func imagesIn(parts []chat.Part) bool {
	for i := range parts {
		if parts[i].Kind == chat.PartImage || imagesIn(parts[i].Parts) {
			return true
		}
	}
	return false
}

func textBytes(parts []chat.Part) int {
	n := 0
	for i := range parts {
		n += len(parts[i].Text)
	}
	return n
}

// newestText is the first text of the user's last turn.
func newestText(c *chat.Conversation) string {
	for _, m := range slices.Backward(c.Messages) {
		if m.Role != chat.RoleUser {
			continue
		}
		for i := range m.Parts {
			if p := &m.Parts[i]; p.Kind == chat.PartText && p.Text != "" {
				return p.Text
			}
		}
	}
	return ""
}
