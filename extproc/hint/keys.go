package hint

import (
	"strings"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// member is one member of an object and how its value is parsed into a T.
type member[T any] struct {
	name string
	list bool // the header may be repeated
	set  func(*T, value) error
}

// OtherSubsystem replaces the name of every unknown subsystem: totals per subsystem are stored forever, and a client with ever new names must
// not fill the database.
const OtherSubsystem = "other"

const (
	maxID   = 128
	maxWord = 64

	maxSteps   = 10_000
	maxLatency = 24 * 60 * 60 * 1000 // a day, in milliseconds
	maxUSD     = 1_000_000_000
)

// keys are the hints by their names in the body's object. A header's name is the same in kebab case.
var keys = []member[policy.Hints]{
	{name: "golem_id", set: func(h *policy.Hints, v value) error { return v.id(&h.GolemID) }},
	{name: "subsystem", set: readSubsystem},
	{name: "tick", set: func(h *policy.Hints, v value) error { return v.integer(&h.Tick, 0, 1<<53) }},
	{name: "tick_type", set: func(h *policy.Hints, v value) error { return v.word(&h.TickType) }},
	{name: "vitality", set: func(h *policy.Hints, v value) error { return v.number(&h.Vitality, 0, 1) }},
	{name: "phase", set: func(h *policy.Hints, v value) error {
		return oneOf(&h.Phase, v, policy.ParsePhase, "thriving, stable, conservation, declining or terminal")
	}},
	{name: "regime", set: func(h *policy.Hints, v value) error { return v.word(&h.Regime) }},
	{name: "task_class", set: readTaskClass},
	{name: "security_class", set: func(h *policy.Hints, v value) error {
		return oneOf(&h.SecurityClass, v, policy.ParseSecurityClass, "standard, confidential or private")
	}},
	{name: "session_id", set: func(h *policy.Hints, v value) error { return v.id(&h.SessionID) }},
	{name: "surface", set: func(h *policy.Hints, v value) error {
		return v.choice(&h.Surface, "api", "tui", "telegram", "discord", "web")
	}},
	{name: "dream_cycle_id", set: func(h *policy.Hints, v value) error { return v.id(&h.DreamCycleID) }},
	{name: "dali_step", set: func(h *policy.Hints, v value) error { return v.count(&h.DaliStep) }},
	{name: "dali_total_steps", set: func(h *policy.Hints, v value) error { return v.count(&h.DaliTotalSteps) }},
	{name: "dali_cycle", set: func(h *policy.Hints, v value) error { return v.count(&h.DaliCycle) }},
	{name: "scenario", set: readScenario},
	{name: "pipeline", set: func(h *policy.Hints, v value) error {
		return v.choice(&h.Pipeline, "minimal", "fast", "standard", "full")
	}},
	{name: "require", list: true, set: func(h *policy.Hints, v value) error { return v.features(&h.Require) }},
	{name: "prefer", list: true, set: func(h *policy.Hints, v value) error { return v.features(&h.Prefer) }},
	{name: "quality", set: func(h *policy.Hints, v value) error {
		return oneOf(&h.Quality, v, policy.ParseQuality, "minimum, low, medium, high or maximum")
	}},
	{name: "cost_sensitivity", set: func(h *policy.Hints, v value) error { return v.number(&h.CostSensitivity, 0, 1) }},
	{name: "diem_available", set: func(h *policy.Hints, v value) error { return v.boolean(&h.DIEMAvailable) }},
	{name: "privacy_tier", set: func(h *policy.Hints, v value) error {
		return oneOf(&h.PrivacyTier, v, privacyTier, "private, tee or e2e")
	}},
	{name: "role", set: func(h *policy.Hints, v value) error { return v.word(&h.Role) }},
	{name: "verify", set: func(h *policy.Hints, v value) error { return v.boolean(&h.Verify) }},
	{name: "escalate", set: readEscalate},
	{name: "hedge", set: readHedge},
	{name: "daily_budget_usd", set: readBudget},
	{name: "induction_step", set: func(h *policy.Hints, v value) error { return v.count(&h.InductionStep) }},
	{name: "rem_call", set: func(h *policy.Hints, v value) error { return v.count(&h.REMCall) }},
	{name: "max_latency_ms", set: readLatency},
	{name: "no_cache", set: func(h *policy.Hints, v value) error { return v.boolean(&h.NoCache) }},
	{name: "web_search", set: func(h *policy.Hints, v value) error { return v.optionalBool(&h.WebSearch) }},
	{name: "tee", set: func(h *policy.Hints, v value) error { return v.optionalBool(&h.TEE) }},
	{name: "profile", set: readProfile},
}

var byHeader = func() map[string]int {
	m := make(map[string]int, len(keys))
	for i := range keys {
		m[strings.ReplaceAll(keys[i].name, "_", "-")] = i
	}
	return m
}()

// Keys returns the names of all hints in the body's object.
func Keys() []string { return namesOf(keys) }

func namesOf[T any](members []member[T]) []string {
	out := make([]string, len(members))
	for i := range members {
		out[i] = members[i].name
	}
	return out
}

func readSubsystem(h *policy.Hints, v value) error {
	name, ok := v.str()
	if !ok || !isSubsystem(name) {
		return v.invalid("expected 1 to %d characters of a-z, 0-9 and _", maxWord)
	}
	h.Subsystem, h.UnknownSubsystem = OtherSubsystem, ""
	switch {
	case intent.Known(name):
		h.Subsystem = name
	case name != OtherSubsystem:
		h.UnknownSubsystem = name
	}
	return nil
}

func readEscalate(h *policy.Hints, v value) error {
	var value string
	if err := v.choice(&value, "auto", "off"); err != nil {
		return err
	}
	h.Escalate = new(value == "auto")
	return nil
}

func readHedge(h *policy.Hints, v value) error {
	var value string
	if err := v.choice(&value, "auto", "off"); err != nil {
		return err
	}
	h.NoHedge = value == "off"
	return nil
}

func isSubsystem(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return name != "" && len(name) <= maxWord
}
