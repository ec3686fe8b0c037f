package pipeline

import (
	"slices"

	"bardo.money/gateway/policy"
)

// ForEnclave reports whether an enclave may answer the request because the request asks for one: by its tier, by a required feature, or by a
// preferred one or its inference profile if a candidate has an enclave. The receipt covers the answer to what was sent, so no layer stores, replays
// or shortens such a request (D-30).
func (x *Exchange) ForEnclave() bool {
	if x.NeedsEnclave() || x.ForSealed() {
		return true
	}
	p := x.Request.Profile
	return (slices.Contains(x.Intent.Prefer, policy.TEEAttested) || p != nil && p.Default.TEE) && x.anyHas(policy.TEEAttested)
}

// NeedsEnclave reports whether only an enclave may answer the request, by its tier or a required feature.
func (x *Exchange) NeedsEnclave() bool {
	return x.Intent.PrivacyTier >= policy.PrivacyTEE || slices.Contains(x.Intent.Require, policy.TEEAttested) || x.NeedsSealed()
}

// StaysInEnclave reports whether only enclaves get the request: it needs one, and every candidate has one. A task whose tier may be relaxed has other
// candidates.
func (x *Exchange) StaysInEnclave() bool {
	return x.NeedsEnclave() && !slices.ContainsFunc(x.Found, func(r policy.Resolution) bool {
		return !slices.Contains(r.Features, policy.TEEAttested) && !slices.Contains(r.Features, policy.EndToEndEncryption)
	})
}

// ForSealed reports whether the request may be encrypted end to end because it asks for that. Only protecting layers process it (D-30).
func (x *Exchange) ForSealed() bool {
	return x.NeedsSealed() || slices.Contains(x.Intent.Prefer, policy.EndToEndEncryption) && x.anyHas(policy.EndToEndEncryption)
}

// NeedsSealed reports whether the request is sent end-to-end encrypted or not at all.
func (x *Exchange) NeedsSealed() bool {
	return x.Intent.PrivacyTier == policy.PrivacyEndToEnd || slices.Contains(x.Intent.Require, policy.EndToEndEncryption)
}

// anyHas reports whether a candidate has a feature.
func (x *Exchange) anyHas(f policy.Feature) bool {
	return slices.ContainsFunc(x.Found, func(r policy.Resolution) bool { return slices.Contains(r.Features, f) })
}
