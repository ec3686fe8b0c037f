package request

import (
	"errors"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/privacy"
)

// WantsPrivacy reports whether anything asks for privacy of the request: its class, a tier, its kind of task, or a feature, whether required or
// preferred. A confidential request alone does not: any provider may serve it (D-05).
func (v *View) WantsPrivacy() bool {
	in := &v.Intent
	return in.Security == policy.SecurityPrivate || v.Hints.SecurityClass == policy.SecurityPrivate || in.PrivacyTier != policy.PrivacyUnset ||
		v.Hints.PrivacyTier != policy.PrivacyUnset || privacy.IsClass(v.Hints.TaskClass) ||
		slices.ContainsFunc(in.Require, policy.Feature.KeepsPrivate) || slices.ContainsFunc(in.Prefer, policy.Feature.KeepsPrivate)
}

// Unconfirmed is why the successful answer of a candidate may not be passed on: the request wants privacy, and the provider's headers do not
// confirm that nothing is retained (P-07). It is nil for any other answer. Call it before anything of the answer goes out.
func (v *View) Unconfirmed(to policy.ProviderID, h header.List) *upstream.Failure {
	r, ok := v.Config.Provider(to).Adapter.(provider.Retention)
	if !ok || !v.WantsPrivacy() {
		return nil
	}
	why := r.Retains(h)
	if why == "" {
		return nil
	}
	return &upstream.Failure{Provider: to, Kind: upstream.Retained, Cause: errors.New(why)}
}

// AwaitsConfirmation reports whether an answer of one of the candidates may have to be discarded for its headers. Envoy, which forwards answers
// by status, would not call the next candidate then. Token counts are left out: who confirms this has no endpoint for them.
func (v *View) AwaitsConfirmation(order []policy.Resolution) bool {
	if v.Request.Op == chat.CountTokens || !v.WantsPrivacy() {
		return v.awaitsProof(order)
	}
	return slices.ContainsFunc(order, func(to policy.Resolution) bool {
		_, ok := v.Config.Provider(to.Provider).Adapter.(provider.Retention)
		return ok || v.Seals(&to) != nil
	})
}
