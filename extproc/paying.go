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

// Requests that are paid for by themselves (meter.Payments). Conversations can be paid for like this; everything else needs a key.

// identifyPayer finds out who pays where the request itself does; ok is false where a key is needed. A payment comes before all other credentials.
func (x *exchange) identifyPayer(e *endpoint.Endpoint) (ok bool, err error) {
	if x.gw.Payments == nil {
		return false, nil
	}
	if e.Paid && x.mayAskPrice() {
		x.Principal = policy.Principal{Anonymous: true, Prepaid: true} // its address has the rate of a key
		x.bill.PaidBy(x.Principal, x.gw.meter.PayerOf(&x.Principal), 0)
		return true, nil
	}
	if !payable(e) || x.Head.Header.Get(dryrun.Header) != "" { // an explanation needs a key, and takes no payment
		return false, nil
	}
	who, payer, ok, err := x.gw.Payments.Payer(x.Head.Header, paidFor{x})
	if err == nil && !ok && x.mayAskPrice() {
		ok = true
		who, payer, err = x.gw.Payments.Asker(x.Head.Header, paidFor{x})
	}
	if ok && err == nil {
		x.Principal, x.PaysItself = who, true
		x.bill.PaidBy(who, payer, x.Config.Spread(&who))
	}
	return ok, err
}

// payable reports whether an endpoint's requests can be paid for by themselves.
func payable(e *endpoint.Endpoint) bool {
	return e.Class == endpoint.Generate && e.Op == chat.Generate && e.Local == nil && !e.Stored && !e.Compact && e.Modality == nil
}

// mayAskPrice reports whether the caller has no credentials and needs some. What explains a route needs a key.
func (x *exchange) mayAskPrice() bool {
	keyless := x.Config.Keyless != runtime.KeylessNobody && x.Head.Peer.IsLoopback()
	return !keyless && !auth.Sent(x.Head.Header) && x.Head.Header.Get(dryrun.Header) == ""
}

// payFirst has a request that is paid for by itself paid, or refuses it with its price, before anything is done for it.
func (x *exchange) payFirst(ctx context.Context) error {
	p, ok := x.bill.Payer().(meter.PerRequest)
	if !ok {
		return nil
	}
	if err := x.bill.Reserve(ctx, x.funds.Worst(x.Found)); err != nil {
		return err
	}
	x.Principal.Account, x.Principal.Name = p.Account(), string(p.Account())
	x.Principal.ReputationSpread = x.gw.Identities.Spread(p.Account())
	x.bill.PaidBy(x.Principal, p, x.Config.Spread(&x.Principal))
	return nil
}

// paysFirst reports whether the request is paid for by itself.
func (x *exchange) paysFirst() bool {
	_, ok := x.bill.Payer().(meter.PerRequest)
	return ok
}

// conversant is whose conversations the request's may be one of. Who pays for single requests is known too late: the price is that of the model, and the same for
// who asks for it and who pays it.
func (x *exchange) conversant() policy.Account {
	if x.paysFirst() {
		return ""
	}
	return x.Principal.Account
}

// paidFor is a request as its payer sees it.
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
	e.ProviderCost = x.funds.WorstCost(x.Found, 0)
	e.CacheEligible = !x.ProtectOnly
	e.Optimizations = x.Config.Pipeline.Planned(&x.Exchange)
	return e
}

// Streams implements meter.Subject.
func (p paidFor) Streams() bool { return p.x.Request != nil && p.x.Request.Stream }
