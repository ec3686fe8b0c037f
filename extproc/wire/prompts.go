package wire

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Prompts measure the input of OpenAI's formats that take more than one prompt in a request, each a text or a list of a model's tokens.
type Prompts struct {
	Count   int   // of prompts; a provider completes those that say nothing as well
	Tokens  int64 // those that are given as numbers
	numbers int64 // bytes of these
	text    int64 // bytes of the texts
	media   int64 // bound of the tokens of what is neither
}

// tokensPerPrompt are those that a tokenizer may put around each prompt.
const tokensPerPrompt = 2

// Empty reports whether none of the prompts says anything.
func (p *Prompts) Empty() bool { return p.text == 0 && p.Tokens == 0 }

// MeasurePrompts looks at a string, an array of strings, an array of numbers, or an array of arrays of numbers.
func MeasurePrompts(v jsonx.Value) (p Prompts) {
	if v.Kind() != jsonx.Array {
		p.add(v)
		return p
	}
	for _, e := range v.Each {
		if e.Kind() == jsonx.Number {
			p.list(v)
			return p
		}
		p.add(e)
	}
	return p
}

// add counts one prompt.
func (p *Prompts) add(v jsonx.Value) {
	switch v.Kind() {
	case jsonx.Array:
		p.list(v)
	case jsonx.Null:
		p.Count++
	case jsonx.String:
		p.Count++
		if len(v.Raw) > len(`""`) {
			p.text += int64(len(v.Raw))
		}
	default:
		p.Count++
		p.text += int64(len(v.Raw))
		p.media += named(v)
	}
}

// longestToken is how many bytes the number of a token has at most.
const longestToken = 16

// list counts a prompt that is a list of tokens. What is no number in it, or a longer one, is text to whoever takes it, and may be a
// prompt of its own.
func (p *Prompts) list(v jsonx.Value) {
	p.Count++
	for _, e := range v.Each {
		if e.Kind() == jsonx.Number && len(e.Raw) <= longestToken {
			p.Tokens++
			p.numbers += int64(len(e.Raw)) + 1 // and its comma
			continue
		}
		if e.Kind() != jsonx.Array {
			p.Count++
		}
		p.text += int64(len(e.Raw))
		p.media += named(e)
	}
}

// named bounds the tokens of what an object of a form of its own only names: {"image": "https://..."}. A part with a type, and one of
// parts, has its media counted with the text.
func named(v jsonx.Value) (n int64) {
	if v.Kind() != jsonx.Object || v.Get("type").Exists() || v.Get("content").Exists() {
		return 0
	}
	for key := range v.Members {
		switch string(key) {
		case "text", "image_url", "input_audio", "audio_url", "video_url": // text, and what is counted with it
		case "image":
			n += mostImage
		default:
			n += mostReference
		}
	}
	return n
}

// About estimates a request's input tokens. All of it is text, however long its words are.
func (p *Prompts) About() int64 {
	return (2*p.text+twoTokensOfText-1)/twoTokensOfText + p.Tokens + tokensPerRequest
}

// Most bounds a request's input tokens, by the bound that takes all of it for text: tokens that are given as numbers count as what they
// are, and a tokenizer may add some to each prompt.
func (p *Prompts) Most(text int64) int64 {
	return text - p.numbers/bytesOfTextPerToken + p.Tokens + tokensPerPrompt*int64(p.Count) + p.media
}

// AppendRenamed appends a provider's own bytes with another name of the model; "" leaves the provider's.
func AppendRenamed(dst, raw []byte, at chat.Span, model string) []byte {
	if model == "" || at.End <= at.Start || at.End > len(raw) {
		return append(dst, raw...)
	}
	quoted := jsonx.AppendString(nil, model)
	if bytes.Equal(raw[at.Start:at.End], quoted) {
		return append(dst, raw...)
	}
	dst = append(append(dst, raw[:at.Start]...), quoted...)
	return append(dst, raw[at.End:]...)
}
