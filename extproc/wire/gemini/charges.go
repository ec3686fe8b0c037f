package gemini

import "bardo.money/gateway/extproc/provider"

// Charges lists what costs more than its tokens in Google's format: every tool that the caller does not run itself.
var Charges = func() provider.Charges {
	c := provider.NewCharges([]provider.ChargedTool{
		{Type: "functionDeclarations", By: provider.NoCharge},
		{Type: "computerUse", By: provider.NoCharge},
		{Type: "googleSearch", By: provider.PerSearch},
		{Type: "googleSearchRetrieval", By: provider.PerSearch},
	},
		provider.Top("serviceTier", provider.PerTier),
		provider.ChargedMember{Path: []string{"generationConfig", "responseModalities"}, Free: []string{"text"}},
	)
	c.Keyed = true
	return c
}()
