package later_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/later"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/policy"
)

// TestWhatNobodyMayKeepIsStoredEncryptedAlone, and is never part of a batch: by its class, its tier of privacy, or a feature that it requires of its provider.
func TestWhatNobodyMayKeepIsStoredEncryptedAlone(t *testing.T) {
	t.Parallel()
	for about, row := range map[string]struct {
		intent policy.Intent
		hints  policy.Hints
		secret bool
	}{
		"nothing":                {},
		"a confidential request": {intent: policy.Intent{Security: policy.SecurityConfidential}, secret: true},
		"a confidential hint":    {hints: policy.Hints{SecurityClass: policy.SecurityConfidential}, secret: true},
		"a tier":                 {intent: policy.Intent{PrivacyTier: policy.PrivacyNoLog}, secret: true},
		"no_log":                 {intent: policy.Intent{Require: []policy.Feature{policy.Tools, policy.NoLog}}, secret: true},
		"privacy":                {intent: policy.Intent{Require: []policy.Feature{policy.Privacy}}, secret: true},
		"other features":         {intent: policy.Intent{Require: []policy.Feature{policy.Tools}, Prefer: []policy.Feature{policy.Privacy}}},
	} {
		v := &request.View{Exchange: pipeline.Exchange{Request: &chat.Request{}, Intent: row.intent, Hints: row.hints}}
		if later.IsSecret(v) != row.secret || v.KeepsNothing() != row.secret {
			t.Errorf("%s: secret %v, keeps nothing %v", about, later.IsSecret(v), v.KeepsNothing())
		}
		if err := later.Check(v, false); (err != nil) != row.secret {
			t.Errorf("%s where nothing is encrypted: %v", about, err)
		}
		if err := later.Check(v, true); err != nil {
			t.Errorf("%s where it is encrypted: %v", about, err)
		}
	}
}
