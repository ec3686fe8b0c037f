package bankr

import (
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{
		Name:        a.Name(),
		Section:     kind.OwnSection,
		BaseURL:     "https://llm.bankr.bot/v1",
		Variables:   []string{"BANKR_API_KEY"},
		Format:      "openai",
		PromptCache: kind.PromptCache{OfVendor: true},
		Traits: kind.Traits{
			Lacks: policy.VendorFeatures(),
			Gives: []policy.Feature{policy.SelfFunding, policy.CrossVerify},
			First: kind.ForWallet,
			Rank:  2,
		},
	}
}
