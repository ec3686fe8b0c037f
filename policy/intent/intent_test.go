package intent_test

import (
	"math"
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

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
		if got := intent.Of(name); got.Subsystem != want || got.Asked != name {
			t.Errorf("%s: got %s, asked %s, want %s", name, got.Subsystem, got.Asked, want)
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
			intent.Press(&in, row.vitality)
			if math.Abs(in.CostSensitivity-row.cost) > 1e-9 || in.Quality != row.quality {
				t.Errorf("got %v %s, want %v %s", in.CostSensitivity, in.Quality, row.cost, row.quality)
			}
		})
	}
}
