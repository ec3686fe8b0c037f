package intent_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// TestTheTwelveIntents: the static intents, value by value.
func TestTheTwelveIntents(t *testing.T) {
	type row struct {
		quality policy.Quality
		within  time.Duration // zero: no bound
		cost    float64
		wants   string // "!" in front: required
	}
	for name, want := range map[string]row{
		"heartbeat_t0":    {policy.QualityMinimum, 200 * time.Millisecond, 1, ""},
		"heartbeat_t1":    {policy.QualityLow, 2 * time.Second, 0.8, "low_effort"},
		"heartbeat_t2":    {policy.QualityHigh, 30 * time.Second, 0.3, "interleaved_thinking citations"},
		"risk":            {policy.QualityMaximum, 30 * time.Second, 0, "interleaved_thinking citations"},
		"dream":           {policy.QualityHigh, 120 * time.Second, 0.5, "visible_thinking privacy"},
		"daimon":          {policy.QualityLow, time.Second, 0.9, "privacy"},
		"daimon_complex":  {policy.QualityHigh, 10 * time.Second, 0.5, "visible_thinking privacy"},
		"curator":         {policy.QualityMedium, 15 * time.Second, 0.5, "structured_outputs citations"},
		"playbook":        {policy.QualityMedium, 10 * time.Second, 0.6, "predicted_outputs"},
		"operator":        {policy.QualityMaximum, 5 * time.Second, 0, "interleaved_thinking citations"},
		"death":           {policy.QualityMaximum, 0, 0, "!visible_thinking privacy"},
		"session_compact": {policy.QualityMedium, 30 * time.Second, 0.5, "compaction"},
	} {
		in := intent.Of(name)
		var wants []string
		for _, f := range in.Require {
			wants = append(wants, "!"+string(f))
		}
		for _, f := range in.Prefer {
			wants = append(wants, string(f))
		}
		if got := (row{in.Quality, in.MaxLatency, in.CostSensitivity, strings.Join(wants, " ")}); got != want || in.Subsystem != name || in.Model != "" || in.DIEM {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestUnknownPartsAreLikeARoutineHeartbeat(t *testing.T) {
	for _, name := range []string{"", "other", "heart_beat"} {
		if got := intent.Of(name); got.Subsystem != intent.Unknown {
			t.Errorf("%q is %s", name, got.Subsystem)
		}
	}
}

func TestD04FinerNamesShareAnIntent(t *testing.T) {
	for name, want := range map[string]string{
		"dream_rem_creative": "dream", "hypnopompic_return": "dream", "hypnagogic_observer": "heartbeat_t1", "context": "heartbeat_t1",
		"death_testament": "death", "session": "session_compact", "social": "heartbeat_t1", "risk": "risk",
	} {
		if got := intent.Of(name); got.Subsystem != want || got.SubsystemName != name {
			t.Errorf("%s: got %s, asked %s, want %s", name, got.Subsystem, got.SubsystemName, want)
		}
	}
}

func TestOnlyDeathRequiresAnything(t *testing.T) {
	for _, name := range intent.Names() {
		if got := len(intent.Of(name).Require) > 0; got != (name == "death") {
			t.Errorf("%s requires something: %v", name, got)
		}
	}
	if n := len(intent.Names()); n != 12 {
		t.Errorf("there are %d intents", n)
	}
}

func TestMortalityMakesIntentsCheaper(t *testing.T) {
	for _, row := range []struct {
		about, subsystem string
		vitality         float64
		cost             float64
		quality          policy.Quality
	}{
		{"a healthy agent changes nothing", "dream", 1, 0.5, policy.QualityHigh},
		{"half a life", "dream", 0.5, 0.65, policy.QualityHigh},
		{"at the line quality stays", "dream", 0.3, 0.71, policy.QualityHigh},
		{"below it quality falls", "dream", 0.29, 0.713, policy.QualityMedium},
		{"low stays low", "heartbeat_t1", 0, 1, policy.QualityLow},
		{"risk is exempt", "risk", 0, 0, policy.QualityMaximum},
		{"the operator is exempt", "operator", 0, 0, policy.QualityMaximum},
		{"death is exempt", "death_reflect", 0, 0, policy.QualityMaximum},
		{"a vitality out of range is clamped", "dream", -3, 0.8, policy.QualityMedium},
	} {
		t.Run(row.about, func(t *testing.T) {
			in := intent.Of(row.subsystem)
			intent.ApplyPressure(&in, row.vitality)
			if math.Abs(in.CostSensitivity-row.cost) > 1e-9 || in.Quality != row.quality {
				t.Errorf("got %v %s, want %v %s", in.CostSensitivity, in.Quality, row.cost, row.quality)
			}
		})
	}
}

// TestR28WhatMayWait: dreams and other offline work, but nothing that an agent's decisions depend on.
func TestR28WhatMayWait(t *testing.T) {
	for sub, may := range map[string]bool{
		"dream": true, "dream_rem": true, "hypnagogic_dali": true, "curator": true, "session": true, "death_testament": true,
		"heartbeat_t1": false, "risk": false, "operator": false, "daimon": false, "hypnagogic_observer": false, "unheard_of": false,
	} {
		if intent.Offline(sub) != may {
			t.Errorf("%s may wait: %v", sub, !may)
		}
	}
}
