package pipeline

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// SideCall is a bounded call of a cheap model that a layer makes for a request, such as for a summary of its history.
type SideCall struct {
	Layer     string // the layer's name, for the request's record
	System    string // what the model is to do
	Text      string // with what: the message of the user
	MaxTokens int    // of the answer
	Timeout   time.Duration
	MaxCost   policy.Pico    // a model whose call may cost more is not called; 0: any
	Worth     policy.Pico    // what the answer saves: a model whose call is expected to cost more is not called; 0: any
	Quality   policy.Quality // the least class of the model
}

// SideAnswer is the answer to a side call.
type SideAnswer struct {
	Text     string
	Complete bool // it ended by itself, not at its limit
	By       policy.Resolution
	Usage    chat.Usage
	Cost     policy.Pico // the provider's
}

// SideOffer is who would answer a side call.
type SideOffer struct {
	To   policy.Resolution
	Most policy.Pico // what the call may cost, at its provider's prices
}

// SideCaller makes side calls for one exchange. The data path implements it.
//
// A call goes to a provider only that the request may use, with its security class, privacy tier, the restrictions of its key and the provider that it
// names (D-05), through Envoy like any call (D-63). It is reserved beforehand, is on the request's bill and in its record, and its outcome counts for
// the provider's health.
type SideCaller interface {
	// Offer says who would be called first. ok is false where nobody may be.
	Offer(c *SideCall) (o SideOffer, ok bool)
	// Ask makes the call, and waits for the answer. An error that is a *NoSideAnswer leaves the request as it was: the layer does without the answer. With
	// any other the request is over.
	Ask(ctx context.Context, c *SideCall) (SideAnswer, error)
}

// NoSideAnswer says that a side call was not made, or has no answer that can be used.
type NoSideAnswer struct{ Why string }

// Error implements error.
func (e *NoSideAnswer) Error() string { return "no answer to a side call: " + e.Why }

// The reasons.
const (
	SideUnavailable = "unavailable" // nothing makes side calls here
	SideNoProvider  = "no_provider" // no provider that the request may use fits, or none below the maximum cost
	SideNoMoney     = "no_money"    // a balance, limit or budget has no room for it besides the request itself
	SideTimeout     = "timeout"
	SideFailed      = "failed"  // every provider failed
	SideRefused     = "refused" // the model declined, or said nothing
)

// Ask makes a side call for the exchange. It must be called in a layer's Request, by the goroutine that runs it; the layer implements Waiting.
func (x *Exchange) Ask(ctx context.Context, c *SideCall) (SideAnswer, error) {
	if x.Side == nil {
		return SideAnswer{}, &NoSideAnswer{SideUnavailable}
	}
	return x.Side.Ask(ctx, c)
}

// Offer says who would answer a side call.
func (x *Exchange) Offer(c *SideCall) (o SideOffer, ok bool) {
	if x.Side == nil {
		return o, false
	}
	return x.Side.Offer(c)
}
