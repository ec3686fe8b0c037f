package request

import (
	"slices"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/e2ee"
)

// Seals are the keys of a candidate's enclave that a request is encrypted with, the first one first (P-06); nil for a request that is sent as it is. The keys
// are pinned by the operator: without any, no candidate counts as one with end-to-end encryption.
func (v *View) Seals(to *policy.Resolution) []*e2ee.Key {
	if !slices.Contains(to.Features, policy.EndToEndEncryption) || !v.wantsSeal() {
		return nil
	}
	return v.Config.Provider(to.Provider).Seals
}

// wantsSeal reports whether the request has to be readable for the enclave alone, or should be.
func (v *View) wantsSeal() bool {
	return v.NeedsSealed() || slices.Contains(v.Intent.Prefer, policy.EndToEndEncryption)
}
