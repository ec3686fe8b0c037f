package wire

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Prompts measure the input of OpenAI's formats that take more than one prompt in a request, each a text or a list of a model's tokens.
type Prompts struct {
	Count   int   // of prompts
	Tokens  int64 // those that are given as numbers
	numbers int64 // bytes of the lists of numbers
	text    int64 // bytes of the texts
}

// tokensPerPrompt are those that a tokenizer may put around each prompt.
const tokensPerPrompt = 2

// MeasurePrompts looks at a string, an array of strings, an array of numbers, or an array of arrays of numbers. Empty texts and lists count
// for nothing.
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
	switch v.Kind() { //nolint:exhaustive // anything else is a prompt of a form of its own
	case jsonx.Array:
		p.list(v)
	case jsonx.String:
		if len(v.Raw) > len(`""`) {
			p.Count++
			p.text += int64(len(v.Raw))
		}
	case jsonx.Null:
	default:
		p.Count++
		p.text += int64(len(v.Raw))
	}
}

// list counts a prompt that is a list of tokens.
func (p *Prompts) list(v jsonx.Value) {
	n := int64(0)
	for range v.Each {
		n++
	}
	if n == 0 {
		return
	}
	p.Count++
	p.Tokens += n
	p.numbers += int64(len(v.Raw))
}

// About estimates a request's input tokens. All of it is text, however long its words are.
func (p *Prompts) About() int64 {
	return (2*p.text+twoTokensOfText-1)/twoTokensOfText + p.Tokens + tokensPerRequest
}

// Most bounds a request's input tokens, by the bound that takes all of it for text: tokens that are given as numbers count as what they
// are, and a tokenizer may add some to each prompt.
func (p *Prompts) Most(text int64) int64 {
	return text - p.numbers/bytesOfTextPerToken + p.Tokens + tokensPerPrompt*int64(p.Count)
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
