package venice

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

// charges are those of the format and of Venice's own parameters: each search, and each page that is read, has a price.
var charges = wire.Charges.With(
	provider.ChargedMember{Path: []string{parametersKey, keyWebSearch}, By: provider.PerSearch, Free: []string{"off", "false"}},
	provider.ChargedMember{Path: []string{parametersKey, "enable_web_scraping"}},
	provider.ChargedMember{Path: []string{parametersKey, "enable_x_search"}},
)

// Charges implements provider.Charging.
func (Adapter) Charges(*policy.Resolution, provider.Endpoint, chat.Dialect) provider.Charges {
	return charges
}
