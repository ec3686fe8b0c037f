package pipeline_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/policy"
)

// TestD05WhatIsKeptSharedAndShownOfARequest: by its security class, its privacy tier, and its requirements.
func TestD05WhatIsKeptSharedAndShownOfARequest(t *testing.T) {
	type answers struct{ keepsNothing, mayShare, toPrivate, pooled bool }
	for about, row := range map[string]struct {
		hints   policy.Hints
		in      policy.Intent
		account policy.Account
		want    answers
	}{
		"nothing":                  {account: "a", want: answers{false, true, false, true}},
		"nothing, without a key":   {want: answers{false, true, false, false}},
		"confidential":             {hints: policy.Hints{SecurityClass: policy.SecurityConfidential}, account: "a", want: answers{true, true, false, false}},
		"confidential, no key":     {hints: policy.Hints{SecurityClass: policy.SecurityConfidential}, want: answers{true, false, false, false}},
		"private":                  {hints: policy.Hints{SecurityClass: policy.SecurityPrivate}, account: "a", want: answers{true, true, true, false}},
		"private by its intent":    {in: policy.Intent{Security: policy.SecurityPrivate}, account: "a", want: answers{true, true, true, false}},
		"the tier private":         {in: policy.Intent{PrivacyTier: policy.PrivacyNoLog}, account: "a", want: answers{true, true, true, false}},
		"the tier private, no key": {in: policy.Intent{PrivacyTier: policy.PrivacyNoLog}, want: answers{true, false, true, false}},
		"no log is required":       {in: policy.Intent{Require: []policy.Feature{policy.NoLog}}, account: "a", want: answers{true, true, false, false}},
		"an enclave":               {in: policy.Intent{PrivacyTier: policy.PrivacyTEE}, account: "a", want: answers{true, true, true, false}},
	} {
		x := &pipeline.Exchange{Hints: row.hints, Intent: row.in, Request: &chat.Request{}, Principal: policy.Principal{Account: row.account, Tier: policy.TierFree}}
		if got := (answers{x.KeepsNothing(), x.MayShare(), x.KeepsToPrivate(), x.CacheTenant(true) == policy.FreePool}); got != row.want {
			t.Errorf("%s: %+v, want %+v", about, got, row.want)
		}
	}
}
