package catalog

import (
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// WithKinds returns the same catalog with the prompt-cache terms of kinds of providers. A provider has the terms of the kind with its name.
func (c *Catalog) WithKinds(kinds ...kind.Kind) *Catalog {
	out := *c
	out.caches = make(map[policy.ProviderID]kind.PromptCache, len(kinds))
	for i := range kinds {
		out.caches[policy.ProviderID(kinds[i].Name)] = kinds[i].PromptCache
	}
	return &out
}

// CacheTerms returns the terms of a provider's prompt cache for the models of a family.
func (c *Catalog) CacheTerms(p policy.ProviderID, family string) kind.CacheTerms {
	cache := c.caches[p]
	if cache.OfVendor {
		cache = c.caches[c.vendorOfFamily(family)]
	}
	if terms, ok := cache.Families[family]; ok {
		return terms
	}
	return cache.Terms
}

// writePrice returns the price of writing tokens to a cache.
func writePrice(t kind.CacheTerms, input policy.Price) policy.Price {
	return input + input*policy.Price(t.WritePremium)/100
}
