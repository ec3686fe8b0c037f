package firewall_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/internal/rule"
)

// TestRulesAfterAFlagOrAShadowAreEnforced: the next rule is enforced.
func TestRulesAfterAFlagOrAShadowAreEnforced(t *testing.T) {
	t.Parallel()
	never := firewall.Rule{ID: "first", Tools: rule.Names{"transfer"}, Condition: condition(t, "false"), OnViolation: firewall.Flag}
	shadow := never
	shadow.OnViolation, shadow.Shadow = firewall.Refuse, true
	last := firewall.Rule{ID: "last", Tools: rule.Names{"transfer"}, Condition: condition(t, "false")}
	for _, first := range []firewall.Rule{never, shadow} {
		x := exchange(t, chat.OpenAI, "", first, last)
		got, err := pass(t, x, chat.OpenAI, stream(chat.OpenAI, 3, piece{"transfer", `{"usd":5000}`}))
		if err != nil || len(x.Tags) != 2 || x.Tags[1].Rule != "last" || strings.Contains(got, "5000") || !strings.Contains(got, "removed a call") {
			t.Errorf("behind %+v: %v, %+v\n%s", first, err, x.Tags, got)
		}
	}
}

// TestCallsThatAreTooLargeToHoldAreRefused: the held part of an answer is bounded.
func TestCallsThatAreTooLargeToHoldAreRefused(t *testing.T) {
	t.Parallel()
	x := exchange(t, chat.OpenAI, "", firewall.Rule{ID: "a", Tools: rule.Names{"transfer"}, Condition: condition(t, "true")})
	got, err := pass(t, x, chat.OpenAI, stream(chat.OpenAI, 1<<20, piece{"transfer", `{"a":"` + strings.Repeat("x", 17<<20) + `"}`}))
	if err == nil || strings.Contains(got, "xxx") { // at the end of the call, a text would replace it
		t.Errorf("%v, %d bytes", err, len(got))
	}
}
