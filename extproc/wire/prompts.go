package wire

import (
	"bardo.money/gateway/internal/jsonx"
)

// Prompts measures the input of OpenAI's formats that accept several prompts in a request, each a text or a list of a model's tokens.
type Prompts struct {
	Count   int   // prompts; providers also complete empty ones
	Tokens  int64 // tokens that are given as numbers
	numbers int64 // bytes of these numbers
	text    int64 // bytes of the texts
	media   int64 // upper bound of the tokens of anything else
}

// tokensPerPrompt is the number of tokens that a tokenizer may add to each prompt.
const tokensPerPrompt = 2

// Empty reports whether all prompts are empty.
func (p *Prompts) Empty() bool { return p.text == 0 && p.Tokens == 0 }

// MeasurePrompts measures a string, an array of strings, an array of numbers, or an array of arrays of numbers.
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
		p.media += references(v)
	}
}

// longestToken is the maximum length of a token's number in bytes.
const longestToken = 16

// list counts a prompt that is a list of tokens. Other elements, and numbers over the maximum length, count as text; they may be separate
// prompts.
func (p *Prompts) list(v jsonx.Value) {
	p.Count++
	for _, e := range v.Each {
		if e.Kind() == jsonx.Number && len(e.Raw) <= longestToken {
			p.Tokens++
			p.numbers += int64(len(e.Raw)) + 1 // with its comma
			continue
		}
		if e.Kind() != jsonx.Array {
			p.Count++
		}
		p.text += int64(len(e.Raw))
		p.media += references(e)
	}
}

// references returns an upper bound of the tokens of what an object without a type refers to: {"image": "https://..."}. The media of a part
// with a type are counted with the text.
func references(v jsonx.Value) (n int64) {
	if v.Kind() != jsonx.Object || v.Get("type").Exists() || v.Get("content").Exists() {
		return 0
	}
	for key := range v.Members {
		switch string(key) {
		case "text", "image_url", "input_audio", "audio_url", "video_url": // counted with the text
		case "image":
			n += maxImage
		default:
			n += maxReference
		}
	}
	return n
}

// Estimate returns an estimate of a request's input tokens.
func (p *Prompts) Estimate() int64 {
	return (2*p.text+twoTokensOfText-1)/twoTokensOfText + p.Tokens + tokensPerRequest
}

// Bound returns an upper bound of a request's input tokens. text is the bound that counts the whole body as text: here tokens that are
// given as numbers count as one each, and a tokenizer may add some to each prompt.
func (p *Prompts) Bound(text int64) int64 {
	return text - p.numbers/bytesOfTextPerToken + p.Tokens + tokensPerPrompt*int64(p.Count) + p.media
}
