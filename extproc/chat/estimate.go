package chat

import "bardo.money/gateway/internal/jsonx"

// How much text and data make a token, so that an estimate is seldom below what a provider counts: English prose has
// about four bytes to a token, code and JSON three; the dearest common image costs about 1,600.
const (
	bytesPerToken   = 3
	tokensPerOpaque = 1600
)

// EstimateTokens is about how many tokens a request's body has, counted from its text alone.
func EstimateTokens(s jsonx.Stats) int64 {
	return (s.TextBytes+bytesPerToken-1)/bytesPerToken + int64(s.Opaque)*tokensPerOpaque
}
