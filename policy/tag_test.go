package policy_test

import (
	"testing"

	"bardo.money/gateway/policy"
)

func TestASummaryCountsDecisions(t *testing.T) {
	tags := []policy.Tag{
		{By: "firewall", Stage: policy.StageTools, Decision: policy.DecisionRemoved, Tool: "a"},
		{By: "firewall", Stage: policy.StageTools, Decision: policy.DecisionRemoved, Tool: "b"},
		{By: "firewall", Stage: policy.StageCall, Decision: policy.DecisionRefused, Shadow: true},
		{By: "guardrail", Rule: "dlp", Stage: policy.StageRequest, Decision: policy.DecisionAllowed},
	}
	for by, want := range map[string]string{
		"firewall": "tools-removed=2, shadow-call-refused=1", "guardrail": "dlp-request-allowed=1", "other": "",
	} {
		if got := policy.Summary(tags, by); got != want {
			t.Errorf("%s: %q, want %q", by, got, want)
		}
	}
}
