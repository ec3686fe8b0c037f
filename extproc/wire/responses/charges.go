package responses

import "bardo.money/gateway/extproc/provider"

// Charges lists what costs more than its tokens in Responses: every tool that the caller does not run itself, except tool search, which
// searches only the request.
var Charges = provider.NewCharges([]provider.ChargedTool{
	{Type: "", By: provider.NoCharge},
	{Type: "function", By: provider.NoCharge},
	{Type: "custom", By: provider.NoCharge},
	{Type: "namespace", By: provider.NoCharge},
	{Type: "tool_search", By: provider.NoCharge},
	{Type: "local_shell", By: provider.NoCharge},
	{Type: "shell", By: provider.NoCharge}, // local by default
	{Type: "apply_patch", By: provider.NoCharge},
	{Type: "computer*", By: provider.NoCharge},
	{Type: "web_search*", By: provider.PerSearch},
}, provider.Common()...)
