package wire

import "bardo.money/gateway/internal/jsonx"

// What a text and an image cost in tokens, at the upper end of what providers count. A token of English is about four
// bytes, of code and of other scripts fewer.
const (
	twoTokensOfText  = 7 // bytes: 3.5 each
	tokensPerOpaque  = 1600
	tokensPerRequest = 8
)

// InputTokens estimates the input tokens of a request from its body's statistics. The keys that every message repeats
// are counted with the text, which covers a provider's overhead per message.
func InputTokens(s jsonx.Stats) int64 {
	return (2*s.TextBytes+twoTokensOfText-1)/twoTokensOfText + int64(s.Opaque)*tokensPerOpaque + tokensPerRequest
}
