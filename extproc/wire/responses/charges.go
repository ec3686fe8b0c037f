package responses

import "bardo.money/gateway/extproc/provider"

// Charges lists what costs more than its tokens in Responses: every tool that the caller does not run itself, except tool search, which
// searches only the request.
var Charges = provider.NewCharges([]provider.ChargedTool{
	{Type: "", By: provider.Nothing},
	{Type: "function", By: provider.Nothing},
	{Type: "custom", By: provider.Nothing},
	{Type: "namespace", By: provider.Nothing},
	{Type: "tool_search", By: provider.Nothing},
	{Type: "local_shell", By: provider.Nothing},
	{Type: "shell", By: provider.Nothing}, // local by default
	{Type: "apply_patch", By: provider.Nothing},
	{Type: "computer*", By: provider.Nothing},
	{Type: "web_search*", By: provider.PerSearch},
}, provider.Common()...)
