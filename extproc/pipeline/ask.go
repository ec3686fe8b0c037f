package pipeline

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// SideCall is a bounded call of a cheap model that a layer makes for a request, such as a summary of its history.
type SideCall struct {
	Layer     string // the layer's name, for the request's record
	System    string // the instructions
	Text      string // the user message
	MaxTokens int    // of the answer
	Timeout   time.Duration
	MaxCost   policy.Pico    // maximum cost of the call at its provider; 0: any
	Worth     policy.Pico    // what the answer saves: models whose expected cost is higher are not called; 0: any
	Quality   policy.Quality // minimum class of the model
}

// SideAnswer is the answer to a side call.
type SideAnswer struct {
	Text     string
	Complete bool // it ended by itself, not at its limit
	By       policy.Resolution
	Usage    chat.Usage
	Cost     policy.Pico // provider cost
}

// SideOffer is the candidate that would answer a side call.
type SideOffer struct {
	To      policy.Resolution
	MaxCost policy.Pico // maximum cost at its provider's prices
}

// SideCaller makes side calls for one exchange. The data path implements it.
//
// A call only goes to a provider that the request may use, subject to its security class, privacy tier, key restrictions and named provider (D-05),
// through Envoy like any call (D-63). It is reserved beforehand, is on the request's bill and in its record, and its outcome counts for the
// provider's health.
type SideCaller interface {
	// Offer returns the candidate that would be called first. ok is false if there is none.
	Offer(c *SideCall) (o SideOffer, ok bool)
	// Ask makes the call and waits for the answer. An error that is a *NoSideAnswer leaves the request unchanged: the layer continues without the
	// answer. Any other error ends the request.
	Ask(ctx context.Context, c *SideCall) (SideAnswer, error)
}

// NoSideAnswer means that a side call was not made, or has no usable answer.
type NoSideAnswer struct{ Reason string }

// Error implements error.
func (e *NoSideAnswer) Error() string { return "no answer to a side call: " + e.Reason }

// The reasons.
const (
	SideUnavailable = "unavailable" // side calls are not available
	SideNoProvider  = "no_provider" // no provider that the request may use fits, or none within the maximum cost
	SideNoMoney     = "no_money"    // a balance, limit or budget does not cover it besides the request itself
	SideTimeout     = "timeout"
	SideFailed      = "failed"  // every provider failed
	SideRefused     = "refused" // the model refused, or its answer is empty
)

// Ask makes a side call for the exchange. It must be called in a layer's Request, in the goroutine that runs it; the layer implements Waiting.
func (x *Exchange) Ask(ctx context.Context, c *SideCall) (SideAnswer, error) {
	if x.Side == nil {
		return SideAnswer{}, &NoSideAnswer{SideUnavailable}
	}
	return x.Side.Ask(ctx, c)
}

// Offer returns the candidate that would answer a side call.
func (x *Exchange) Offer(c *SideCall) (o SideOffer, ok bool) {
	if x.Side == nil {
		return o, false
	}
	return x.Side.Offer(c)
}
