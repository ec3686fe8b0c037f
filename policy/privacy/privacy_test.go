package privacy

import (
	"testing"

	"bardo.money/gateway/policy"
)

func TestP04EachClassHasItsTier(t *testing.T) {
	want := map[string]policy.PrivacyTier{
		"heartbeat": policy.PrivacyNoLog, "plan": policy.PrivacyTEE, "trade": policy.PrivacyTEE, "negotiate": policy.PrivacyTEE,
		"dream_nrem": policy.PrivacyNoLog, "dream_rem": policy.PrivacyNoLog, "dream_integration": policy.PrivacyTEE, "incident": policy.PrivacyNoLog,
		"sealed_auction": policy.PrivacyEndToEnd, "mev_scenario": policy.PrivacyEndToEnd, "testament": policy.PrivacyNoLog, "judge": policy.PrivacyNoLog,
	}
	if got := Classes(); len(got) != len(want) {
		t.Errorf("%d classes, want %d: %v", len(got), len(want), got)
	}
	for class, tier := range want {
		if got := TierOf(class); got != tier || !IsClass(class) {
			t.Errorf("%s is %s, want %s", class, got, tier)
		}
	}
	if TierOf("") != policy.PrivacyUnset || IsClass("tradein") {
		t.Error("a name that is no class has a tier")
	}
}

// The Daimon raises a request's class, such as incident to an enclave; no hint lowers it.
func TestD28HintsRaiseTheTierOfAClassAndNeverLowerIt(t *testing.T) {
	yes, no := new(true), new(false)
	for _, row := range []struct {
		about string
		h     policy.Hints
		want  policy.PrivacyTier
	}{
		{"nothing", policy.Hints{}, policy.PrivacyUnset},
		{"a class", policy.Hints{TaskClass: "incident"}, policy.PrivacyNoLog},
		{"raised by the tier", policy.Hints{TaskClass: "incident", PrivacyTier: policy.PrivacyTEE}, policy.PrivacyTEE},
		{"raised by the flag", policy.Hints{TaskClass: "incident", TEE: yes}, policy.PrivacyTEE},
		{"raised by the profile", policy.Hints{TaskClass: "testament", Profile: &policy.Profile{TEE: yes}}, policy.PrivacyTEE},
		{"raised to the top", policy.Hints{TaskClass: "trade", PrivacyTier: policy.PrivacyEndToEnd}, policy.PrivacyEndToEnd},
		{"not lowered by the tier", policy.Hints{TaskClass: "trade", PrivacyTier: policy.PrivacyNoLog}, policy.PrivacyTEE},
		{"not lowered by the flag", policy.Hints{TaskClass: "sealed_auction", TEE: yes}, policy.PrivacyEndToEnd},
		{"a flag of false says nothing", policy.Hints{TaskClass: "trade", TEE: no}, policy.PrivacyTEE},
	} {
		if got := Tier(&row.h); got != row.want {
			t.Errorf("%s: %s, want %s", row.about, got, row.want)
		}
	}
}

func TestP09TheModeSaysWhichTiersAreInForce(t *testing.T) {
	class := func(name string) policy.Hints { return policy.Hints{TaskClass: name} }
	for _, row := range []struct {
		h                    policy.Hints
		sensitive, all, none policy.PrivacyTier
	}{
		{class(""), 0, 0, 0},
		{class("heartbeat"), 0, policy.PrivacyNoLog, 0},
		{class("trade"), policy.PrivacyTEE, policy.PrivacyTEE, 0},
		{class("mev_scenario"), policy.PrivacyEndToEnd, policy.PrivacyEndToEnd, 0},
		{policy.Hints{TaskClass: "heartbeat", PrivacyTier: policy.PrivacyNoLog}, policy.PrivacyNoLog, policy.PrivacyNoLog, 0},
		{policy.Hints{PrivacyTier: policy.PrivacyTEE}, policy.PrivacyTEE, policy.PrivacyTEE, 0},
	} {
		for plane, want := range map[Plane]policy.PrivacyTier{Sensitive: row.sensitive, All: row.all, None: row.none} {
			if got := InForce(&row.h, plane); got != want {
				t.Errorf("%s, %s, plane %d: %q, want %q", row.h.TaskClass, row.h.PrivacyTier, plane, got, want)
			}
		}
	}
}

// TestP09AClassWhoseTierIsPrivateAsksForItWhereAllTasksGoToThePrivatePlane, and nowhere else; what is in force is always asked for.
func TestP09AClassWhoseTierIsPrivateAsksForItWhereAllTasksGoToThePrivatePlane(t *testing.T) {
	for _, class := range append(Classes(), "") {
		for hint := policy.PrivacyUnset; hint <= policy.PrivacyEndToEnd; hint++ {
			h := policy.Hints{TaskClass: class, PrivacyTier: hint}
			for _, plane := range []Plane{Sensitive, All, None} {
				want := max(TierOf(class), hint)
				if want == policy.PrivacyNoLog && hint == policy.PrivacyUnset && plane != All {
					want = policy.PrivacyUnset
				}
				if got := RequestedTier(&h, plane); got != want || InForce(&h, plane) > got {
					t.Errorf("%s, hint %q, plane %d: %q, want %q; in force %q", class, hint, plane, got, want, InForce(&h, plane))
				}
			}
		}
	}
}

// The four tiers against every combination of content, by an independent copy of the rules.
func TestP04ConstraintsOfEachTier(t *testing.T) {
	for tier := policy.PrivacyUnset; tier <= policy.PrivacyEndToEnd; tier++ {
		for bits := range 16 {
			have := Content{Tools: bits&1 != 0, WebSearch: bits&2 != 0, Uploads: bits&4 != 0, Schema: bits&8 != 0}
			want := Met
			switch {
			case have.Tools && tier == policy.PrivacyEndToEnd:
				want = ToolCallingAllowed
			case have.WebSearch && tier != policy.PrivacyUnset:
				want = WebSearchAllowed
			case have.Uploads && tier >= policy.PrivacyTEE:
				want = FileUploadAllowed
			case !have.Schema && tier >= policy.PrivacyTEE:
				want = StructuredOutputRequired
			}
			if got := Of(tier, &policy.Hints{}).Violated(have); got != want {
				t.Errorf("tier %q, %+v: %q, want %q", tier, have, got, want)
			}
		}
	}
}

func TestExceptionsOfClasses(t *testing.T) {
	search, plain := Content{WebSearch: true}, Content{}
	for _, row := range []struct {
		about string
		tier  policy.PrivacyTier
		h     policy.Hints
		have  Content
		want  Constraint
	}{
		{"a REM dream searches", policy.PrivacyNoLog, policy.Hints{TaskClass: "dream_rem"}, search, Met},
		{"by its subsystem", policy.PrivacyNoLog, policy.Hints{Subsystem: "dream_rem_creative"}, search, Met},
		{"an NREM dream does not", policy.PrivacyNoLog, policy.Hints{TaskClass: "dream_nrem"}, search, WebSearchAllowed},
		{"nor a REM dream in an enclave", policy.PrivacyTEE, policy.Hints{TaskClass: "dream_rem"}, search, WebSearchAllowed},
		{"a testament is free text", policy.PrivacyTEE, policy.Hints{TaskClass: "testament"}, plain, Met},
		{"and the subsystem's", policy.PrivacyTEE, policy.Hints{Subsystem: "death_reflect"}, plain, Met},
		{"but not where it is sealed", policy.PrivacyEndToEnd, policy.Hints{TaskClass: "testament"}, plain, StructuredOutputRequired},
		{"a trade is none", policy.PrivacyTEE, policy.Hints{TaskClass: "trade"}, plain, StructuredOutputRequired},
	} {
		if got := Of(row.tier, &row.h).Violated(row.have); got != row.want {
			t.Errorf("%s: %q, want %q", row.about, got, row.want)
		}
	}
	for _, c := range []Constraint{ToolCallingAllowed, WebSearchAllowed, FileUploadAllowed, StructuredOutputRequired} {
		if c.Requirement() == "" || c.Member() == "" {
			t.Errorf("%s says nothing", c)
		}
	}
}

func TestP04TheDefaultTierIsForRequestsWithoutOne(t *testing.T) {
	asks := policy.Intent{Subsystem: "daimon", Prefer: []policy.Feature{policy.Privacy}}
	for _, row := range []struct {
		about                string
		h                    policy.Hints
		in                   policy.Intent
		sensitive, all, none bool
	}{
		{"nothing asks for privacy", policy.Hints{}, policy.Intent{}, false, false, false},
		{"an agent's task that does not ask for it", policy.Hints{Subsystem: "curator"}, policy.Intent{Subsystem: "curator"}, false, true, false},
		{"a subsystem that prefers it", policy.Hints{Subsystem: "daimon"}, asks, true, true, false},
		{"a required feature", policy.Hints{}, policy.Intent{Require: []policy.Feature{policy.NoLog}}, true, true, false},
		{"the security class", policy.Hints{}, policy.Intent{Security: policy.SecurityPrivate}, true, true, false},
		{"another security class", policy.Hints{}, policy.Intent{Security: policy.SecurityConfidential}, false, false, false},
		{"a class says its tier", policy.Hints{Subsystem: "daimon", TaskClass: "incident"}, asks, false, false, false},
		{"a hint says it", policy.Hints{Subsystem: "daimon", PrivacyTier: policy.PrivacyNoLog}, asks, false, false, false},
		{"a flag says it", policy.Hints{Subsystem: "daimon", TEE: new(true)}, asks, false, false, false},
		{"a dream", policy.Hints{Subsystem: "dream_rem"}, policy.Intent{Subsystem: "dream", Prefer: asks.Prefer}, false, false, false},
	} {
		for plane, want := range map[Plane]bool{Sensitive: row.sensitive, All: row.all, None: row.none} {
			if got := TakesDefault(&row.h, &row.in, plane); got != want {
				t.Errorf("%s, plane %d: %v, want %v", row.about, plane, got, want)
			}
		}
	}
}
