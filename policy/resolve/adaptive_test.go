package resolve_test

import (
	"testing"

	"bardo.money/gateway/policy"
)

// TestD22AModelThatNoListNamesYetIsToldByItsFamily: a vendor's newer model gets no thinking budget, which it would refuse, and no sampling parameters
// that its family does not support.
func TestD22AModelThatNoListNamesYetIsToldByItsFamily(t *testing.T) {
	r := configured(t, both)
	for model, want := range map[string]struct {
		adaptive, fixed bool
		thinks          policy.ThinkingDefault
	}{
		"claude-opus-5-5": {true, true, policy.ThinksAlways}, "claude-haiku-5-5": {true, true, policy.ThinksByDefault},
		"claude-opus-4-6": {adaptive: true}, "claude-haiku-4-5": {},
	} {
		order, err := r.Resolve(model, "")
		if err != nil {
			t.Fatal(err)
		}
		if to := order[0]; to.AdaptiveThinking != want.adaptive || to.FixedSampling != want.fixed || to.Thinks != want.thinks {
			t.Errorf("%s: adaptive %v, fixed sampling %v, thinks %q", model, to.AdaptiveThinking, to.FixedSampling, to.Thinks)
		}
	}
}
