package wire_test

import (
	"fmt"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

func TestPicturesOfAnswers(t *testing.T) {
	for about, row := range map[string]struct{ id, text, want string }{
		"Gemini's":                  {"inlineData", `{"inlineData":{"mimeType":"image/png","data":"QQ=="},"thoughtSignature":"s"}`, "[{image/png QQ==}]"},
		"Gemini's in snake case":    {"inlineData", `{"inline_data":{"mime_type":"image/webp","data":"QQ=="}}`, "[{image/webp QQ==}]"},
		"of a thought":              {"inlineData", `{"thought":true,"inlineData":{"mimeType":"image/png","data":"QQ=="}}`, "[]"},
		"a sound":                   {"inlineData", `{"inlineData":{"mimeType":"audio/wav","data":"QQ=="}}`, "[]"},
		"no data":                   {"inlineData", `{"inlineData":{"mimeType":"image/png"}}`, "[]"},
		"OpenAI's":                  {"image_generation_call", `{"type":"image_generation_call","result":"QQ==","output_format":"jpeg"}`, "[{image/jpeg QQ==}]"},
		"OpenAI's without a format": {"image_generation_call", `{"type":"image_generation_call","result":"QQ=="}`, "[{image/png QQ==}]"},
		"one that failed":           {"image_generation_call", `{"type":"image_generation_call","result":null}`, "[]"},
		"OpenRouter's": {
			"images", `[{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}},{"image_url":{"url":"data:image/gif;base64,Qg=="}}]`, "[{image/png QQ==} {image/gif Qg==}]",
		},
		"at a URL":     {"images", `[{"image_url":{"url":"data:image/png;base64,QQ=="}},{"image_url":{"url":"https://example.com/a.png"}}]`, "[]"},
		"another kind": {"audio", `{"data":"QQ=="}`, "[]"},
	} {
		if got := fmt.Sprint(wire.PicturesIn(&chat.Event{Kind: chat.Extra, ID: row.id, Text: []byte(row.text)})); got != row.want {
			t.Errorf("%s: %s", about, got)
		}
	}
	if got := wire.PicturesIn(&chat.Event{Kind: chat.Text, ID: "images", Text: []byte(`[{"image_url":{"url":"data:image/png;base64,QQ=="}}]`)}); got != nil {
		t.Errorf("in a text: %v", got)
	}
}
