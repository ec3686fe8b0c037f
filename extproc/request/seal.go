package request

import (
	"slices"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/e2ee"
)

// Seals returns the keys of a candidate's enclave for encrypting the request, preferred first (P-06); nil for a request that is not encrypted. The
// operator pins the keys: without any, no candidate counts as end-to-end encrypted.
func (v *View) Seals(to *policy.Resolution) []*e2ee.Key {
	if !slices.Contains(to.Features, policy.EndToEndEncryption) || !v.wantsSeal() {
		return nil
	}
	return v.Config.Provider(to.Provider).Seals
}

// wantsSeal reports whether only the enclave must, or should, be able to read the request.
func (v *View) wantsSeal() bool {
	return v.NeedsSealed() || slices.Contains(v.Intent.Prefer, policy.EndToEndEncryption)
}
