package resolve_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

// random returns a random intent.
func random(rnd *rand.Rand) policy.Intent {
	in := policy.Intent{CostSensitivity: 0.5}
	if names := append(intent.Names(), "context", "social", "dream_rem", ""); rnd.IntN(4) > 0 {
		if name := names[rnd.IntN(len(names))]; name != "" {
			in = intent.Of(name)
		}
	}
	some := func() (out []policy.Feature) {
		for _, f := range policy.Features() {
			if rnd.IntN(12) == 0 {
				out = append(out, f)
			}
		}
		return out
	}
	if rnd.IntN(2) == 0 {
		in.Require, in.Prefer = some(), some()
	}
	if models := []string{"", "", "", "deepseek-r1", "claude-opus-4.6", "venice/deepseek-r1", "nobody"}; in.Model == "" {
		in.Model = models[rnd.IntN(len(models))]
	}
	in.Quality = policy.Quality(rnd.IntN(6))
	in.Effort = policy.Effort(rnd.IntN(6))
	in.Security = policy.SecurityClass(rnd.IntN(3))
	in.PrivacyTier = policy.PrivacyTier(rnd.IntN(4))
	in.CostSensitivity = rnd.Float64()
	in.DIEM, in.Schema, in.Tools, in.Images = rnd.IntN(3) == 0, rnd.IntN(3) == 0, rnd.IntN(3) == 0, rnd.IntN(5) == 0
	in.InputTokens, in.OutputTokens = rnd.Int64N(400_000), rnd.Int64N(100_000)
	if rnd.IntN(2) == 0 {
		in.MaxLatency = time.Duration(rnd.Int64N(int64(20 * time.Second)))
	}
	if rnd.IntN(6) == 0 {
		in.Barred = []policy.ProviderID{"blockrun", "venice"}[:1+rnd.IntN(2)]
	}
	return in
}

// all returns the fixtures, and the many models, under every rule.
func all(t testing.TB) []*resolve.Resolver {
	t.Helper()
	var out []*resolve.Resolver
	for _, name := range []string{"typical", "minimal", "full", "ladders"} {
		for _, mode := range []resolve.Mode{resolve.ModeUnset, resolve.ModeVenice, resolve.ModeBardo, resolve.ModeBoth} {
			for _, s := range []resolve.Strategy{resolve.Auto, resolve.Ordered, resolve.Scored} {
				out = append(out, readFixture(t, name).WithRules(resolve.Rules{Strategy: s, Mode: mode}))
			}
		}
	}
	return append(out, crowd(t), configured(t, both))
}

func each(t *testing.T, n int, check func(t *testing.T, r *resolve.Resolver, in policy.Intent, rnd *rand.Rand)) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, r := range all(t) {
		for range n {
			check(t, r, random(rnd), rnd)
		}
	}
}

func TestD12PrivacyIsNeverRelaxed(t *testing.T) {
	served := 0
	each(t, 100, func(t *testing.T, r *resolve.Resolver, in policy.Intent, rnd *rand.Rand) {
		t.Helper()
		if rnd.IntN(2) == 0 {
			in.Security = policy.SecurityPrivate
		} else {
			in.PrivacyTier = policy.PrivacyEndToEnd
		}
		d := r.Decide(&in)
		for _, res := range d.Order {
			served++
			if !res.Private || in.PrivacyTier == policy.PrivacyEndToEnd && !slices.Contains(res.Features, policy.EndToEndEncryption) {
				t.Fatalf("%+v is served by %s", in, way(&res))
			}
		}
	})
	if served == 0 {
		t.Error("nothing was served: nothing was shown")
	}
}

func TestACallersPlanIsNeverRelaxed(t *testing.T) {
	each(t, 60, func(t *testing.T, r *resolve.Resolver, in policy.Intent, _ *rand.Rand) {
		t.Helper()
		for _, res := range r.Decide(&in).Order {
			if slices.Contains(in.Barred, res.Provider) {
				t.Fatalf("%+v is served by %s", in, way(&res))
			}
		}
	})
}

// A provider that serves a request in the strict pass also serves it in the relaxed one.
func TestD10TheRelaxedPassIsASupersetOfTheStrictOne(t *testing.T) {
	each(t, 100, func(t *testing.T, r *resolve.Resolver, in policy.Intent, _ *rand.Rand) {
		t.Helper()
		d := r.Decide(&in)
		for _, res := range d.Order {
			loose := in
			loose.Require, loose.Prefer = nil, append(slices.Clone(in.Require), in.Prefer...)
			loose.Quality, loose.Effort, loose.Schema = 0, 0, false
			if in.Subsystem == "" && len(loose.Prefer) == 0 {
				continue // then the scorer decides, as before
			}
			if loose.PrivacyTier < policy.PrivacyEndToEnd && !slices.Contains(in.Require, policy.EndToEndEncryption) {
				loose.PrivacyTier = 0
			}
			loose.Provider = res.Provider
			if in.Model == "" && r.Decide(&loose).Err != nil {
				t.Fatalf("%+v is served by %s, and %+v is not", in, way(&res), loose)
			}
		}
	})
}

func TestMoreCostSensitivityNeverPicksADearerModel(t *testing.T) {
	price := func(res *policy.Resolution) policy.Pico { return res.Prices.Cost(10_000, 0, 0, 0, 10_000) }
	each(t, 100, func(t *testing.T, r *resolve.Resolver, in policy.Intent, rnd *rand.Rand) {
		t.Helper()
		more := in
		more.CostSensitivity = in.CostSensitivity + rnd.Float64()*(1-in.CostSensitivity)
		r = r.WithRules(resolve.Rules{Strategy: resolve.Ordered})
		less, dear := r.Decide(&in), r.Decide(&more)
		if len(less.Order) == 0 || len(dear.Order) == 0 {
			if len(less.Order) != len(dear.Order) {
				t.Fatalf("%+v: %s; %s", in, ways(less.Order), ways(dear.Order))
			}
			return
		}
		if price(&dear.Order[0]) > price(&less.Order[0]) {
			t.Fatalf("%v: %s; %v: %s", in.CostSensitivity, way(&less.Order[0]), more.CostSensitivity, way(&dear.Order[0]))
		}
	})
}

// The scorer never prefers a more expensive provider of a named model, either.
func TestMoreCostSensitivityNeverScoresADearerProviderHigher(t *testing.T) {
	r := configured(t, `
providers:
  custom:
    - {id: a, endpoints: [http://localhost:1/v1], models: [{id: m, price: {input: 1, output: 2}, latency_p50_ms: 900}]}
    - {id: b, endpoints: [http://localhost:2/v1], models: [{id: m, price: {input: 3, output: 2}, latency_p50_ms: 100}]}
    - {id: c, endpoints: [http://localhost:3/v1], models: [{id: m, price: {input: 3, output: 9}, latency_p50_ms: 10, quality: maximum}]}
`)
	first, last := policy.Pico(0), policy.Pico(math.MaxInt64)
	for cs := 0.0; cs <= 1; cs += 0.01 {
		d := r.Decide(&policy.Intent{Model: "m", CostSensitivity: cs, MaxLatency: time.Second})
		if d.Err != nil || len(d.Order) != 3 {
			t.Fatal(d.Err, ways(d.Order))
		}
		cost := d.Order[0].Prices.Cost(1, 0, 0, 0, 1)
		if cost > last {
			t.Fatalf("at %v: %s", cs, ways(d.Order))
		}
		first, last = max(first, cost), cost
	}
	if last >= first {
		t.Errorf("cost does not matter: from %v to %v", first, last)
	}
}

// D-11: missing features are named in the requested order, each once.
func TestD11WhatIsMissingIsNamed(t *testing.T) {
	each(t, 60, func(t *testing.T, r *resolve.Resolver, in policy.Intent, _ *rand.Rand) {
		t.Helper()
		for _, res := range r.Decide(&in).Order {
			var want []string
			for _, f := range slices.Concat(in.Require, in.Prefer) {
				if !slices.Contains(res.Features, f) && !slices.Contains(want, string(f)) {
					want = append(want, string(f))
				}
			}
			got := slices.DeleteFunc(slices.Clone(res.Degraded), func(s string) bool { return s == "privacy_tier" })
			if !slices.Equal(got, want) {
				t.Fatalf("%s lacks %q, want %q of %+v", way(&res), res.Degraded, want, in)
			}
		}
	})
}

// Every provider stands in the order or is refused for a reason, and what is explained is what is decided.
func TestEachRefusalNamesItsReason(t *testing.T) {
	each(t, 100, func(t *testing.T, r *resolve.Resolver, in policy.Intent, _ *rand.Rand) {
		t.Helper()
		d, e := r.Decide(&in), r.Explain(&in)
		if ways(d.Order) != ways(e.Order) || (d.Err == nil) != (e.Err == nil) || (d.Err == nil) != (len(d.Order) > 0) {
			t.Fatalf("decided %s, %v; explained %s, %v", ways(d.Order), d.Err, ways(e.Order), e.Err)
		}
		for _, no := range e.Refused {
			if no.Reason == "" || slices.ContainsFunc(e.Order, func(res policy.Resolution) bool { return res.Provider == no.Provider }) {
				t.Fatalf("%+v of %+v", no, in)
			}
			if in.Model == "" && no.Reason == "others come before it" {
				t.Fatalf("%+v: %+v in %s", in, no, ways(e.Order))
			}
		}
		for i := range e.Order {
			if e.Order[i].Why == "" || d.Order[i].Why != "" {
				t.Fatalf("%s: %q, %q", way(&e.Order[i]), e.Order[i].Why, d.Order[i].Why)
			}
		}
	})
}

// FuzzDecide: any intent results in an order or a fault, deterministically, without duplicates, private where required, and free where nothing may be
// paid.
func FuzzDecide(f *testing.F) {
	rs := all(f)
	f.Add(uint64(1), "", "", false)
	f.Add(uint64(7), "blockrun/claude-opus-4-6", "", true)
	f.Add(uint64(9), "", "venice", false)
	f.Fuzz(func(t *testing.T, seed uint64, model, provider string, private bool) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		in := random(rnd)
		in.Model, in.Provider = model, policy.ProviderID(provider)
		in.InputTokens, in.OutputTokens = int64(rnd.Uint64()), int64(rnd.Uint64())
		in.CostSensitivity = math.Float64frombits(rnd.Uint64())
		if private {
			in.Security = policy.SecurityPrivate
		}
		r := rs[rnd.IntN(len(rs))]
		d := r.Decide(&in)
		if (d.Err == nil) == (len(d.Order) == 0) {
			t.Fatalf("%v and %s", d.Err, ways(d.Order))
		}
		if again := ways(r.Decide(&in).Order); again != ways(d.Order) {
			t.Fatalf("%s, then %s", ways(d.Order), again)
		}
		seen := map[string]bool{}
		for _, res := range d.Order {
			id := string(res.Provider) + "/" + res.Upstream
			free := res.Prices.Known && res.Prices.Input == 0 && res.Prices.Output == 0
			if seen[id] || private && !res.Private || in.Subsystem == "heartbeat_t0" && !free {
				t.Fatalf("%+v: %s", in, ways(d.Order))
			}
			seen[id] = true
		}
	})
}
