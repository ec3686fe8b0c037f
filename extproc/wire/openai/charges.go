package openai

import "bardo.money/gateway/extproc/provider"

// Charges lists what costs more than its tokens in Chat Completions: every tool that the caller does not run itself.
var Charges = provider.NewCharges([]provider.ChargedTool{
	{Type: "", By: provider.NoCharge},
	{Type: "function", By: provider.NoCharge},
	{Type: "custom", By: provider.NoCharge},
	{Type: "web_search*", By: provider.PerSearch},
}, provider.Common()...)
