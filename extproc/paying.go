package extproc

import (
	"context"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/dryrun"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
)

// Requests that pay for themselves (meter.Payments). Conversations can; everything else needs a key.

// identifyPayer identifies the payer of a request that pays for itself; ok is false if a key is needed. A payment precedes all other credentials.
func (x *exchange) identifyPayer(e *endpoint.Endpoint) (ok bool, err error) {
	if x.gw.Payments == nil {
		return false, nil
	}
	if e.Paid && x.mayAskPrice() {
		x.Principal = policy.Principal{Anonymous: true, Prepaid: true} // rate limits apply to its address
		x.bill.PaidBy(x.Principal, x.gw.meter.PayerOf(&x.Principal), 0)
		return true, nil
	}
	if !payable(e) || x.Head.Header.Get(dryrun.Header) != "" { // explanations need a key, and take no payment
		return false, nil
	}
	who, payer, ok, err := x.gw.Payments.Payer(x.Head.Header, paidFor{x})
	if err == nil && !ok && x.mayAskPrice() {
		ok = true
		who, payer, err = x.gw.Payments.Quote(x.Head.Header, paidFor{x})
	}
	if ok && err == nil {
		x.Principal, x.PaysItself = who, true
		x.bill.PaidBy(who, payer, x.Config.Spread(&who))
	}
	return ok, err
}

// payable reports whether requests to an endpoint can pay for themselves.
func payable(e *endpoint.Endpoint) bool {
	return e.Class == endpoint.Generate && e.Op == chat.Generate && e.Local == nil && !e.Stored && !e.Compact && e.Modality == nil
}

// mayAskPrice reports whether the caller has no credentials and needs some. Explaining a route needs a key.
func (x *exchange) mayAskPrice() bool {
	keyless := x.Config.Keyless != runtime.KeylessNobody && x.Head.Peer.IsLoopback()
	return !keyless && !auth.Sent(x.Head.Header) && x.Head.Header.Get(dryrun.Header) == ""
}

// requirePayment collects the payment of a request that pays for itself, or refuses it with its price, before any other work.
func (x *exchange) requirePayment(ctx context.Context) error {
	p, ok := x.bill.Payer().(meter.PerRequest)
	if !ok {
		return nil
	}
	if err := x.bill.Reserve(ctx, x.funds.MaxCharge(x.Found)); err != nil {
		return err
	}
	x.Principal.Account, x.Principal.Name = p.Account(), string(p.Account())
	x.Principal.ReputationSpread = x.gw.Identities.Spread(p.Account())
	x.bill.PaidBy(x.Principal, p, x.Config.Spread(&x.Principal))
	return nil
}

// paysItself reports whether the request pays for itself.
func (x *exchange) paysItself() bool {
	_, ok := x.bill.Payer().(meter.PerRequest)
	return ok
}

// conversationOwner returns the account whose conversations the request may continue. A payer is known too late: the price is that of the model, and
// must be the same when asked for and when paid.
func (x *exchange) conversationOwner() policy.Account {
	if x.paysItself() {
		return ""
	}
	return x.Principal.Account
}

// paidFor is the meter.Subject of a request.
type paidFor struct{ x *exchange }

var _ meter.Subject = paidFor{}

// Digest implements meter.Subject.
func (p paidFor) Digest() [32]byte { return p.x.Digest() }

// Estimate implements meter.Subject.
func (p paidFor) Estimate() (e meter.Estimate) {
	x := p.x
	e.URL = "https://" + x.Head.Host + x.Head.Path
	e.InputTokens, e.OutputTokens = x.Request.InputTokens, int64(x.MaxTokens())
	e.Model = x.Found[0].Model
	e.ProviderCost = x.funds.MaxCost(x.Found, 0)
	e.CacheEligible = !x.ProtectOnly
	e.Optimizations = x.Config.Pipeline.Planned(&x.Exchange)
	return e
}

// Streams implements meter.Subject.
func (p paidFor) Streams() bool { return p.x.Request != nil && p.x.Request.Stream }
