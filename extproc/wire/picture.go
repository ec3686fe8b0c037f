package wire

import (
	"cmp"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// The Extras that hold images of an answer.
const (
	geminiPicture    = "inlineData"            // a part of Gemini's
	openAIPicture    = "image_generation_call" // an item of Responses
	ChatPictures     = "images"                // OpenRouter's member of a message in Chat Completions, which LiteLLM and its clients have too
	pictureMediaType = "image/"
)

// Picture is an image in a model's answer: its media type, and its data in base64.
type Picture struct{ Media, Data string }

// PicturesIn returns the images in an Extra of any dialect; nil if there is none, or one that is not in the answer itself but at a URL or in the
// model's thoughts.
func PicturesIn(ev *chat.Event) (ps []Picture) {
	if ev.Kind != chat.Extra {
		return nil
	}
	add := func(media string, data jsonx.Value) {
		if text, ok := data.Str(); ok && text != "" && strings.HasPrefix(media, pictureMediaType) {
			ps = append(ps, Picture{Media: media, Data: text})
		}
	}
	v := jsonx.Value{Raw: ev.Text}
	switch ev.ID {
	case geminiPicture:
		blob := either(v, "inlineData", "inline_data")
		media, _ := either(blob, "mimeType", "mime_type").Str()
		if thought, _ := v.Get("thought").Bool(); !thought {
			add(media, blob.Get("data"))
		}
	case openAIPicture:
		format, _ := v.Get("output_format").Str()
		add(pictureMediaType+cmp.Or(format, "png"), v.Get("result"))
	case ChatPictures:
		for _, e := range v.Each {
			u, _ := e.Get("image_url").Get("url").Str()
			p := PartOfURL(chat.PartImage, u)
			if p.Kind != chat.PartImage || p.Data == "" {
				return nil
			}
			ps = append(ps, Picture{Media: p.Media, Data: p.Data})
		}
	}
	return ps
}

// either returns a member by its camel-case or snake-case name.
func either(object jsonx.Value, camel, snake string) jsonx.Value {
	if v := object.Get(camel); v.Exists() {
		return v
	}
	return object.Get(snake)
}
