package guardrail

import (
	"net/http"
	"testing"

	"bardo.money/gateway/policy"
)

// TestAHookInShadowIsLeftOutOfPrivateRequests: it does not see them, and they are not refused for it.
func TestAHookInShadowIsLeftOutOfPrivateRequests(t *testing.T) {
	t.Parallel()
	l := layer(Hook{Requests: true, Responses: true, Shadow: true}, func(*http.Request) string {
		t.Error("the hook is asked")
		return `{"action":"allow"}`
	})
	x := exchange(t)
	x.Hints.SecurityClass = policy.SecurityPrivate
	if err := l.Request(t.Context(), x); err != nil || len(x.Tags) != 1 || x.Tags[0].Decision != policy.DecisionSkipped || !x.Tags[0].Shadow {
		t.Errorf("%v, %+v", err, x.Tags)
	}
}

// TestAPrivateRequestWhoseAnswerNoHookMaySeeIsRefused before a provider is called.
func TestAPrivateRequestWhoseAnswerNoHookMaySeeIsRefused(t *testing.T) {
	t.Parallel()
	l := layer(Hook{Responses: true, OnError: Refuse}, func(*http.Request) string {
		t.Error("the hook is asked")
		return `{"action":"allow"}`
	})
	x := exchange(t)
	x.Hints.SecurityClass = policy.SecurityPrivate
	if err := l.Request(t.Context(), x); err == nil || len(x.Tags) != 1 || x.Tags[0].Decision != policy.DecisionRefused {
		t.Errorf("%v, %+v", err, x.Tags)
	}
}
