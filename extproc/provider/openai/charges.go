package openai

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/policy"
)

// Charges are those of the format. The older web search has a different price for models that do not reason.
func (Adapter) Charges(to *policy.Resolution, _ provider.Endpoint, d chat.Dialect) provider.Charges {
	if d != chat.Responses {
		return wire.Charges
	}
	c := responses.Charges
	if to.Control == policy.ControlNone {
		c.Tools = slices.Concat([]provider.ChargedTool{{Type: "web_search_preview*"}}, c.Tools)
	}
	return c
}
