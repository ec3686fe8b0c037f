package anthropic

import "bardo.money/gateway/extproc/provider"

// Charges lists what costs more than its tokens in the Messages API: every tool that the caller does not run itself, except tool search,
// which searches only the request.
var Charges = provider.NewCharges([]provider.ChargedTool{
	{Type: "", By: provider.NoCharge},
	{Type: "custom", By: provider.NoCharge},
	{Type: "bash_*", By: provider.NoCharge},
	{Type: "text_editor_*", By: provider.NoCharge},
	{Type: "computer_*", By: provider.NoCharge},
	{Type: "memory_*", By: provider.NoCharge},
	{Type: "tool_search_tool_*", By: provider.NoCharge},
	{Type: "web_search_*", By: provider.PerSearch},
}, provider.Common()...)
