package sdk

import (
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestOpenAIsSDKHoldsRealtimeSessions: the SDK's own client opens a session, and reads what passes.
func TestOpenAIsSDKHoldsRealtimeSessions(t *testing.T) {
	t.Parallel()
	openai := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: settings, Providers: []gateway.Provider{{ID: "openai", Fake: openai}}})
	out, errs, err := runDriver(t, python("realtime_driver.py")(t), access(g)...)
	if err != nil || strings.TrimSpace(out) != "ok" {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
}
