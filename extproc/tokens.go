package extproc

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/models/tokens"
)

// maxCounted is the longest request whose tokens are counted, in bytes: about 0.1 s. Longer ones are estimated.
const maxCounted = 1 << 20

// The tokens that OpenAI's chat format adds to each message, and to the answer's beginning.
const (
	tokensPerMessage = 3
	tokensPerAnswer  = 3
)

// countTokens is the number of the request's input tokens. It is exact for a conversation of text alone, if the first candidate is a model of OpenAI's with the
// vocabulary o200k; of one with tools, the texts are counted, but not what the provider adds. All others are estimated.
func (x *exchange) countTokens() (n int64, exact bool) {
	if !tokens.Uses(string(x.Order[0].Model)) || len(x.Request.Doc.Bytes) > maxCounted {
		return x.Request.InputTokens, false
	}
	c, err := x.Request.Conversation()
	if err != nil {
		return x.Request.InputTokens, false
	}
	exact, n = true, tokensPerAnswer
	add := func(role chat.Role, parts []chat.Part) bool {
		n += tokensPerMessage + int64(tokens.Count(string(role)))
		for i := range parts {
			switch p := &parts[i]; p.Kind {
			case chat.PartText, chat.PartRefusal:
				n += int64(tokens.Count(p.Text))
			default:
				return false
			}
		}
		return true
	}
	ok := len(c.System) == 0 || add("system", c.System)
	for i := range c.Messages {
		ok = ok && add(c.Messages[i].Role, c.Messages[i].Parts)
	}
	if !ok {
		return x.Request.InputTokens, false
	}
	for i := range c.Tools {
		t := &c.Tools[i]
		n += int64(tokens.Count(t.Name) + tokens.Count(t.Description) + tokens.Count(string(t.Schema)))
		exact = false
	}
	return n, exact
}
