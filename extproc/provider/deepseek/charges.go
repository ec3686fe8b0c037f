package deepseek

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

// Charges are those of the format.
func (Adapter) Charges(*policy.Resolution, provider.Endpoint, chat.Dialect) provider.Charges {
	return wire.Charges
}
