package client

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/policy"
)

// Quotes are the prices that servers named for requests that they served: a like request is paid for with its first message. Safe for concurrent use.
type Quotes struct{ known *lru.Cache[string, quote] }

// quote is a price that was accepted.
type quote struct {
	offer Offer
	asset Asset
	size  policy.Micro // of its request
	until time.Time
}

// Bounds of what is remembered.
const (
	mostQuotes = 1024
	quoteTime  = time.Hour
	leastSize  = 80 // percent of the size of a quote's request, that a like one has at least: a small one would be paid too much
)

// NewQuotes remembers none yet.
func NewQuotes() *Quotes {
	known, _ := lru.New[string, quote](mostQuotes) // fails for sizes below 1 only
	return &Quotes{known}
}

// find is a price that covers a request.
func (q *Quotes) find(r *Request, now time.Time) (quote, bool) {
	if q == nil || r.Like == "" {
		return quote{}, false
	}
	got, ok := q.known.Get(r.Like)
	return got, ok && now.Before(got.until) && r.Size <= got.size && r.Size >= got.size/100*leastSize
}

func (q *Quotes) note(r *Request, o *Offer, a Asset, now time.Time) {
	if q != nil && r.Like != "" {
		q.known.Add(r.Like, quote{*o, a, r.Size, now.Add(quoteTime)})
	}
}

func (q *Quotes) drop(r *Request) {
	if q != nil {
		q.known.Remove(r.Like)
	}
}
