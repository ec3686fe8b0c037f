package request

import (
	"testing"

	"bardo.money/gateway/policy"
)

// TestD05NothingIsRetainedOfWhatIsNotToBeKept: each privacy marker alone is enough, wherever it is stated.
func TestD05NothingIsRetainedOfWhatIsNotToBeKept(t *testing.T) {
	for about, with := range map[string]func(v *View){
		"":                            func(*View) {},
		"no account":                  func(v *View) { v.Principal.Account = "" },
		"confidential":                func(v *View) { v.Intent.Security = policy.SecurityConfidential },
		"private":                     func(v *View) { v.Intent.Security = policy.SecurityPrivate },
		"private by its hint":         func(v *View) { v.Hints.SecurityClass = policy.SecurityPrivate },
		"a tier":                      func(v *View) { v.Intent.PrivacyTier = policy.PrivacyTEE },
		"a tier by its hint":          func(v *View) { v.Hints.PrivacyTier = policy.PrivacyTEE },
		"a required feature":          func(v *View) { v.Intent.Require = []policy.Feature{policy.NoLog} },
		"a feature that is preferred": func(v *View) { v.Intent.Prefer = []policy.Feature{policy.Privacy} },
	} {
		v := &View{}
		v.Principal.Account = "a"
		with(v)
		if got := v.MayRetain(); got != (about == "") {
			t.Errorf("%s: it may be retained: %v", about, got)
		}
	}
}
