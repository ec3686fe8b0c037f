package modality

import (
	"context"
	"slices"

	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// serves reports whether a candidate's provider has the endpoint, and whether its model is not known to have another purpose.
func serves(v *request.View, op *Operation, to *policy.Resolution) (endpoint, model bool) {
	p := v.Config.Provider(to.Provider)
	return hasEndpoint(p.Adapter, p.Endpoint, op), p.Direct || to.Undescribed || slices.Contains(to.Features, op.Feature)
}

// hasEndpoint reports whether a provider has an operation's endpoint.
func hasEndpoint(a provider.Adapter, at provider.Endpoint, op *Operation) bool {
	described, ok := a.(provider.Described)
	if !ok || !slices.Contains(described.Kind().Endpoints, op.Endpoint) {
		return false
	}
	relay, ok := a.(provider.Relay)
	return ok && relay.Relay(op.Endpoint, "", at) != nil
}

// FilterByModel removes the candidates that are excluded at this time, whose provider lacks the endpoint, or whose model is known to have another
// purpose. The error is a fault that states the reason.
func FilterByModel(v *request.View, r *Request) error {
	if err := v.FilterByOccasion(r.Op.Feature); err != nil {
		return err
	}
	f := fault.Newf(fault.InvalidRequest, "no provider of the model %q serves %s: GET /v1/models shows which models have the capability %s", fault.Clip(v.Request.Model), r.Op.Path(), r.Op.Feature)
	f.Param = "model"
	v.Found = slices.DeleteFunc(v.Found, func(to policy.Resolution) bool {
		endpoint, model := serves(v, r.Op, &to)
		if endpoint && !model {
			f.Public = "the model \"" + fault.Clip(v.Request.Model) + "\" is none that " + r.Op.Makes()
		}
		return !endpoint || !model || (v.Seals(&to) != nil) != r.Op.Sealed() // requests that must be encrypted are not sent in plain text
	})
	if len(v.Found) == 0 {
		return f
	}
	return nil
}

// FilterByPrice removes the candidates that have no price for the request. The error is a fault of kind UnpricedParameter.
func FilterByPrice(v *request.View, r *Request) (err error) {
	v.Found = slices.DeleteFunc(v.Found, func(to policy.Resolution) bool {
		_, unpriced := MaxCost(v, r, &to)
		if unpriced != nil && err == nil {
			err = unpriced
		}
		return unpriced != nil
	})
	if len(v.Found) > 0 {
		return nil
	}
	return err
}

// MaxCost returns the maximum cost of a request at a candidate, without the spread; 0 if the caller pays the provider. The error is a fault: it has
// no price there.
func MaxCost(v *request.View, r *Request, to *policy.Resolution) (policy.Pico, error) {
	if v.CallerPays(to.Provider) {
		return 0, nil
	}
	usage := r.Max(to)
	return r.Cost(to, &usage)
}

// MaxOf returns the maximum cost of a request over its candidates, without the spread, and its maximum number of tokens. The error is a fault.
func MaxOf(v *request.View, r *Request) (cost policy.Pico, tokens int64, err error) {
	for i := range v.Order {
		maxCost, err := MaxCost(v, r, &v.Order[i])
		if err != nil {
			return 0, 0, err
		}
		u := r.Max(&v.Order[i])
		input := u.Text
		if r.Op.Feature == policy.Realtime { // whatever kind of tokens it is counted as
			input = u.Text + u.Image + u.Audio
		}
		cost, tokens = max(cost, maxCost), max(tokens, input)
	}
	return cost, tokens, nil
}

// CostOf returns the cost of a candidate's answer, without the spread: never more than was reserved for it, whatever its provider reports.
func CostOf(v *request.View, r *Request, to *policy.Resolution, u *Used) (policy.Pico, error) {
	if v.CallerPays(to.Provider) {
		return 0, nil
	}
	maxCost, err := MaxCost(v, r, to)
	if err != nil {
		return 0, err
	}
	cost, err := r.Cost(to, u)
	return min(cost, maxCost), err
}

// Protect runs the protecting layers on the texts of a request, and returns the request with the resulting texts. v.Request is unchanged.
func Protect(ctx context.Context, v *request.View, r *Request) (*Request, error) {
	if r.Op.Sealed() {
		return r, nil
	}
	texts, err := r.Texts()
	if err != nil {
		return nil, err
	}
	whole, masked := v.Request, *v.Request
	masked.Doc = texts
	v.Request, v.Files, v.NoText = &masked, r.Files(), r.Op.Feature == policy.Speech || r.Op.Feature == policy.ImageGeneration
	v.Profile, v.DirectKey, v.ProtectOnly = intent.Pipeline(&v.Intent, v.Hints.Pipeline, v.Config.Intents.Pipeline), v.SkipsMasking(), true
	err = v.Config.Pipeline.Request(ctx, &v.Exchange)
	changed := v.Request
	v.Request = whole
	if err != nil || changed == &masked {
		return r, err
	}
	return r.WithTexts(&texts, &changed.Doc)
}

// Cheapest returns the listed model with the lowest cost for the request; "" if there is none.
func Cheapest(v *request.View, r *Request) (model string) {
	lowest := policy.MaxPico
	for _, offer := range v.Config.Resolver.Models() {
		if !slices.Contains(offer.Capabilities, r.Op.Feature) {
			continue
		}
		ways, err := v.Config.Resolver.Resolve(string(offer.ID), "")
		if err != nil {
			continue
		}
		for i := range ways {
			endpoint, makes := serves(v, r.Op, &ways[i])
			cost, err := MaxCost(v, r, &ways[i])
			if endpoint && makes && err == nil && cost < lowest {
				model, lowest = string(offer.ID), cost
			}
		}
	}
	return model
}
