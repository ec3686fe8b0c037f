package profile_test

import (
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
)

// TestSelectProfileAndReasoning is the selection of S-12, line by line, with the pipeline that goes with each.
func TestSelectProfileAndReasoning(t *testing.T) {
	for _, row := range []struct {
		subsystem string
		security  policy.SecurityClass
		pipeline  string
		want      profile.Reasoning
	}{
		{"heartbeat_t0", 0, "minimal", profile.Reasoning{Depth: policy.EffortNone}},
		{"heartbeat_t1", 0, "fast", profile.Reasoning{Depth: policy.EffortLow}},
		{"heartbeat_t2", 0, "standard", profile.Reasoning{Depth: policy.EffortHigh}},
		{"dream", 0, "fast", profile.Reasoning{Depth: policy.EffortMax, Visible: true}},
		{"daimon", 0, "fast", profile.Reasoning{Depth: policy.EffortNone}},
		{"daimon_complex", 0, "fast", profile.Reasoning{Depth: policy.EffortMax, Visible: true}},
		{"risk", 0, "standard", profile.Reasoning{Depth: policy.EffortMax, Interleaved: true}},
		{"death", 0, "full", profile.Reasoning{Depth: policy.EffortMax, Visible: true}},
		{"operator", 0, "standard", profile.Reasoning{Depth: policy.EffortHigh, Interleaved: true}},
		{"curator", policy.SecurityPrivate, "full", profile.Reasoning{Depth: policy.EffortHigh}},
		{"curator", 0, "standard", profile.Reasoning{Depth: policy.EffortMedium}},
		{"curator", policy.SecurityConfidential, "standard", profile.Reasoning{Depth: policy.EffortMedium}},
		{"other", 0, "standard", profile.Reasoning{Depth: policy.EffortMedium}},
		{"other", policy.SecurityPrivate, "full", profile.Reasoning{Depth: policy.EffortHigh}},
		// Aliases count as their intent (D-04), and a request without a subsystem is not an agent's.
		{"dream_rem", policy.SecurityPrivate, "fast", profile.Reasoning{Depth: policy.EffortMax, Visible: true}},
		{"context", 0, "fast", profile.Reasoning{Depth: policy.EffortLow}},
		{"death_testament", 0, "full", profile.Reasoning{Depth: policy.EffortMax, Visible: true}},
		{"", policy.SecurityPrivate, "full", profile.Reasoning{}},
	} {
		if got := profile.ReasoningOf(row.subsystem, row.security); got != row.want {
			t.Errorf("%s %s: %+v, want %+v", row.subsystem, row.security, got, row.want)
		}
		var in policy.Intent
		if row.subsystem != "" {
			in = intent.Of(row.subsystem)
		}
		in.Security = row.security
		if got := intent.Pipeline(&in, "", ""); got != row.pipeline {
			t.Errorf("%s %s: pipeline %s, want %s", row.subsystem, row.security, got, row.pipeline)
		}
	}
}

// TestD27TheTablesEffortTakesPrecedence: S-12 decides what is shown, and whether the model may reason between tool calls.
func TestD27TheTablesEffortTakesPrecedence(t *testing.T) {
	low, high := 0.05, 1.0
	for _, row := range []struct {
		about string
		hints policy.Hints
		want  profile.Reasoning
	}{
		{"daimon", policy.Hints{Subsystem: "daimon"}, profile.Reasoning{Depth: policy.EffortLow}},
		{"daimon_complex", policy.Hints{Subsystem: "daimon_complex"}, profile.Reasoning{Depth: policy.EffortHigh, Visible: true}},
		{"a dream", policy.Hints{Subsystem: "dream_nrem"}, profile.Reasoning{Depth: policy.EffortMedium, Visible: true}},
		{"a dream that only associates", policy.Hints{Subsystem: "hypnagogic_dali"}, profile.Reasoning{Depth: policy.EffortNone}},
		{"risk", policy.Hints{Subsystem: "risk"}, profile.Reasoning{Depth: policy.EffortMax, Interleaved: true}},
		{"risk at the end", policy.Hints{Subsystem: "risk", Vitality: &low}, profile.Reasoning{Depth: policy.EffortMax, Interleaved: true}},
		{"the operator at the end", policy.Hints{Subsystem: "operator", Vitality: &low}, profile.Reasoning{Depth: policy.EffortHigh, Interleaved: true}},
		{"death at the end", policy.Hints{Subsystem: "death_testament", Vitality: &low}, profile.Reasoning{Depth: policy.EffortHigh, Visible: true}},
		{"a dream at the end", policy.Hints{Subsystem: "dream_rem", Vitality: &low}, profile.Reasoning{Depth: policy.EffortNone}},
		{"a dream in full life", policy.Hints{Subsystem: "dream_rem", Vitality: &high}, profile.Reasoning{Depth: policy.EffortHigh, Visible: true}},
		{"T0", policy.Hints{Subsystem: "heartbeat_t0"}, profile.Reasoning{Depth: policy.EffortNone}},
		{"a part that nobody described", policy.Hints{Subsystem: "other"}, profile.Reasoning{Depth: policy.EffortMedium}},
		{"a private one", policy.Hints{Subsystem: "other", SecurityClass: policy.SecurityPrivate}, profile.Reasoning{Depth: policy.EffortHigh}},
		{"one that says its quality", policy.Hints{Subsystem: "other", Quality: policy.QualityLow}, profile.Reasoning{Depth: policy.EffortLow}},
		{"one that says its effort", policy.Hints{Subsystem: "other", Profile: &policy.Profile{Effort: policy.EffortMax}}, profile.Reasoning{Depth: policy.EffortMax}},
		{"one at the end", policy.Hints{Subsystem: "other", Vitality: &low}, profile.Reasoning{Depth: policy.EffortNone}},
		{"a private client that is no agent", policy.Hints{SecurityClass: policy.SecurityPrivate}, profile.Reasoning{}},
	} {
		t.Run(row.about, func(t *testing.T) {
			if d := build(t, nil, row.hints); d.Reasoning != row.want {
				t.Errorf("%+v, want %+v", d.Reasoning, row.want)
			} else if d.Applied.Effort != d.Reasoning.Depth {
				t.Errorf("it is told %s and does %s", d.Applied.Effort, d.Reasoning.Depth)
			}
		})
	}
}

// TestMortalityOnDepth: beyond a pressure of 0.7 one class less, beyond 0.9 nothing (S-12).
func TestMortalityOnDepth(t *testing.T) {
	for _, row := range []struct {
		vitality float64
		want     policy.Effort
	}{
		{1, policy.EffortMedium},
		{0.3, policy.EffortMedium},
		{0.29, policy.EffortLow},
		{0.1, policy.EffortLow},
		{0.09, policy.EffortNone},
		{0, policy.EffortNone},
	} {
		if got := build(t, nil, policy.Hints{Subsystem: "other", Vitality: &row.vitality}).Reasoning.Depth; got != row.want {
			t.Errorf("at %v: %s, want %s", row.vitality, got, row.want)
		}
	}
}
