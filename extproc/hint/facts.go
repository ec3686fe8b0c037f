package hint

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Facts are what a request needs by what it holds. output is the most that may come of it, in tokens. Its conversation is parsed only
// where the model is left to the gateway, or where the bytes look as if there could be more than words or a schema in it; one that
// cannot be parsed has neither.
func Facts(r *chat.Request, output int64) intent.Facts {
	if r.Op == chat.Embed { // of a batch, each text has a window of its own
		return intent.Facts{Model: r.Model, Provider: policy.ProviderID(r.Provider)}
	}
	f := intent.Facts{
		Model: r.Model, Provider: policy.ProviderID(r.Provider), InputTokens: r.InputTokens, OutputTokens: output, MaxTokens: r.MaxTokens,
		Effort: effort(r), Tools: someTools(r),
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
	content(&f, c.System)
	for i := range c.Messages {
		content(&f, c.Messages[i].Parts)
	}
	if auto {
		if e, ok := policy.ParseEffort(c.Params.Effort); ok {
			f.Effort = e
		}
		f.SystemBytes = textBytes(c.System)
		userTexts(&f, c.Messages)
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

// contentMarks are what a body with content that is no words has somewhere, in each dialect.
var contentMarks = map[chat.Dialect][]string{
	chat.OpenAI:      {`"image_url"`, `"input_audio"`, `"audio_url"`, `"video_url"`, `"file_data"`},
	chat.Completions: nil,
	chat.Embeddings:  nil,
	chat.Anthropic:   {`"image"`, `"document"`},
	chat.Responses:   {`"input_image"`, `"input_file"`, `"input_audio"`},
	chat.Gemini:      {`"inlineData"`, `"inline_data"`, `"fileData"`, `"file_data"`},
}

func mayHaveContent(r *chat.Request) bool {
	return slices.ContainsFunc(contentMarks[r.Dialect], r.Doc.MayHold)
}

// content notes what parts hold besides words.
func content(f *intent.Facts, parts []chat.Part) {
	for i := range parts {
		switch p := &parts[i]; p.Kind { //nolint:exhaustive // the others are words, or nobody knows what
		case chat.PartImage:
			f.Images = true
		case chat.PartAudio:
			f.Audio = true
		case chat.PartVideo:
			f.Video = true
		case chat.PartDocument:
			f.Documents = f.Documents || !p.IsTextDocument()
		case chat.PartToolResult:
			content(f, p.Parts)
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

// userTexts notes the text of the user's last turn that has any, and of some before it: the first ones and the last ones.
func userTexts(f *intent.Facts, messages []chat.Message) {
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
			firstTexts(f.Earlier[:at], messages[:i])
			return
		}
	}
}

// firstTexts notes the user's first texts in the places that are there.
func firstTexts(into []string, messages []chat.Message) {
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

// textOf joins the texts of a turn by lines, as far as they are looked at. Clients cut a turn into parts, of which the first may hold what
// they say themselves: all of them count. One text alone is not copied.
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
