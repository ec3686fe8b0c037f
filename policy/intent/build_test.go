package intent_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/privacy"
)

func build(h policy.Hints, f intent.Facts, t policy.Tier) intent.Built {
	return intent.Build(&h, &f, &policy.Principal{Tier: t}, &intent.Rules{Barred: plans})
}

// plans are the feature tiers of X-11, with the providers that each leaves out.
var plans = map[policy.Tier][]policy.ProviderID{policy.TierFree: {"venice", "bankr", "direct"}, policy.TierPro: {"bankr"}, policy.TierGolem: nil}

// The 21 rows of I-06.
var profiles = []string{
	"heartbeat_t1", "heartbeat_t2", "risk", "daimon", "daimon_complex", "curator", "playbook", "operator", "mind_wandering",
	"dream_nrem", "dream_rem", "dream_rem_creative", "dream_integration", "dream_threat",
	"hypnagogic_induction", "hypnagogic_dali", "hypnagogic_observer", "hypnagogic_capture", "hypnopompic_return",
	"death_reflect", "death_testament",
}

func TestEveryProfileHasAnIntent(t *testing.T) {
	for _, name := range profiles {
		b := build(policy.Hints{Subsystem: name}, intent.Facts{Model: "auto"}, policy.TierGolem)
		if !intent.Known(name) || b.SubsystemName != name || !slices.Contains(intent.Names(), b.Subsystem) || b.Quality == policy.QualityUnset || !b.Hinted() {
			t.Errorf("%s: %+v", name, b.Intent)
		}
	}
}

func TestHintsStandOverTheStaticIntent(t *testing.T) {
	b := build(policy.Hints{
		Subsystem: "dream_rem", Quality: policy.QualityLow, CostSensitivity: new(0.1), MaxLatency: time.Second, DIEMAvailable: true,
		Require: []policy.Feature{policy.Tools, policy.VisibleThinking}, Prefer: []policy.Feature{policy.VisibleThinking, policy.WebSearch},
		Profile: &policy.Profile{Schema: []byte("{}"), Effort: policy.EffortHigh},
	}, intent.Facts{Model: "auto", InputTokens: 5, OutputTokens: 6}, policy.TierGolem)
	if b.Subsystem != "dream" || b.SubsystemName != "dream_rem" || b.Quality != policy.QualityLow || b.CostSensitivity != 0.1 ||
		b.MaxLatency != time.Second || !b.DIEM || !b.Schema || b.Effort != policy.EffortHigh || b.InputTokens != 5 || b.OutputTokens != 6 {
		t.Errorf("got %+v", b.Intent)
	}
	if want := []policy.Feature{policy.Tools, policy.VisibleThinking}; !slices.Equal(b.Require, want) {
		t.Errorf("requires %v", b.Require)
	}
	if want := []policy.Feature{policy.VisibleThinking, policy.Privacy, policy.WebSearch}; !slices.Equal(b.Prefer, want) {
		t.Errorf("prefers %v", b.Prefer)
	}
	if again := intent.Of("dream"); len(again.Prefer) != 2 || len(again.Require) != 0 {
		t.Errorf("the static intent has become %+v", again)
	}
}

func TestAModelThatIsNamedStaysAConstraint(t *testing.T) {
	for model, auto := range map[string]bool{
		"": true, "auto": true, "Auto": true, "bardo": true, "bardo/auto": true,
		"openrouter/auto": false, "gpt-5": false, "autoglm": false, " ": false,
	} {
		b := build(policy.Hints{Subsystem: "risk"}, intent.Facts{Model: model, Provider: "p"}, "")
		if got := b.Model == "" && b.Provider == ""; got != auto || !auto && (b.Model != model || b.Provider != "p") {
			t.Errorf("%q: model %q at %q", model, b.Model, b.Provider)
		}
	}
}

func TestAnAgentsDeclineBoundsWhatItGets(t *testing.T) {
	for _, row := range []struct {
		about   string
		h       policy.Hints
		cost    float64
		quality policy.Quality
		why     string
	}{
		{"nothing is said", policy.Hints{Subsystem: "dream"}, 0.5, policy.QualityHigh, ""},
		{"vitality alone", policy.Hints{Subsystem: "dream", Vitality: new(0.2)}, 0.74, policy.QualityMedium, "mortality"},
		{"a thriving agent is whole", policy.Hints{Subsystem: "dream", Phase: policy.PhaseThriving}, 0.5, policy.QualityHigh, ""},
		{"the phase stands for the vitality", policy.Hints{Subsystem: "dream", Phase: policy.PhaseConservation}, 0.65, policy.QualityHigh, ""},
		{"declining", policy.Hints{Subsystem: "dream", Phase: policy.PhaseDeclining}, 0.74, policy.QualityMedium, "mortality"},
		{"terminal", policy.Hints{Subsystem: "dream", Phase: policy.PhaseTerminal}, 0.785, policy.QualityLow, "phase terminal"},
		{"vitality comes before the phase's", policy.Hints{Subsystem: "dream", Phase: policy.PhaseDeclining, Vitality: new(0.9)}, 0.53, policy.QualityMedium, "phase declining"},
		{"a phase caps what is asked for", policy.Hints{Subsystem: "curator", Phase: policy.PhaseConservation, Quality: policy.QualityMaximum}, 0.65, policy.QualityHigh, "phase conservation"},
		{"risk is exempt", policy.Hints{Subsystem: "risk", Phase: policy.PhaseTerminal, Vitality: new(0.0)}, 0, policy.QualityMaximum, ""},
		{"the operator is exempt", policy.Hints{Subsystem: "operator", Phase: policy.PhaseTerminal}, 0, policy.QualityMaximum, ""},
		{"death is exempt", policy.Hints{Subsystem: "death_testament", Phase: policy.PhaseTerminal}, 0, policy.QualityMaximum, ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			b := build(row.h, intent.Facts{}, policy.TierGolem)
			if diff := b.CostSensitivity - row.cost; diff > 1e-9 || diff < -1e-9 || b.Quality != row.quality {
				t.Errorf("got %v %s, want %v %s", b.CostSensitivity, b.Quality, row.cost, row.quality)
			}
			if got := strings.Join(b.Why, "; "); (row.why == "") != (got == "") || !strings.Contains(got, row.why) {
				t.Errorf("because %q", got)
			}
		})
	}
}

func TestD28ATaskIsAsPrivateAsItsClassAndNeverLess(t *testing.T) {
	for _, row := range []struct {
		about   string
		h       policy.Hints
		tier    policy.PrivacyTier
		require []policy.Feature
		prefer  []policy.Feature
	}{
		{"nothing", policy.Hints{}, policy.PrivacyUnset, nil, nil},
		{"a heartbeat may go anywhere", policy.Hints{TaskClass: "heartbeat"}, policy.PrivacyUnset, nil, nil},
		{"one that says so prefers no log", policy.Hints{PrivacyTier: policy.PrivacyNoLog}, policy.PrivacyNoLog, nil, []policy.Feature{policy.Privacy}},
		{"a trade wants an enclave", policy.Hints{TaskClass: "trade"}, policy.PrivacyTEE, nil, []policy.Feature{policy.TEEAttested, policy.Privacy}},
		{"a hint does not lower it", policy.Hints{TaskClass: "trade", PrivacyTier: policy.PrivacyNoLog, TEE: new(false)}, policy.PrivacyTEE, nil, []policy.Feature{policy.TEEAttested, policy.Privacy}},
		{"a flag raises it", policy.Hints{TaskClass: "incident", TEE: new(true)}, policy.PrivacyTEE, nil, []policy.Feature{policy.TEEAttested, policy.Privacy}},
		{"so does a profile", policy.Hints{Profile: &policy.Profile{TEE: new(true)}}, policy.PrivacyTEE, nil, []policy.Feature{policy.TEEAttested, policy.Privacy}},
		{"a sealed bid requires encryption", policy.Hints{TaskClass: "sealed_auction"}, policy.PrivacyEndToEnd, []policy.Feature{policy.EndToEndEncryption}, []policy.Feature{policy.Privacy}},
	} {
		t.Run(row.about, func(t *testing.T) {
			b := build(row.h, intent.Facts{Model: "m"}, "")
			if b.PrivacyTier != row.tier || !slices.Equal(b.Require, row.require) || !slices.Equal(b.Prefer, row.prefer) {
				t.Errorf("got %s, requires %v, prefers %v", b.PrivacyTier, b.Require, b.Prefer)
			}
		})
	}
}

// TestP09AHeartbeatAsksForNoLogWhereAllTasksGoToThePrivatePlane, as a caller's hint does.
func TestP09AHeartbeatAsksForNoLogWhereAllTasksGoToThePrivatePlane(t *testing.T) {
	for plane, want := range map[privacy.Plane]policy.PrivacyTier{privacy.Sensitive: policy.PrivacyUnset, privacy.All: policy.PrivacyNoLog, privacy.None: policy.PrivacyUnset} {
		b := intent.Build(&policy.Hints{TaskClass: "heartbeat"}, &intent.Facts{Model: "m"}, &policy.Principal{}, &intent.Rules{Plane: plane})
		if b.PrivacyTier != want || slices.Contains(b.Prefer, policy.Privacy) != (want != policy.PrivacyUnset) {
			t.Errorf("plane %d: tier %q, prefers %v", plane, b.PrivacyTier, b.Prefer)
		}
	}
}

func TestD05SecurityClassesAreCarried(t *testing.T) {
	for _, c := range []policy.SecurityClass{policy.SecurityStandard, policy.SecurityConfidential, policy.SecurityPrivate} {
		if b := build(policy.Hints{SecurityClass: c}, intent.Facts{}, policy.TierFree); b.Security != c {
			t.Errorf("%s has become %s", c, b.Security)
		}
	}
}

func TestR10PlansBarProvidersAndWeighCost(t *testing.T) {
	for tier, want := range map[policy.Tier]struct {
		cost   float64
		barred []policy.ProviderID
	}{
		policy.TierFree:  {0.9, []policy.ProviderID{"venice", "bankr", "direct"}},
		policy.TierPro:   {0.5, []policy.ProviderID{"bankr"}},
		policy.TierGolem: {0.3, nil},
		"":               {0.5, nil},
	} {
		b := build(policy.Hints{}, intent.Facts{Model: "m"}, tier)
		if b.CostSensitivity != want.cost || !slices.Equal(b.Barred, want.barred) || (len(b.Why) > 0) != (len(want.barred) > 0) {
			t.Errorf("%s: %v, barred %v, because %v", tier, b.CostSensitivity, b.Barred, b.Why)
		}
		for id, bars := range map[policy.ProviderID]bool{"direct": true, "direct/openai": true, "directory": false, "openai": false, "": false} {
			if b.Bars(id) != (bars && tier == policy.TierFree) {
				t.Errorf("%s: bars %q: %v", tier, id, b.Bars(id))
			}
		}
		b = intent.Build(&policy.Hints{CostSensitivity: new(0.0)}, &intent.Facts{}, &policy.Principal{Tier: tier}, &intent.Rules{})
		if b.CostSensitivity != 0 || b.Barred != nil {
			t.Errorf("%s without plans in use: %+v", tier, b)
		}
	}
}

func TestTiersPutTheOperatorsModelFirst(t *testing.T) {
	rules := intent.Rules{Tiers: map[string]string{"T1": "blockrun/claude-haiku-4-5", "T2": "claude-sonnet-4"}}
	for _, row := range []struct{ subsystem, model, first string }{
		{"heartbeat_t1", "auto", "blockrun/claude-haiku-4-5"},
		{"other", "auto", "blockrun/claude-haiku-4-5"},
		{"heartbeat_t2", "auto", "claude-sonnet-4"},
		{"heartbeat_t2", "gpt-5", ""},
		{"heartbeat_t0", "auto", ""},
		{"context", "auto", ""},
		{"social", "auto", ""},
		{"risk", "auto", ""},
		{"", "auto", ""},
	} {
		b := intent.Build(&policy.Hints{Subsystem: row.subsystem}, &intent.Facts{Model: row.model}, &policy.Principal{}, &rules)
		if b.First != row.first {
			t.Errorf("%s with %s: %q first", row.subsystem, row.model, b.First)
		}
	}
}

func TestR26TasksAreInferred(t *testing.T) {
	for _, row := range []struct {
		want    string
		quality policy.Quality
		f       intent.Facts
	}{
		{"chat", policy.QualityLow, intent.Facts{Text: "Where is the nearest station?"}},
		{"chat", policy.QualityLow, intent.Facts{}},
		{"reasoning", policy.QualityMaximum, intent.Facts{Effort: policy.EffortHigh, Text: "translate this"}},
		{"reasoning", policy.QualityMaximum, intent.Facts{Effort: policy.EffortMax}},
		{"agent", policy.QualityMaximum, intent.Facts{Tools: 8}},
		{"agent", policy.QualityHigh, intent.Facts{Tools: 1, SystemBytes: 8000}},
		{"tools", policy.QualityLow, intent.Facts{Tools: 1, SystemBytes: 7999, Images: true}},
		{"vision", policy.QualityMedium, intent.Facts{Images: true, Schema: true}},
		{"code", policy.QualityMedium, intent.Facts{Text: "why does this fail?\n```go\nx := 1\n```"}},
		{"classify", policy.QualityLow, intent.Facts{MaxTokens: 32, Schema: true}},
		{"extract", policy.QualityLow, intent.Facts{MaxTokens: 33, Schema: true}},
		{"translate", policy.QualityLow, intent.Facts{Text: "Translate into French: hello"}},
		{"translate", policy.QualityLow, intent.Facts{Text: "把这句话翻译成英文：你好"}},
		{"translate", policy.QualityLow, intent.Facts{Text: "Traduce: “Prove that every bounded sequence converges, and derive a counterexample.”"}},
		{"summarize", policy.QualityLow, intent.Facts{Text: "summarise the following"}},
		{"long", policy.QualityMedium, intent.Facts{InputTokens: 32_000}},
		{"maths", policy.QualityMaximum, intent.Facts{Text: "Prove that there are infinitely many primes p with p ≡ 3 (mod 4)."}},
		{"maths", policy.QualityMaximum, intent.Facts{Text: "Докажите, что уравнение x² + y² = 3z² не имеет решений в целых числах."}},
		{"chat", policy.QualityLow, intent.Facts{Text: "\xff\xfe ok"}},
	} {
		if got := intent.Infer(&row.f); got.Name != row.want || got.Quality != row.quality {
			t.Errorf("%.40q: got %s %s, want %s %s", row.f.Text, got.Name, got.Quality, row.want, row.quality)
		}
	}
}

// Earlier difficulty keeps the conversation difficult: "go on" needs the same quality.
func TestAConversationSoFarCounts(t *testing.T) {
	hard := "Prove that every finite group of order p²q has a normal Sylow subgroup, discuss each case, and give a counterexample for order p²q²."
	alone := intent.Infer(&intent.Facts{Text: "go on"})
	after := intent.Infer(&intent.Facts{Text: "go on", Earlier: [intent.ReadTurns]string{7: hard}})
	if first := intent.Infer(&intent.Facts{Text: hard}); alone.Quality != policy.QualityLow || after.Quality != first.Quality || first.Quality < policy.QualityHigh {
		t.Errorf("alone %s, after %s, at first %s", alone.Quality, after.Quality, first.Quality)
	}
}

// The points explain the difficulty, and inferring allocates nothing, for any text.
func TestInferringIsBounded(t *testing.T) {
	for _, text := range []string{
		"hi", strings.Repeat("証明せよ、", 5000), strings.Repeat("\xe4", 9000), strings.Repeat("\n\n- x\n", 4000), strings.Repeat("“", 3000), "```", strings.Repeat("İ", 4000),
		strings.Repeat("a ", 900) + "\n\nWhy?",
	} {
		f := intent.Facts{Text: text, InputTokens: 1000}
		got := intent.Infer(&f)
		sum := 0.0
		for _, p := range got.Points() {
			sum += p.Worth
		}
		if math.Abs(min(max(sum, 0), 1)-got.Difficulty) > 1e-9 || got.Output < 1 {
			t.Errorf("%.20q: %v of %v", text, got.Difficulty, got.Points())
		}
		if n := testing.AllocsPerRun(20, func() { intent.Infer(&f) }); n != 0 {
			t.Errorf("%.20q: %v allocations", text, n)
		}
	}
}

func BenchmarkInfer(b *testing.B) {
	f := intent.Facts{Text: strings.Repeat("Explique, s'il vous plaît, pourquoi le ciel est bleu. ", 80)}
	b.ReportAllocs()
	for b.Loop() {
		intent.Infer(&f)
	}
}

func TestATaskIsInferredOnlyWhereNothingIsSaid(t *testing.T) {
	code := intent.Facts{Model: "auto", Text: "why?\n```x```"}
	if b := build(policy.Hints{}, code, ""); b.Task.Name != "code" || b.Quality != policy.QualityMedium || b.Hinted() {
		t.Errorf("got %+v", b)
	}
	if b := build(policy.Hints{Quality: policy.QualityLow}, code, ""); b.Quality != policy.QualityLow {
		t.Errorf("the hint lost: %+v", b)
	}
	if b := build(policy.Hints{Subsystem: "daimon"}, code, ""); b.Task.Name != "" || b.Quality != policy.QualityLow {
		t.Errorf("got %+v", b)
	}
	code.Model = "gpt-5"
	if b := build(policy.Hints{}, code, ""); b.Task.Name != "" || b.Quality != policy.QualityUnset {
		t.Errorf("got %+v", b)
	}
}

func TestARequestWithoutHintsAllocatesNothing(t *testing.T) {
	h, f, who, rules := policy.Hints{}, intent.Facts{Model: "m", Tools: 3}, policy.Principal{Tier: policy.TierGolem}, intent.Rules{Barred: plans}
	if n := testing.AllocsPerRun(100, func() { _ = intent.Build(&h, &f, &who, &rules) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkBuild(b *testing.B) {
	who, rules := policy.Principal{Tier: policy.TierPro}, intent.Rules{Barred: plans}
	for name, h := range map[string]policy.Hints{
		"without hints": {}, "a golem": {Subsystem: "dream_rem", Vitality: new(0.2), TaskClass: "dream_rem"},
	} {
		b.Run(name, func(b *testing.B) {
			f := intent.Facts{Model: "auto", Text: strings.Repeat("a parcel is on its way. ", 80)}
			b.ReportAllocs()
			for b.Loop() {
				intent.Build(&h, &f, &who, &rules)
			}
		})
	}
}

func TestStakedCreditIsNotForCustomersWhoPrepay(t *testing.T) {
	for _, row := range []struct {
		about string
		who   policy.Principal
		want  bool
	}{
		{"the operator's own key", policy.Principal{Tier: policy.TierPro}, true},
		{"an agent's key", policy.Principal{Tier: policy.TierGolem, Prepaid: true}, true},
		{"a customer's key", policy.Principal{Tier: policy.TierPro, Prepaid: true}, false},
	} {
		b := intent.Build(&policy.Hints{Subsystem: "dream", DIEMAvailable: true}, &intent.Facts{Model: "auto"}, &row.who, &intent.Rules{})
		if b.DIEM != row.want {
			t.Errorf("%s: %v, want %v", row.about, b.DIEM, row.want)
		}
	}
}
