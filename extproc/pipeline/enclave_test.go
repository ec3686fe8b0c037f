package pipeline_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/policy"
)

// TestD30WhoseRequestsAreForAnEnclave: by the tier, by a requirement, and by a preference or a profile if a candidate has an enclave.
func TestD30WhoseRequestsAreForAnEnclave(t *testing.T) {
	with := func(features ...policy.Feature) policy.Resolution { return policy.Resolution{Features: features} }
	tee, sealed, open := with(policy.TEEAttested), with(policy.EndToEndEncryption), with(policy.Tools)
	mode := &chat.Profile{}
	mode.Default.TEE = true
	type answers struct{ enclave, needs, stays, sealed, needsSealed bool }
	for about, row := range map[string]struct {
		in      policy.Intent
		profile *chat.Profile
		found   []policy.Resolution
		want    answers
	}{
		"nothing is asked for":            {found: []policy.Resolution{tee, sealed}},
		"no log":                          {in: policy.Intent{PrivacyTier: policy.PrivacyNoLog}, found: []policy.Resolution{tee}},
		"the tier tee":                    {in: policy.Intent{PrivacyTier: policy.PrivacyTEE}, found: []policy.Resolution{tee, sealed}, want: answers{true, true, true, false, false}},
		"the tier tee, relaxed":           {in: policy.Intent{PrivacyTier: policy.PrivacyTEE}, found: []policy.Resolution{tee, open}, want: answers{true, true, false, false, false}},
		"the tier e2e":                    {in: policy.Intent{PrivacyTier: policy.PrivacyEndToEnd}, found: []policy.Resolution{sealed}, want: answers{true, true, true, true, true}},
		"an enclave is required":          {in: policy.Intent{Require: []policy.Feature{policy.TEEAttested}}, found: []policy.Resolution{tee}, want: answers{true, true, true, false, false}},
		"encryption is required":          {in: policy.Intent{Require: []policy.Feature{policy.EndToEndEncryption}}, found: []policy.Resolution{sealed}, want: answers{true, true, true, true, true}},
		"an enclave is preferred":         {in: policy.Intent{Prefer: []policy.Feature{policy.TEEAttested}}, found: []policy.Resolution{open, tee}, want: answers{enclave: true}},
		"preferred, and nobody has one":   {in: policy.Intent{Prefer: []policy.Feature{policy.TEEAttested}}, found: []policy.Resolution{open, sealed}},
		"encryption is preferred":         {in: policy.Intent{Prefer: []policy.Feature{policy.EndToEndEncryption}}, found: []policy.Resolution{sealed}, want: answers{enclave: true, sealed: true}},
		"encryption, and nobody has it":   {in: policy.Intent{Prefer: []policy.Feature{policy.EndToEndEncryption}}, found: []policy.Resolution{tee}},
		"a profile of an enclave":         {profile: mode, found: []policy.Resolution{tee}, want: answers{enclave: true}},
		"a profile, and nobody has one":   {profile: mode, found: []policy.Resolution{open}},
		"a profile that asks for nothing": {profile: &chat.Profile{}, found: []policy.Resolution{tee}},
	} {
		x := &pipeline.Exchange{Intent: row.in, Found: row.found, Request: &chat.Request{Profile: row.profile}}
		if got := (answers{x.ForEnclave(), x.NeedsEnclave(), x.StaysInEnclave(), x.ForSealed(), x.NeedsSealed()}); got != row.want {
			t.Errorf("%s: %+v, want %+v", about, got, row.want)
		}
	}
}
