package wire

import "bardo.money/gateway/internal/jsonx"

// Bytes per token of text, and tokens of images, at the upper end of what providers count. A token of English has about four bytes; tokens
// of code and of other scripts are shorter.
const (
	twoTokensOfText  = 7 // bytes: 3.5 each
	tokensPerOpaque  = 1600
	tokensPerRequest = 8
)

// InputTokens estimates a request's input tokens from the statistics of its body. Keys that are repeated in every message count as text,
// which covers a provider's overhead per message.
func InputTokens(s jsonx.Stats) int64 {
	return (2*s.TextBytes+twoTokensOfText-1)/twoTokensOfText + int64(s.Opaque)*tokensPerOpaque + tokensPerRequest
}
