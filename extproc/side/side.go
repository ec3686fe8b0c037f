// Package side prepares a layer's call of a cheap model for a request: its candidates, the request as it is sent, and the reader of its answer. It
// makes no calls and handles no money; package extproc does both.
package side

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// tier is the tier whose model the operator prefers for cheap calls (inference.tiers).
const tier = "T1"

// Candidates lists the candidates of a request's side call, best first. No restriction of the request is relaxed:
//
//   - the resolver applies the request's security class, privacy tier, plan, required features and named provider, and the models of its session;
//   - a request that is confidential or private, or wants privacy, is only sent to the providers of its own candidates;
//   - a user's own key is only used if the request's first candidate uses it, and then no other key is; a direct key without layers is not used;
//   - models that are not cheaper than the request's first candidate, or that always reason first, are excluded: their answers would be too late.
func Candidates(v *request.View, c *pipeline.SideCall) []policy.Resolution {
	if len(v.Found) == 0 {
		return nil
	}
	first, tokens := &v.Found[0], maxInput(c)
	list := v.Config.Resolver.SideCandidates(&v.Intent, first, &resolve.SideNeeds{
		Input: tokens, Output: int64(c.MaxTokens), First: v.Config.Intents.Tiers[tier], Quality: c.Quality,
	})
	own, closed, expensive := request.ProvidersOf(v.Found), restrictsProviders(v), costAtFirst(list, first, c)
	return slices.DeleteFunc(list, func(to policy.Resolution) bool {
		switch {
		case !v.MayCall(&to), closed && !slices.Contains(own, to.Provider):
			return true
		case v.CallerPays(to.Provider) != v.CallerPays(first.Provider), v.CallerPays(to.Provider) && to.Provider != first.Provider:
			return true
		case to.Thinks == policy.ThinksAlways, to.Control == policy.ControlAlways, expected(&to, c) >= expensive:
			return true
		}
		return c.MaxCost > 0 && !v.CallerPays(to.Provider) && MaxCost(&to, c) > c.MaxCost || c.Worth > 0 && expected(&to, c) > c.Worth
	})
}

// restrictsProviders reports whether only the providers of the request's own candidates may see it.
func restrictsProviders(v *request.View) bool {
	return v.Intent.IsPrivate() || slices.ContainsFunc(v.Intent.Prefer, policy.Feature.KeepsPrivate)
}

// overhead is the maximum that a provider's format adds to a call's texts, in tokens.
const overhead = 64

// maxInput returns an upper bound of a call's input tokens: one per byte.
func maxInput(c *pipeline.SideCall) int64 { return int64(len(c.System)+len(c.Text)) + overhead }

// MaxCost returns the maximum cost of a side call at a candidate.
func MaxCost(to *policy.Resolution, c *pipeline.SideCall) policy.Pico {
	return resolve.WorstCost([]policy.Resolution{*to}, maxInput(c), int64(c.MaxTokens), 1)
}

// tokensPerByte is the approximate number of tokens per byte of text.
const tokensPerByte = 2.0 / 7

// expected returns the approximate cost of a side call at a candidate.
func expected(to *policy.Resolution, c *pipeline.SideCall) policy.Pico {
	input := int64(float64(len(c.System)+len(c.Text)) * tokensPerByte)
	return to.Prices.Cost(input, 0, 0, 0, int64(c.MaxTokens))
}

// costAtFirst returns the cost of a call at the request's first candidate. If the caller pays that provider, the request's own prices are zero, and
// the listed ones are used.
func costAtFirst(list []policy.Resolution, first *policy.Resolution, c *pipeline.SideCall) policy.Pico {
	for i := range list {
		if to := &list[i]; to.Provider == first.Provider && to.Model == first.Model {
			return expected(to, c)
		}
	}
	return expected(first, c)
}

// View returns a side call as a separate request, from which its attempts are encoded. It has the exchange's id, caller and credentials, and none of
// its content. The error means that the texts cannot be encoded as JSON.
func View(v *request.View, c *pipeline.SideCall) (*request.View, error) {
	dialect := v.Config.Dialects[chat.OpenAI]
	body := append([]byte(`{"model":"side","messages":[{"role":"system","content":`), jsonx.AppendString(nil, c.System)...)
	body = append(jsonx.AppendString(append(body, `},{"role":"user","content":`...), c.Text), `}]}`...)
	r, err := dialect.Decode(chat.Generate, nil, "", body)
	if err != nil {
		return nil, err
	}
	r.Profile = &chat.Profile{
		MaxTokens: c.MaxTokens, CostSensitivity: 1, Confidential: v.Intent.Security != policy.SecurityStandard, NoGuidance: true,
		Default: chat.Params{Temperature: "0", Effort: "none"},
	}
	out := &request.View{Config: v.Config, Head: v.Head, Dialect: dialect, Started: v.Started, Arrived: v.Arrived, OwnKey: v.OwnKey}
	out.ID, out.Principal, out.Request = v.ID, v.Principal, r
	out.Hints.SecurityClass, out.Hints.PrivacyTier = v.Hints.SecurityClass, v.Hints.PrivacyTier
	out.Hints.TaskClass, out.Intent.Require, out.Intent.Prefer = v.Hints.TaskClass, v.Intent.Require, v.Intent.Prefer
	out.Intent.Security, out.Intent.PrivacyTier = v.Intent.Security, v.Intent.PrivacyTier
	return out, nil
}

// For returns the view with the model of a candidate.
func For(v *request.View, to *policy.Resolution) *request.View {
	out, r := *v, *v.Request
	r.Model, out.Request, out.ClientModel = string(to.Model), &r, string(to.Model)
	out.Found = []policy.Resolution{*to}
	return &out
}
