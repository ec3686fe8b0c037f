package attempt_test

import (
	"testing"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// TestAnEarlierAttemptSaysWhatEnvoyKnows: for an attempt without an answer it is unknown whether its connection was refused, broke, or timed out.
func TestAnEarlierAttemptSaysWhatEnvoyKnows(t *testing.T) {
	plan := attempt.Plan{{Provider: "first"}, {Provider: "second"}}
	for noted, want := range map[string]struct {
		outcome, reason string
		measured        telemetry.Outcome
	}{
		"":               {"no_answer", "no answer came", telemetry.NoAnswer},
		"first;503;":     {"status_503", "the provider answered 503", telemetry.Failed},
		"first;429;7":    {"status_429", "the provider answered 429", telemetry.RateLimited},
		"first;503":      {"no_answer", "no answer came", telemetry.NoAnswer},
		"a;b;c;d":        {"no_answer", "no answer came", telemetry.NoAnswer},
		"second;500;2;3": {"no_answer", "no answer came", telemetry.NoAnswer},
	} {
		f := plan.Earlier(1, noted)
		if f.Provider != "first" || f.String() != want.outcome || f.Reason() != want.reason || f.Measure() != want.measured {
			t.Errorf("%q: %s of %s, %q, counted as %s, want %+v", noted, f, f.Provider, f.Reason(), f.Measure(), want)
		}
		if !f.Retriable() || f.Lasting() {
			t.Errorf("%q: retriable %v, lasting %v", noted, f.Retriable(), f.Lasting())
		}
	}
	if r := plan.Earlier(2, "").Result(); r.Provider != "second" || r.Outcome != policy.Failed {
		t.Errorf("the provider's health is told %+v", r)
	}
	if f := upstream.Exhausted([]*upstream.Failure{plan.Earlier(1, "")}); f.Public != "no answer came from provider first" {
		t.Errorf("the client is told %q", f.Public)
	}
}
