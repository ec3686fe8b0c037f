package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestF02AShellsOutputIsJudged: a result of a tool that the provider defines is a result. Patterns alone find it here.
func TestF02AShellsOutputIsJudged(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
models: {injection: "off", embedding: "off"}
pipeline: {injection: {policy: block}}
providers:
  custom: [{id: own, endpoints: [%q], api_key: sk-o, responses: true, models: [{id: m}]}]
`, p.URL)})
	for output, status := range map[string]int{overrides: http.StatusBadRequest, "total 4": http.StatusOK} {
		got := g.Do(t, gateway.Call{Path: "/v1/responses", Body: `{"model":"m","input":[{"role":"user","content":"look"},` +
			`{"type":"local_shell_call","id":"lsh_1","call_id":"call_1","status":"completed","action":{"type":"exec","command":["cat","a"],"env":{}}},` +
			`{"type":"local_shell_call_output","id":"lsho_1","call_id":"call_1","output":"` + output + `"}]}`})
		if got.Status != status || strings.Contains(got.Body, `"prompt_injection"`) != (status == http.StatusBadRequest) {
			t.Errorf("%s: %d %s", output, got.Status, got.Body)
		}
	}
	if n := len(p.Generations()); n != 1 {
		t.Errorf("the provider got %d requests", n)
	}
}
