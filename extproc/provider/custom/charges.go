package custom

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/policy"
)

// What costs more than its tokens, by format. The server may be an aggregator.
var (
	inOpenAI    = openai.Charges.With(provider.Aggregator()...)
	inAnthropic = anthropic.Charges.With(provider.Aggregator()...)
	inResponses = responses.Charges.With(provider.Aggregator()...)
)

// Charges implements provider.Charging.
func (Adapter) Charges(_ *policy.Resolution, _ provider.Endpoint, d chat.Dialect) provider.Charges {
	switch d { //nolint:exhaustive // the rest is OpenAI's
	case chat.Anthropic:
		return inAnthropic
	case chat.Responses:
		return inResponses
	case chat.Gemini:
		return gemini.Charges
	}
	return inOpenAI
}
