package sdk

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
)

// status is what the gateway makes of a provider's. The operator's credentials are none of the caller's business: where the
// provider refuses them, the caller gets a 502 (D-15); the drivers therefore send keys that the gateway itself refuses.
func (r target) status(provider int) int {
	switch {
	case provider == 500: // not the gateway's own mistake (D-15)
		return 502
	case provider == 529 && r.client.dialect != fake.Anthropic: // is Anthropic's alone
		return 503
	}
	return provider
}

// parity lists the errors that a client raised otherwise than it raises its own provider's. A stream that breaks off is none of
// them: the provider's connection breaks, and the gateway says so in an error event.
func (r target) parity(through, direct report) []string {
	var differ []string
	for name, want := range direct.cases {
		got := through.cases[name]
		if !strings.HasPrefix(name, "error-") {
			continue
		}
		if got.Exception != want.Exception || got.Status != r.status(want.Status) {
			differ = append(differ, fmt.Sprintf("%s: raised %s (%d), for the provider's own %s (%d)", name, got.Exception, got.Status, want.Exception, want.Status))
		}
	}
	return differ
}

func checkParity(t *testing.T, r target, through, direct report) {
	t.Helper()
	for _, d := range r.parity(through, direct) {
		t.Error(d)
	}
	for _, name := range []string{"dies", "dies2"} {
		if c := through.cases[name]; r.client.lacks[name] == "" && c.Exception == "" {
			t.Errorf("%s: nothing was raised", name)
		}
	}
}
