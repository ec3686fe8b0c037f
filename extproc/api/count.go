package api

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/models/tokens"
	"bardo.money/gateway/policy"
)

// CountTokens answers a token count for a model, by the gateway's own count or by an estimate, which the answer states. It lacks the headers common
// to all answers.
func CountTokens(r *chat.Request, model policy.ModelID, h *stream.Head, estimate int64) stream.Reply {
	n, exact := tokensOf(r, model, estimate)
	body := []byte(`{"input_tokens":`)
	switch r.Dialect { //nolint:exhaustive // the others say it alike
	case chat.Responses:
		body = []byte(`{"object":"response.input_tokens","input_tokens":`)
	case chat.Gemini:
		body = []byte(`{"totalTokens":`)
	}
	reply := h.JSON(append(strconv.AppendInt(body, n, 10), '}'))
	if !exact {
		reply.Header = append(reply.Header, header.Field{Name: "x-bardo-degraded", Value: "estimated"})
	}
	return reply
}

// tokensOf returns the number of a request's input tokens. It is exact for text-only conversations with OpenAI's models of vocabulary o200k; with
// tools, their texts are counted, but not what the provider adds. All others are estimated, corrected by providers' counts of earlier requests.
func tokensOf(r *chat.Request, model policy.ModelID, estimate int64) (n int64, exact bool) {
	if !tokens.Uses(string(model)) || len(r.Doc.Bytes) > maxCounted {
		return estimate, false
	}
	c, err := r.Conversation()
	if err != nil {
		return estimate, false
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
		return estimate, false
	}
	for i := range c.Tools {
		t := &c.Tools[i]
		n += int64(tokens.Count(t.Name) + tokens.Count(t.Description) + tokens.Count(string(t.Schema)))
		exact = false
	}
	return n, exact
}

// Tokens that OpenAI's chat format adds per message, and at the start of the answer.
const (
	tokensPerMessage = 3
	tokensPerAnswer  = 3
)

// maxCounted is the maximum size of a request whose tokens are counted, in bytes: about 0.1 s. Longer ones are estimated.
const maxCounted = 1 << 20
