package resolve_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

const cheapOnes = `
providers:
  order: [a, b, quiet, hushed]
  custom:
    - {id: a, endpoints: ["http://localhost:1/v1"], models: [{id: claude-opus-4-6}, {id: small, quality: low, price: {input: 1, output: 2}}]}
    - {id: b, endpoints: ["http://localhost:2/v1"], models: [{id: tiny, quality: minimum, price: {input: 0.1, output: 0.1}}, {id: mini, quality: low, price: {input: 0.5, output: 4}}]}
    - {id: quiet, private: true, endpoints: ["http://localhost:4/v1"], models: [{id: llama-3.3-70b}]}
    - {id: hushed, private: true, endpoints: ["http://localhost:5/v1"], models: [{id: calm, quality: low, price: {input: 2, output: 2}}]}
`

// TestD05WhoServesASideCall: the operator's choice, then the cheapest for a call of that length, within all constraints of the request.
func TestD05WhoServesASideCall(t *testing.T) {
	r := configured(t, cheapOnes)
	call := resolve.SideNeeds{Input: 9000, Output: 400, Quality: policy.QualityLow}
	for _, row := range []struct {
		about string
		in    policy.Intent
		first string // provider and model that would answer the request
		with  func(*resolve.SideNeeds)
		want  string // "" for nobody
	}{
		{"the cheapest that is good enough", policy.Intent{Model: "claude-opus-4-6"}, "a/claude-opus-4-6", nil, "b/mini"},
		{"which depends on the length", policy.Intent{Model: "claude-opus-4-6"}, "a/claude-opus-4-6", func(s *resolve.SideNeeds) { s.Input, s.Output = 100, 4000 }, "a/small"},
		{"what the operator wants", policy.Intent{Model: "claude-opus-4-6"}, "a/claude-opus-4-6", func(s *resolve.SideNeeds) { s.First = "a/small" }, "a/small"},
		{"a floor", policy.Intent{Model: "claude-opus-4-6"}, "a/claude-opus-4-6", func(s *resolve.SideNeeds) { s.Quality = policy.QualityMinimum }, "b/tiny"},
		{"a provider that is named", policy.Intent{Model: "a/claude-opus-4-6"}, "a/claude-opus-4-6", nil, "a/small"},
		{"a plan", policy.Intent{Model: "claude-opus-4-6", Barred: []policy.ProviderID{"b", "quiet", "hushed"}}, "a/claude-opus-4-6", nil, "a/small"},
		{"nobody of the plan", policy.Intent{Model: "claude-opus-4-6", Barred: []policy.ProviderID{"b", "quiet", "hushed", "a"}}, "a/claude-opus-4-6", nil, ""},
		{"a private request", policy.Intent{Model: "llama-3.3-70b", Security: policy.SecurityPrivate}, "quiet/llama-3.3-70b", nil, "quiet/llama-3.3-70b"},
		{"a private request of a provider", policy.Intent{Model: "hushed/calm", Security: policy.SecurityPrivate}, "hushed/calm", nil, "hushed/calm"},
		{"a request that has privacy and prefers it", policy.Intent{Model: "llama-3.3-70b", Prefer: []policy.Feature{policy.Privacy}}, "quiet/llama-3.3-70b", nil, "quiet/llama-3.3-70b"},
		{"an enclave that nobody has", policy.Intent{Model: "llama-3.3-70b", PrivacyTier: policy.PrivacyTEE}, "quiet/llama-3.3-70b", nil, ""},
		{"a feature that nobody has", policy.Intent{Model: "claude-opus-4-6", Require: []policy.Feature{policy.EndToEndEncryption}}, "a/claude-opus-4-6", nil, ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			needs := call
			if row.with != nil {
				row.with(&needs)
			}
			got := r.SideCandidates(&row.in, resolved(t, r, row.first), &needs)
			switch {
			case row.want == "" && len(got) > 0, row.want != "" && len(got) == 0:
				t.Errorf("got %s, want %q", ways(got), row.want)
			case row.want != "" && string(got[0].Provider)+"/"+string(got[0].Model) != row.want:
				t.Errorf("got %s, want %s", ways(got), row.want)
			}
		})
	}
}

// TestD05ASideCallWeakensNothing: privacy, tier, plan, required features and the named provider of any request hold for its side calls.
func TestD05ASideCallWeakensNothing(t *testing.T) {
	asked := 0
	each(t, 80, func(t *testing.T, r *resolve.Resolver, in policy.Intent, rnd *rand.Rand) {
		t.Helper()
		order := r.Decide(&in).Order
		if len(order) == 0 {
			return
		}
		first := &order[rnd.IntN(len(order))]
		for _, to := range r.SideCandidates(&in, first, &resolve.SideNeeds{Input: 8000, Output: 400, Quality: policy.QualityLow}) {
			asked++
			if why := weakened(&in, first, &to); why != "" {
				t.Fatalf("%+v at %s: %s: %s", in, way(first), way(&to), why)
			}
			for _, f := range in.Require {
				if !slices.Contains(to.Features, f) {
					t.Fatalf("%+v: %s lacks %s", in, way(&to), f)
				}
			}
			if in.PrivacyTier == policy.PrivacyTEE && !slices.Contains(to.Features, policy.TEEAttested) {
				t.Fatalf("%+v: %s has no enclave", in, way(&to))
			}
		}
	})
	if asked == 0 {
		t.Error("nobody was asked: nothing was shown")
	}
}

// TestASideCallOfFreeSubsystemsIsFree: a subsystem on free models has no side calls that cost anything.
func TestASideCallOfFreeSubsystemsIsFree(t *testing.T) {
	r := configured(t, cheapOnes)
	in := intent.Of("heartbeat_t0")
	if got := r.SideCandidates(&in, resolved(t, r, "a/small"), &resolve.SideNeeds{Input: 100, Output: 100}); len(got) > 0 {
		t.Errorf("%s costs something", ways(got))
	}
}
