package openai

import "bardo.money/gateway/extproc/provider"

// Charges lists what costs more than its tokens in Chat Completions: every tool that the caller does not run itself.
var Charges = provider.NewCharges([]provider.ChargedTool{
	{Type: "", By: provider.Nothing},
	{Type: "function", By: provider.Nothing},
	{Type: "custom", By: provider.Nothing},
	{Type: "web_search*", By: provider.PerSearch},
}, provider.Common()...)
