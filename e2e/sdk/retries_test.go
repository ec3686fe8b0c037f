package sdk

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// sdkTries is how often the official SDKs send a request that they may send again.
const sdkTries = 3

// TestOneCallOfAnSDKIsOnePaidCall: what a retry cannot mend is sent once, although SDKs send each 5xx again by themselves; what it may mend
// is still sent again.
func TestOneCallOfAnSDKIsOnePaidCall(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	wrong := fake.Behaviour{Flaw: fake.MissingField, Usage: &fake.Usage{Input: 100, Output: 50}}
	rows := []struct {
		model, subsystem string
		b                fake.Behaviour
		status, tries    int
		code             string
	}{
		{"schema", "hypnagogic_capture", wrong, http.StatusBadGateway, 1, "schema_validation_failed"},
		{"credential", "", fake.Behaviour{Status: http.StatusUnauthorized}, http.StatusBadGateway, 1, "upstream_error"},
		{"gone", "", fake.Behaviour{Status: http.StatusGone}, http.StatusNotFound, 1, "model_not_found"},
		{"overloaded", "", fake.Behaviour{Status: http.StatusServiceUnavailable}, http.StatusServiceUnavailable, sdkTries, "overloaded"},
		{"broken", "", fake.Behaviour{Status: http.StatusInternalServerError}, http.StatusBadGateway, sdkTries, "upstream_error"},
	}
	var offered []gateway.Model
	for _, row := range rows {
		offered = append(offered, gateway.Model{ID: row.model, More: "capabilities: [structured_outputs]"})
		p.BehaveFor(row.model, row.b)
	}
	g := gateway.Run(t, gateway.Options{Config: settings, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: offered}}})
	for _, row := range rows {
		for _, client := range []string{"openai", "anthropic"} {
			t.Run(row.model+" by "+client, func(t *testing.T) {
				seen := []string{fmt.Sprintf(`status="%d"`, row.status), fmt.Sprintf("code=%q", row.code)}
				before := g.Metrics(t).Sum("bardo_requests_total", seen...)
				argv := append(python("retries_driver.py")(t), client, row.model, row.subsystem)
				out, errs, err := runDriver(t, argv, access(g)...)
				if err != nil || strings.TrimSpace(out) != fmt.Sprint(row.status) {
					t.Fatalf("%v\n%s%s", err, out, errs)
				}
				if n := g.Metrics(t).Sum("bardo_requests_total", seen...) - before; int(n) != row.tries {
					t.Errorf("the SDK sent %v requests, want %d", n, row.tries)
				}
			})
		}
	}
}
