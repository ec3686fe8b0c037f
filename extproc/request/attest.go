package request

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/attestation"
)

// DegradedAttestation is the entry in X-Bardo-Degraded for an answer of an enclave that is not attested, because the operator has configured no
// receipt keys.
const DegradedAttestation = "attestation"

// WantsEnclave reports whether the request is sent to a candidate because that has an enclave.
func (v *View) WantsEnclave(to *policy.Resolution) bool {
	in, p := &v.Intent, v.Request.Profile
	if v.Request.Op == chat.CountTokens || !slices.Contains(to.Features, policy.TEEAttested) {
		return false
	}
	return in.PrivacyTier >= policy.PrivacyTEE || p != nil && p.Default.TEE ||
		slices.Contains(in.Require, policy.TEEAttested) || slices.Contains(in.Prefer, policy.TEEAttested)
}

// Attests returns the policy by which a candidate's answer must be attested (P-05), and the adapter that requests the receipt; nil if it need not be.
func (v *View) Attests(to *policy.Resolution) (*attestation.Policy, provider.Attesting) {
	p := v.Config.Provider(to.Provider)
	if p.Attestation == nil || !v.WantsEnclave(to) {
		return nil, nil
	}
	by, ok := p.Adapter.(provider.Attesting)
	if !ok {
		return nil, nil
	}
	return p.Attestation, by
}

// Unattested reports whether a candidate's answer is used although its enclave is not attested.
func (v *View) Unattested(to *policy.Resolution) bool {
	if !v.WantsEnclave(to) {
		return false
	}
	p, _ := v.Attests(to)
	return p == nil
}

// UnconfirmedModality is Unconfirmed for endpoints other than conversations and embeddings. Of their answers only sealed ones are attested.
func (v *View) UnconfirmedModality(to *policy.Resolution, sealed bool, h header.List) *upstream.Failure {
	if p, _ := v.Attests(to); p != nil && !sealed {
		return &upstream.Failure{Provider: to.Provider, Kind: upstream.Unattested, Cause: attestation.Endpoint}
	}
	return v.Unconfirmed(to.Provider, h)
}

// awaitsProof reports whether an answer of one of the candidates must be attested because the request's profile requires an enclave; every other
// reason counts as a privacy requirement.
func (v *View) awaitsProof(order []policy.Resolution) bool {
	if p := v.Request.Profile; p == nil || !p.Default.TEE {
		return false
	}
	return slices.ContainsFunc(order, func(to policy.Resolution) bool { p, _ := v.Attests(&to); return p != nil })
}
