package dual

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

// What costs more than its tokens, by format. Aggregators serve models of many vendors.
var (
	inOpenAI    = openai.Charges.With(provider.Aggregator()...)
	inAnthropic = anthropic.Charges.With(provider.Aggregator()...)
)

// Charges implements provider.Charging.
func (Formats) Charges(_ *policy.Resolution, _ provider.Endpoint, d chat.Dialect) provider.Charges {
	if d == chat.Anthropic {
		return inAnthropic
	}
	return inOpenAI
}
