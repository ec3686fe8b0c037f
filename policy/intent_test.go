package policy

import "testing"

// TestWhatMakesAnIntentPrivate: each criterion alone is sufficient; a preference is not.
func TestWhatMakesAnIntentPrivate(t *testing.T) {
	for _, row := range []struct {
		in   Intent
		want bool
	}{
		{Intent{}, false},
		{Intent{Prefer: []Feature{Privacy}}, false},
		{Intent{Require: []Feature{WebSearch}}, false},
		{Intent{Security: SecurityConfidential}, true},
		{Intent{Security: SecurityPrivate}, true},
		{Intent{PrivacyTier: PrivacyTEE}, true},
		{Intent{PrivacyTier: PrivacyEndToEnd}, true},
		{Intent{Require: []Feature{WebSearch, NoLog}}, true},
	} {
		if got := row.in.IsPrivate(); got != row.want {
			t.Errorf("%+v: %v", row.in, got)
		}
	}
}
