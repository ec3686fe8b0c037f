package anthropic

import "bardo.money/gateway/extproc/provider"

// Charges lists what costs more than its tokens in the Messages API: every tool that the caller does not run itself, except tool search,
// which searches only the request.
var Charges = provider.NewCharges([]provider.ChargedTool{
	{Type: "", By: provider.Nothing},
	{Type: "custom", By: provider.Nothing},
	{Type: "bash_*", By: provider.Nothing},
	{Type: "text_editor_*", By: provider.Nothing},
	{Type: "computer_*", By: provider.Nothing},
	{Type: "memory_*", By: provider.Nothing},
	{Type: "tool_search_tool_*", By: provider.Nothing},
	{Type: "web_search_*", By: provider.PerSearch},
}, provider.Common()...)
