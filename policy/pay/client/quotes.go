package client

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/policy"
)

// Quotes caches the prices of served requests: a similar request is sent with a payment immediately. Safe for concurrent use.
type Quotes struct{ cache *lru.Cache[string, quote] }

// quote is an accepted price.
type quote struct {
	offer Offer
	asset Asset
	size  policy.Micro // estimated price of its request
	until time.Time
}

// Bounds of cached prices.
const (
	maxQuotes      = 1024
	quoteTime      = time.Hour
	minSizePercent = 80 // minimum size of a similar request, in percent of the cached one's: a smaller one would pay too much
)

// NewQuotes returns an empty cache.
func NewQuotes() *Quotes {
	known, _ := lru.New[string, quote](maxQuotes) // fails for sizes below 1 only
	return &Quotes{known}
}

// find returns a cached price that covers a request.
func (q *Quotes) find(r *Request, now time.Time) (quote, bool) {
	if q == nil || r.SimilarKey == "" {
		return quote{}, false
	}
	got, ok := q.cache.Get(r.SimilarKey)
	return got, ok && now.Before(got.until) && r.Size <= got.size && r.Size >= got.size/100*minSizePercent
}

func (q *Quotes) add(r *Request, o *Offer, a Asset, now time.Time) {
	if q != nil && r.SimilarKey != "" {
		q.cache.Add(r.SimilarKey, quote{*o, a, r.Size, now.Add(quoteTime)})
	}
}

func (q *Quotes) drop(r *Request) {
	if q != nil {
		q.cache.Remove(r.SimilarKey)
	}
}
