package request

import (
	"net/http"
	"slices"

	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// PaysFor reports whether a call of one of the candidates may need its own payment. Envoy cannot pay when it forwards and retries calls.
func (v *View) PaysFor(order []policy.Resolution) bool {
	return slices.ContainsFunc(order, func(to policy.Resolution) bool { return v.payer(&to) != nil })
}

func (v *View) payer(to *policy.Resolution) runtime.Payer {
	if v.CallerPays(to.Provider) {
		return nil
	}
	return v.Config.Provider(to.Provider).Payer
}

// The margin by which a payment may exceed the catalog's prices: providers that are paid per call count tokens differently, and charge a fee.
const (
	paymentMargin = 25   // percent
	paymentFee    = 2000 // in millionths of a USD
)

// PaymentMargin returns the maximum by which the payments of so many calls of the candidates may exceed cost, which is their maximum cost together.
func (v *View) PaymentMargin(candidates []policy.Resolution, cost policy.Pico, calls int64) policy.Pico {
	if !v.PaysFor(candidates) {
		return 0
	}
	const rounding = 1 // each call's cost is rounded up to a unit
	return (cost.Charge(0) / 100 * paymentMargin).Pico().Plus(policy.Micro(paymentFee + rounding).Pico().Times(calls))
}

// Payment returns a candidate's call as its payer makes it, if it may need its own payment; send sends it. payer is nil for any other.
func (v *View) Payment(to *policy.Resolution, send func(name, value string) (*http.Response, error)) (payer runtime.Payer, c *runtime.PaidCall) {
	if payer = v.payer(to); payer == nil {
		return nil, nil
	}
	one := []policy.Resolution{*to}
	output := policy.AddTokens(int64(v.MaxTokens()), int64(v.ThinkingTokens(one)))
	output = policy.AddTokens(output, wire.MaxPredictedTokens(v.Request))
	estimate := resolve.WorstCost(v.WithoutWindows(v.WithTierPrices(one)), v.Request.MaxInput, output, int64(v.Request.Choices)).Plus(v.SearchCost(one)).Charge(0)
	return payer, &runtime.PaidCall{Exchange: v.ID, Model: to.Upstream, Estimate: estimate, MaxCost: estimate.Plus(estimate / 100 * paymentMargin).Plus(paymentFee), Send: send}
}
