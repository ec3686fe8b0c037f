package hint

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Facts derives from a request's content what it needs of a model. output is the maximum of output tokens. The conversation is only parsed for
// model auto, or if the body may contain a schema or media; if it cannot be parsed, it has neither.
func Facts(r *chat.Request, output int64) intent.Facts {
	if r.Op == chat.Embed || r.Op == chat.Modality { // each text of a batch has its own context window
		return intent.Facts{Model: r.Model, Provider: policy.ProviderID(r.Provider)}
	}
	f := intent.Facts{
		Model: r.Model, Provider: policy.ProviderID(r.Provider), InputTokens: r.InputTokens, OutputTokens: output, MaxTokens: r.MaxTokens,
		Effort: effort(r), Tools: hasTools(r),
	}
	auto := intent.Auto(r.Model)
	if !auto && !mayHaveSchema(r) && !mayHaveContent(r) {
		return f
	}
	c, err := r.Conversation()
	if err != nil {
		return f
	}
	f.Schema, f.Tools = len(c.Params.Schema) > 0, len(c.Tools)
	addContent(&f, c.System)
	for i := range c.Messages {
		addContent(&f, c.Messages[i].Parts)
	}
	if auto {
		if e, ok := policy.ParseEffort(c.Params.Effort); ok {
			f.Effort = e
		}
		f.SystemBytes = textBytes(c.System)
		addUserTexts(&f, c.Messages)
	}
	return f
}

// effort returns the reasoning effort, as far as it is known without parsing the conversation.
func effort(r *chat.Request) policy.Effort {
	switch {
	case r.HighEffort:
		return policy.EffortHigh
	case r.Thinking:
		return policy.EffortMedium
	}
	return policy.EffortUnset
}

// hasTools is 1 if the request has tools. Their number is only counted when the conversation is parsed.
func hasTools(r *chat.Request) int {
	for _, member := range []string{"tools", "functions"} {
		for range r.Doc.Get(member).Each {
			return 1
		}
	}
	if r.Doc.MayHoldValue(&additionalTools) {
		for _, item := range r.Doc.Get("input").Each {
			if kind := item.Get("type"); kind.Equal("additional_tools") || kind.Equal("tool_search_output") {
				return 1
			}
		}
	}
	return 0
}

// additionalTools are the types of items of the Responses API with tools.
var additionalTools = jsonx.WordsOf("additional_tools", "tool_search_output")

// schemaMembers are the members with the schema of the answer, in any dialect.
var schemaMembers = []string{"response_format", "output_config", "output_format", "text", "generationConfig", "generation_config"}

func mayHaveSchema(r *chat.Request) bool {
	for _, m := range schemaMembers {
		if r.Doc.Get(m).Kind() == jsonx.Object {
			return true
		}
	}
	return false
}

// contentMarks are names and types that a body with media has, by dialect.
var contentMarks = map[chat.Dialect]jsonx.Words{
	chat.OpenAI:      jsonx.WordsOf("image_url", "input_audio", "audio_url", "video_url", "file_data"),
	chat.Completions: {},
	chat.Embeddings:  {},
	chat.Anthropic:   jsonx.WordsOf("image", "document"),
	chat.Responses:   jsonx.WordsOf("input_image", "input_file", "input_audio"),
	chat.Gemini:      jsonx.WordsOf("inlineData", "inline_data", "fileData", "file_data"),
}

func mayHaveContent(r *chat.Request) bool {
	marks := contentMarks[r.Dialect]
	return r.Doc.MayHold(&marks)
}

// addContent adds the media in parts, except what a model made: it is sent only to models that accept it.
func addContent(f *intent.Facts, parts []chat.Part) {
	for i := range parts {
		switch p := &parts[i]; p.Kind { //nolint:exhaustive // the others are text or unknown
		case chat.PartImage:
			f.Images = f.Images || !p.Trace
		case chat.PartAudio:
			f.Audio = true
		case chat.PartVideo:
			f.Video = true
		case chat.PartDocument:
			f.Documents = f.Documents || !p.IsTextDocument()
		case chat.PartToolResult:
			addContent(f, p.Parts)
		}
	}
}

func textBytes(parts []chat.Part) int {
	n := 0
	for i := range parts {
		n += len(parts[i].Text)
	}
	return n
}

// addUserTexts adds the text of the last user message that has any, and of some earlier ones: the first and the last.
func addUserTexts(f *intent.Facts, messages []chat.Message) {
	at := len(f.Earlier)
	for i, m := range slices.Backward(messages) {
		if m.Role != chat.RoleUser {
			continue
		}
		text := textOf(m.Parts)
		switch {
		case strings.TrimSpace(text) == "":
		case f.Text == "":
			f.Text = text
		default:
			at--
			f.Earlier[at] = text[:min(len(text), intent.ReadTurn)]
		}
		if at == len(f.Earlier)/2 {
			addFirstTexts(f.Earlier[:at], messages[:i])
			return
		}
	}
}

// addFirstTexts fills into with the user's first texts.
func addFirstTexts(into []string, messages []chat.Message) {
	for i := range messages {
		if len(into) == 0 {
			return
		}
		if messages[i].Role != chat.RoleUser {
			continue
		}
		if text := textOf(messages[i].Parts); text != "" {
			into[0], into = text[:min(len(text), intent.ReadTurn)], into[1:]
		}
	}
}

// textOf joins a message's text parts with line breaks, up to intent.ReadText bytes. All parts count, because clients put their own context
// into the first one. A single text is not copied.
func textOf(parts []chat.Part) (text string) {
	for i := range parts {
		p := &parts[i]
		if p.Kind != chat.PartText || p.Text == "" {
			continue
		}
		if text == "" {
			text = p.Text
			continue
		}
		if len(text) >= intent.ReadText {
			break
		}
		text += "\n" + p.Text[:min(len(p.Text), intent.ReadText)]
	}
	return text
}
