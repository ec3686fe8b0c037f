package resolve_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

const opinions = `
providers:
  order: [a, b, retentive, quiet, whispering, bankr]
  bankr: {endpoint: "http://localhost:9/v1", api_key: k, models: [{id: gpt-5.2, quality: high}, {id: claude-opus-4-6}]}
  custom:
    - {id: a, endpoints: ["http://localhost:1/v1"], models: [{id: claude-opus-4-6}, {id: claude-haiku-4-5}, {id: gemini-2.5-pro, quality: maximum}]}
    - {id: b, endpoints: ["http://localhost:2/v1"], models: [{id: claude-opus-4-6}, {id: deepseek-r1, quality: high}]}
    - {id: retentive, endpoints: ["http://localhost:3/v1"], models: [{id: mine}]}
    - {id: quiet, private: true, endpoints: ["http://localhost:4/v1"], models: [{id: llama-3.3-70b}, {id: qwen3-32b}]}
    - {id: whispering, private: true, endpoints: ["http://localhost:5/v1"], models: [{id: llama-3.3-70b}]}
`

// R-29, D-05: the candidates for verifying an answer.
func TestR29WhoGivesASecondOpinion(t *testing.T) {
	r := configured(t, opinions)
	for _, row := range []struct {
		about   string
		in      policy.Intent
		first   string // provider and model that answer
		want    string // the first of those that are asked next
		nobody  bool
		without string // provider that must not be asked
	}{
		{about: "who is there for it comes first", in: intent.Of("risk"), first: "a/claude-opus-4-6", want: "bankr/gpt-5.2"},
		{about: "another family, elsewhere before here", in: policy.Intent{Model: "gpt-5.2"}, first: "bankr/gpt-5.2", want: "a/gemini-2.5-pro"},
		{about: "a provider that is named stays", in: policy.Intent{Model: "a/claude-opus-4-6"}, first: "a/claude-opus-4-6", want: "a/gemini-2.5-pro"},
		{about: "one that is named apart, too", in: policy.Intent{Model: "claude-opus-4-6", Provider: "b"}, first: "b/claude-opus-4-6", want: "b/deepseek-r1"},
		{about: "and nobody else is asked", in: policy.Intent{Model: "retentive/mine"}, first: "retentive/mine", nobody: true},
		{
			about: "what is private stays so", in: policy.Intent{Model: "llama-3.3-70b", Security: policy.SecurityPrivate},
			first: "whispering/llama-3.3-70b", want: "quiet/qwen3-32b",
		},
		{
			about: "what wants privacy and has it keeps it", in: policy.Intent{Model: "llama-3.3-70b", Prefer: []policy.Feature{policy.Privacy}},
			first: "whispering/llama-3.3-70b", want: "quiet/qwen3-32b", without: "a",
		},
		{
			about: "one private provider with one family", in: policy.Intent{Model: "quiet/llama-3.3-70b", Security: policy.SecurityPrivate},
			first: "quiet/llama-3.3-70b", want: "quiet/qwen3-32b",
		},
		{
			about: "nobody else that is private", in: policy.Intent{Model: "whispering/llama-3.3-70b", Security: policy.SecurityPrivate},
			first: "whispering/llama-3.3-70b", nobody: true,
		},
		{about: "a plan holds", in: policy.Intent{Subsystem: "risk", Barred: []policy.ProviderID{"bankr", "b"}}, first: "a/claude-opus-4-6", want: "retentive/mine", without: "bankr"},
	} {
		t.Run(row.about, func(t *testing.T) {
			first := resolved(t, r, row.first)
			got := r.Verifiers(&row.in, first)
			if row.nobody {
				if len(got) > 0 {
					t.Errorf("%s", ways(got))
				}
				return
			}
			if len(got) == 0 || string(got[0].Provider)+"/"+string(got[0].Model) != row.want {
				t.Errorf("got %s, want %s", ways(got), row.want)
			}
			if slices.ContainsFunc(got, func(to policy.Resolution) bool { return string(to.Provider) == row.without }) {
				t.Errorf("%s may not be asked: %s", row.without, ways(got))
			}
		})
	}
}

// resolved is the one way to serve a model at a provider.
func resolved(t *testing.T, r *resolve.Resolver, id string) *policy.Resolution {
	t.Helper()
	provider, model, _ := strings.Cut(id, "/")
	ways, err := r.Resolve(model, provider)
	if err != nil {
		t.Fatal(err)
	}
	return &ways[0]
}

// D-05, D-12: the privacy, tier, plan and required features of the first call apply to the second, which is of another family.
func TestD05ASecondOpinionWeakensNothing(t *testing.T) {
	asked := 0
	each(t, 80, func(t *testing.T, r *resolve.Resolver, in policy.Intent, rnd *rand.Rand) {
		t.Helper()
		order := r.Decide(&in).Order
		if len(order) == 0 {
			return
		}
		first := &order[rnd.IntN(len(order))]
		for _, to := range r.Verifiers(&in, first) {
			asked++
			why := weakened(&in, first, &to)
			free := to.Prices.Known && to.Prices.Input == 0 && to.Prices.Output == 0
			switch {
			case why != "" && (why != "it was not asked for" || in.Provider != ""):
				t.Fatalf("%+v at %s: %s: %s", in, way(first), way(&to), why)
			case first.Family != "" && to.Family == first.Family:
				t.Fatalf("%s and %s are of one family", way(first), way(&to))
			case in.Subsystem == "heartbeat_t0" && !free:
				t.Fatalf("%s costs something", way(&to))
			case strings.HasPrefix(in.Model, "venice/") && first.Provider == "venice" && to.Provider != "venice":
				t.Fatalf("%+v: %s was not asked for", in, way(&to))
			}
		}
	})
	if asked == 0 {
		t.Error("nobody was asked: nothing was shown")
	}
}

// arbitrary returns a configuration of random providers and models.
func arbitrary(rnd *rand.Rand) string {
	var b strings.Builder
	b.WriteString("providers:\n  custom:\n")
	for p := range 2 + rnd.IntN(5) {
		fmt.Fprintf(&b, "    - {id: p%d, endpoints: [\"http://localhost:%d/v1\"], private: %v, models: [", p, p+1, rnd.IntN(3) == 0)
		for m := range 1 + rnd.IntN(4) {
			var can []string
			for _, f := range []string{"tools", "vision", "structured_outputs", "visible_thinking", "tee_attested", "e2ee", "citations"} {
				if rnd.IntN(2) == 0 {
					can = append(can, f)
				}
			}
			fmt.Fprintf(&b, "{id: m%d, family: f%d, quality: %s, price: {input: %d, output: %d}, capabilities: [%s]}, ",
				m, rnd.IntN(4), policy.Quality(1+rnd.IntN(5)), rnd.IntN(5), rnd.IntN(9), strings.Join(can, ", "))
		}
		b.WriteString("]}\n")
	}
	return b.String()
}

// D-05: the same for random catalogs, for verification and for a better tier.
func TestD05NothingIsWeakenedInAnyCatalog(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 29))
	asked := 0
	for range 300 {
		r := configured(t, arbitrary(rnd))
		for range 20 {
			in := random(rnd)
			in.Model = []string{"", "m0", "p0/m0"}[rnd.IntN(3)]
			order := r.Decide(&in).Order
			if len(order) == 0 {
				continue
			}
			first := &order[rnd.IntN(len(order))]
			for _, to := range r.Verifiers(&in, first) {
				asked++
				if why := weakened(&in, first, &to); why != "" || r.SameFamily(first, &to) {
					t.Fatalf("%+v at %s: %s: %s", in, way(first), way(&to), why)
				}
			}
			above := in
			above.Model, above.Quality = "", policy.QualityHigh
			for _, to := range r.Decide(&above).Order {
				if why := weakened(&in, first, &to); why != "" && !resolve.Weaker(&in, first, &to) && why != "it was not asked for" {
					t.Fatalf("%+v at %s: %s: %s", in, way(first), way(&to), why)
				}
			}
		}
	}
	if asked < 1000 {
		t.Errorf("%d were asked: little was shown", asked)
	}
}

// weakened returns a restriction of a request that a candidate does not meet although first does; "" for none.
func weakened(in *policy.Intent, first, to *policy.Resolution) string {
	wants := slices.Clone(in.Require)
	if in.PrivacyTier >= policy.PrivacyTEE {
		wants = append(wants, policy.TEEAttested)
	}
	if in.PrivacyTier == policy.PrivacyEndToEnd {
		wants = append(wants, policy.EndToEndEncryption)
	}
	for _, f := range wants {
		if slices.Contains(first.Features, f) && !slices.Contains(to.Features, f) {
			return "it lacks " + string(f)
		}
	}
	private := slices.Contains(slices.Concat(in.Require, in.Prefer), policy.Privacy) || in.PrivacyTier != policy.PrivacyUnset
	switch {
	case (in.Security == policy.SecurityPrivate || private && first.Private) && !to.Private:
		return "it is not private"
	case in.Bars(to.Provider):
		return "it is not of the caller's plan"
	case in.Provider != "" && to.Provider != in.Provider, strings.HasPrefix(in.Model, "p0/") && to.Provider != "p0":
		return "it was not asked for"
	}
	return ""
}

// TestD05WhatMakesAPrivateProviderBeKept: each mark of a request alone; a request without one may go on to any provider.
func TestD05WhatMakesAPrivateProviderBeKept(t *testing.T) {
	private, open := policy.Resolution{Private: true}, policy.Resolution{}
	for _, row := range []struct {
		in   policy.Intent
		want bool
	}{
		{policy.Intent{}, false},
		{policy.Intent{Security: policy.SecurityConfidential}, true},
		{policy.Intent{Security: policy.SecurityPrivate}, true},
		{policy.Intent{PrivacyTier: policy.PrivacyTEE}, true},
		{policy.Intent{Require: []policy.Feature{policy.NoLog}}, true},
		{policy.Intent{Prefer: []policy.Feature{policy.Privacy}}, true},
	} {
		if got := resolve.Weaker(&row.in, &private, &open); got != row.want {
			t.Errorf("%+v: %v", row.in, got)
		}
		if resolve.Weaker(&row.in, &open, &private) {
			t.Errorf("%+v: a private provider is weaker", row.in)
		}
	}
}
