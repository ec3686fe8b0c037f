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

// WantsPrivacy reports whether anything requires or prefers privacy: the request's class, a tier, its task, or a feature. A confidential request
// alone does not: any provider may serve it (D-05).
func (v *View) WantsPrivacy() bool {
	in := &v.Intent
	return in.Security == policy.SecurityPrivate || v.Hints.SecurityClass == policy.SecurityPrivate || in.PrivacyTier != policy.PrivacyUnset ||
		v.Hints.PrivacyTier != policy.PrivacyUnset || privacy.IsClass(v.Hints.TaskClass) ||
		slices.ContainsFunc(in.Require, policy.Feature.KeepsPrivate) || slices.ContainsFunc(in.Prefer, policy.Feature.KeepsPrivate)
}

// Unconfirmed returns the failure of a candidate's successful answer if the request requires privacy and the provider's headers do not confirm that
// nothing is retained (P-07); else nil. Call it before any of the answer is sent.
func (v *View) Unconfirmed(to policy.ProviderID, h header.List) *upstream.Failure {
	r, ok := v.Config.Provider(to).Adapter.(provider.Retention)
	if !ok || !v.WantsPrivacy() {
		return nil
	}
	reason := r.Retains(h)
	if reason == "" {
		return nil
	}
	return &upstream.Failure{Provider: to, Kind: upstream.Retained, Cause: errors.New(reason)}
}

// AwaitsConfirmation reports whether an answer of one of the candidates may be discarded for its headers. Envoy forwards answers by status, and would
// not call the next candidate then. Token counts are excluded: providers that confirm retention have no endpoint for them.
func (v *View) AwaitsConfirmation(order []policy.Resolution) bool {
	if v.Request.Op == chat.CountTokens || !v.WantsPrivacy() {
		return v.awaitsProof(order)
	}
	return slices.ContainsFunc(order, func(to policy.Resolution) bool {
		_, ok := v.Config.Provider(to.Provider).Adapter.(provider.Retention)
		return ok || v.Seals(&to) != nil
	})
}
