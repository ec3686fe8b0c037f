package profile_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/profile"
)

func TestD26Schedules(t *testing.T) {
	for _, row := range []struct {
		h    policy.Hints
		s    profile.Settings
		want string
	}{
		{h: policy.Hints{Subsystem: "dream_rem", REMCall: 1}, want: "0.7"},
		{h: policy.Hints{Subsystem: "dream_rem", REMCall: 2}, want: "0.77"},
		{h: policy.Hints{Subsystem: "dream_rem", REMCall: 3}, want: "0.83"},
		{h: policy.Hints{Subsystem: "dream_rem", REMCall: 4}, want: "0.9"},
		{h: policy.Hints{Subsystem: "dream_rem", REMCall: 99}, want: "0.9"},
		{h: policy.Hints{Subsystem: "dream_rem"}, want: "0.9"},
		{h: policy.Hints{Subsystem: "dream", REMCall: 1}, want: "0.7"},

		{h: policy.Hints{Subsystem: "hypnagogic_induction"}, want: "1"},
		{h: policy.Hints{Subsystem: "hypnagogic_induction", InductionStep: 1}, want: "1"},
		{h: policy.Hints{Subsystem: "hypnagogic_induction", InductionStep: 2}, want: "1.07"},
		{h: policy.Hints{Subsystem: "hypnagogic_induction", InductionStep: 4}, want: "1.2"},
		{h: policy.Hints{Subsystem: "hypnagogic_induction", InductionStep: 50}, want: "1.2"},

		{h: policy.Hints{Subsystem: "hypnagogic_dali"}, want: "1.5"},
		{h: policy.Hints{Subsystem: "hypnagogic_dali", DaliStep: 1, DaliTotalSteps: 5}, want: "1.5"},
		{h: policy.Hints{Subsystem: "hypnagogic_dali", DaliStep: 2, DaliTotalSteps: 5}, want: "1.354"},
		{h: policy.Hints{Subsystem: "hypnagogic_dali", DaliStep: 3, DaliTotalSteps: 5}, want: "1"},
		{h: policy.Hints{Subsystem: "hypnagogic_dali", DaliStep: 5, DaliTotalSteps: 5}, want: "0.5"},
		{h: policy.Hints{Subsystem: "hypnagogic_dali", DaliStep: 9, DaliTotalSteps: 5}, want: "0.5"},
		{h: policy.Hints{Subsystem: "hypnagogic_dali", DaliStep: 1, DaliTotalSteps: 5, DaliCycle: 1}, want: "1.425"},
		{h: policy.Hints{Subsystem: "hypnagogic_dali", DaliStep: 1, DaliTotalSteps: 5, DaliCycle: 2}, want: "1.354"},
		{h: policy.Hints{Subsystem: "hypnagogic_dali", DaliStep: 1, DaliTotalSteps: 5, DaliCycle: 1}, s: profile.Settings{Reanneal: 0.8}, want: "1.2"},
		{h: policy.Hints{Subsystem: "hypnagogic_dali", DaliStep: 1, DaliTotalSteps: 5, DaliCycle: 500}, want: "0.5"},
		{h: policy.Hints{Subsystem: "hypnagogic_dali", DaliStep: 3, DaliTotalSteps: 1}, want: "1.5"},

		{h: policy.Hints{Subsystem: "dream_rem", REMCall: 1, Profile: &policy.Profile{Temperature: new(0.33)}}, want: "0.33"},
	} {
		t.Run(fmt.Sprintf("%s %d %d/%d/%d %d", row.h.Subsystem, row.h.REMCall, row.h.DaliStep, row.h.DaliTotalSteps, row.h.DaliCycle, row.h.InductionStep), func(t *testing.T) {
			if got := build(t, settings(t, row.s), row.h).Profile.Default.Temperature; got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestMortality(t *testing.T) {
	for _, row := range []struct {
		subsystem           string
		vitality            float64
		temperature, effort string
	}{
		{"heartbeat_t2", 1, "0.5", "high"},
		{"heartbeat_t2", 0.5, "0.45", "high"},
		{"heartbeat_t2", 0.3, "0.43", "high"},
		{"heartbeat_t2", 0.29, "0.429", "medium"},
		{"heartbeat_t2", 0.1, "0.41", "medium"},
		{"heartbeat_t2", 0.09, "0.409", "none"},
		{"heartbeat_t2", 0, "0.4", "none"},
		{"heartbeat_t2", -3, "0.4", "none"},
		{"heartbeat_t2", 7, "0.5", "high"},
		{"dream_rem", 0, "0.6", "none"},
		{"hypnagogic_dali", 0, "1.5", "none"},
		{"hypnagogic_induction", 0, "1", "none"},
		{"death_testament", 0, "0.4", "high"},
		{"heartbeat_t1", 0, "0.3", "none"},
	} {
		d := build(t, nil, policy.Hints{Subsystem: row.subsystem, Vitality: &row.vitality})
		if p := d.Profile.Default; p.Temperature != row.temperature || p.Effort != row.effort {
			t.Errorf("%s at %v has %s and %s, want %s and %s", row.subsystem, row.vitality, p.Temperature, p.Effort, row.temperature, row.effort)
		}
	}
}

// TestI05S12APhaseActsAsTheVitalityThatItStandsFor, on temperature and effort; a vitality that is said overrides it.
func TestI05S12APhaseActsAsTheVitalityThatItStandsFor(t *testing.T) {
	for _, row := range []struct {
		subsystem           string
		phase               policy.Phase
		vitality            *float64
		temperature, effort string
	}{
		{"heartbeat_t2", policy.PhaseThriving, nil, "0.5", "high"},
		{"heartbeat_t2", policy.PhaseStable, nil, "0.475", "high"},
		{"heartbeat_t2", policy.PhaseConservation, nil, "0.45", "high"},
		{"heartbeat_t2", policy.PhaseDeclining, nil, "0.42", "medium"},
		{"heartbeat_t2", policy.PhaseTerminal, nil, "0.405", "none"},
		{"heartbeat_t2", policy.PhaseTerminal, new(1.0), "0.5", "high"},
		{"heartbeat_t2", policy.PhaseThriving, new(0.0), "0.4", "none"},
		{"hypnagogic_dali", policy.PhaseTerminal, nil, "1.5", "none"},
		{"death_testament", policy.PhaseTerminal, nil, "0.4", "high"},
	} {
		d := build(t, nil, policy.Hints{Subsystem: row.subsystem, Phase: row.phase, Vitality: row.vitality})
		if p := d.Profile.Default; p.Temperature != row.temperature || p.Effort != row.effort {
			t.Errorf("%s, %s has %s and %s, want %s and %s", row.subsystem, row.phase, p.Temperature, p.Effort, row.temperature, row.effort)
		}
	}
}

// TestD21MortalityNeverRaisesATemperature: for every temperature and vitality, and for every row.
func TestD21MortalityNeverRaisesATemperature(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		temperature, vitality := r.Float64()*2, r.Float64()*1.4-0.2
		if got := profile.MortalTemperature(temperature, vitality); got > temperature || got < math.Min(temperature, 0.3) {
			t.Fatalf("%v at %v became %v", temperature, vitality, got)
		}
	}
	for _, name := range profile.Names() {
		for range 500 {
			h := anyHints(r, name)
			was := *h
			was.Vitality, was.Phase = nil, policy.PhaseUnset
			if before, after := temperatureOf(t, &was), temperatureOf(t, h); after > before {
				t.Fatalf("%s: %v raised %v to %v", name, *h.Vitality, before, after)
			}
		}
	}
}

func temperatureOf(t *testing.T, h *policy.Hints) float64 {
	t.Helper()
	p, _ := build(t, nil, *h).Profile.Over(chat.Params{})
	f, err := strconv.ParseFloat(p.Temperature, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestALockedProfileIsNeverChanged: with any other settings, the row overrides the client.
func TestALockedProfileIsNeverChanged(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{"risk", "death_reflect", "death", "operator"} {
		plain := build(t, nil, policy.Hints{Subsystem: name}).Profile.Locked
		for range 2000 {
			p, _ := profile.New(profile.Settings{
				Overrides: map[string]policy.Profile{name: *anyProfile(r), "dream_rem": *anyProfile(r)}, KeyPrefix: "p",
				NoMarks: r.IntN(2) == 0, WebSearch: true, SealTestaments: true, AttestDreams: true, Reanneal: r.Float64(),
			})
			d := build(t, p, *anyHints(r, name))
			if !reflect.DeepEqual(d.Profile.Locked, plain) || d.Profile.MaxTokens != 0 {
				t.Fatalf("%s became %+v, was %+v", name, d.Profile.Locked, plain)
			}
			own := chat.Params{}
			own.Temperature, own.Effort, own.ThinkingBudget = "1.9", "minimal", r.IntN(5000)
			if said, _ := d.Profile.Over(own); said.Temperature != plain.Temperature || said.Effort != plain.Effort || said.ThinkingBudget != 0 {
				t.Fatalf("%s became %+v over the client's", name, said)
			}
		}
	}
}

func anyHints(r *rand.Rand, subsystem string) *policy.Hints {
	h := &policy.Hints{
		Subsystem: subsystem, GolemID: "g", Vitality: new(r.Float64()*1.4 - 0.2), Quality: policy.Quality(r.IntN(6)),
		DaliStep: r.IntN(8), DaliTotalSteps: r.IntN(6), DaliCycle: r.IntN(9), InductionStep: r.IntN(7), REMCall: r.IntN(7),
		WebSearch: new(r.IntN(2) == 0), Phase: policy.Phase(r.IntN(6)),
	}
	if r.IntN(2) == 0 {
		h.Profile = anyProfile(r)
	}
	return h
}

func anyProfile(r *rand.Rand) *policy.Profile {
	return &policy.Profile{
		Temperature: new(r.Float64() * 2), TopP: new(r.Float64()), TopK: new(r.IntN(100)), MinP: new(r.Float64()),
		Effort: policy.Effort(r.IntN(6)), MaxTokens: r.IntN(1000), Stop: []string{"x"}, Seed: new(r.Int64()), PredictedOutput: "x",
	}
}
