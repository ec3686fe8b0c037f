package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestC15MarksOnlyWhereTheProviderCaches: a profile's mark stands behind a prefix that is as long as the model's provider caches, by
// the model's own least length or by that of its provider, and behind no shorter one; it lives for the API's five minutes.
func TestC15MarksOnlyWhereTheProviderCaches(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "anthropic", Fake: p}}})
	system := func(bytes int) string { return strings.Repeat("You trade carefully. ", bytes/21) }
	for model, least := range map[string]int{"claude-sonnet-4-5": 1024, "claude-opus-4-5": 4096, "claude-opus-5": 4000} {
		for _, size := range []int{1_000, 3_000, 7_000, 13_000, 20_000} {
			want := 0
			if 2*size >= 7*least {
				want = 1
			}
			for path, body := range map[string]string{
				"/v1/messages": `{"model":%q,"max_tokens":3000,"system":%q,"tools":[{"name":"f","input_schema":{"type":"object"}}],` +
					`"messages":[{"role":"user","content":"hi"}]}`,
				"/v1/chat/completions": `{"model":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":"hi"}],` +
					`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`,
			} {
				c := gateway.Call{Path: path, Body: fmt.Sprintf(body, model, system(size)), Header: []string{"X-Bardo-Subsystem: heartbeat_t1", fmt.Sprintf("X-Bardo-Golem-Id: %s-%d", model, size)}}
				if got := g.Do(t, c); got.Status != http.StatusOK {
					t.Fatalf("%d %s", got.Status, got.Body)
				}
				sent := string(lastOf(t, p).Body)
				if n := strings.Count(sent, `"cache_control":{"type":"ephemeral"}`); n != want || strings.Count(sent, "cache_control") != n {
					t.Errorf("%s to %s: %d marks at %d bytes, want %d", path, model, n, size, want)
				}
			}
		}
	}
}
