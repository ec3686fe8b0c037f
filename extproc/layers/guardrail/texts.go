package guardrail

import (
	"errors"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/jsonx"
)

// textsOf are the texts of a request.
func textsOf(t *transcript.Transcript) []text {
	out := make([]text, len(t.Texts))
	for i := range t.Texts {
		at := &t.Texts[i]
		out[i] = text{Index: i, Role: string(chat.RoleSystem), Kind: at.Kind.String(), Text: t.String(i)}
		if at.Turn >= 0 {
			out[i].Role = string(t.Turns[at.Turn].Role)
		}
	}
	return out
}

var (
	errThinking = errors.New("thinking may be signed, and cannot be replaced")
	errNotJSON  = errors.New("this text is JSON, and its replacement is not")
)

// replaceIn replaces texts of a request. Structured arguments and results can only be replaced by JSON of the same type.
func replaceIn(t *transcript.Transcript, list []replacement) error {
	for _, r := range list {
		at := &t.Texts[*r.Index]
		if at.Kind == transcript.Thinking {
			return errThinking
		}
		if at.Value.Kind() == jsonx.String {
			t.Set(*r.Index, *r.Text)
			continue
		}
		v, err := jsonx.Parse([]byte(*r.Text))
		if err != nil || v.Kind() != at.Value.Kind() {
			return errNotJSON
		}
		t.Replace(at.Value, v.Raw)
	}
	return nil
}
