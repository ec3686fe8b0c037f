package catalog

import (
	"time"

	"bardo.money/gateway/policy"
)

// Caching is what a provider's cache of prompts saves, costs and keeps, where neither the model's entry nor the provider's list says it.
// The zero value is of a provider whose terms are those of the provider behind it, or of which nothing is known.
type Caching struct {
	LeastDiscount, Discount int           // percent of the input's price that reading from it saves, at least and at most
	WritePremium            int           // percent of the input's price that writing to it costs beyond that
	MinTokens               int           // of the shortest beginning that is kept
	TTL, MaxTTL             time.Duration // since the last use, at least and at most
	Marks                   bool          // it keeps what a request marks; else what it finds by itself
}

const anthropicMin, prefixMin = 4000, 1024

// The terms by provider. Bankr and BlockRun pass those of the model's own vendor on.
var (
	claudeCaching = Caching{
		LeastDiscount: 90, Discount: 90, WritePremium: 25, MinTokens: anthropicMin, TTL: 5 * time.Minute, MaxTTL: 5 * time.Minute, Marks: true,
	}
	veniceCaching = Caching{LeastDiscount: 50, Discount: 90, MinTokens: prefixMin, TTL: 5 * time.Minute, MaxTTL: 5 * time.Minute}
	openAICaching = Caching{LeastDiscount: 90, Discount: 90, MinTokens: prefixMin, TTL: 5 * time.Minute, MaxTTL: 10 * time.Minute}
)

// CachingAt are the terms of the cache of a provider for the models of a family.
func CachingAt(p policy.ProviderID, family string) Caching {
	const venice, bankr, blockRun = "venice", "bankr", "blockrun"
	if p == bankr || p == blockRun {
		p = vendors[family]
	}
	switch {
	case p == "anthropic", p == venice && family == "claude":
		return claudeCaching
	case p == venice:
		return veniceCaching
	case p == "openai":
		return openAICaching
	}
	return Caching{}
}

// write is the price of writing to the cache, of the input's.
func (c Caching) write(input policy.Price) policy.Price {
	return input + input*policy.Price(c.WritePremium)/100
}
