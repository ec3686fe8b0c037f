package e2e

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
)

// TestAClientsOwnNamesNeverBreakItsAnswer: what is named as lost is a client's own word, and any text may be one. It comes in a
// header in a form that a header can have.
func TestAClientsOwnNamesNeverBreakItsAnswer(t *testing.T) {
	t.Parallel()
	g, _, _ := byteGateway(t)
	for _, r := range []struct{ name, member, want string }{
		{"a line end", `a\r\nx-forged: 1`, "a__x-forged:_1"},
		{"a NUL", `a\u0000b`, "a_b"},
		{"letters beyond ASCII", `é`, "__"},
		{"a comma, which parts the list", `a,b`, "a_b"},
		{"a long one", strings.Repeat("k", 100<<10), strings.Repeat("k", 64)},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(r.name, func(t *testing.T) {
				a := ask{dialect: fake.OpenAI, model: "claude-x", stream: stream, more: `"` + r.member + `":1`}
				got := g.Do(t, a.call())
				if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Degraded") != r.want || got.Header.Get("X-Forged") != "" {
					t.Errorf("%d, degraded %q: %.300s", got.Status, got.Header.Get("X-Bardo-Degraded"), got.Body)
				}
			})
		}
	}
}
