package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/internal/redistest"
)

// privateClasses are classes of tasks whose tier is private.
var privateClasses = []string{"heartbeat", "incident", "judge"}

// TestP09WhatIsKeptOfATaskWhoseClassIsPrivate: where the operator's mode puts its tier in force, its answer is on no disk, it is deferred only encrypted, and neither hooks nor the
// providers' traces have it; its record names the tier. In another mode it is as any other.
func TestP09WhatIsKeptOfATaskWhoseClassIsPrivate(t *testing.T) {
	t.Parallel()
	for mode, private := range map[string]bool{"venice": true, "both": false} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h, p := newHook(t), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "private"})
			o := gateway.Options{
				Home: proctest.Dir(t),
				Config: quick + fmt.Sprintf("inference: {provider_mode: %s}\nstore: {cache: \"sqlite://$BARDO_HOME/cache.db\", cache_key: a-secret-key}\n"+
					"telemetry: {otlp: \"http://127.0.0.1:1\", otlp_propagate: [own]}\npipeline: {guardrails: [{name: dlp, url: %q, when: [request], on_error: allow}]}\n", mode, h.URL),
				Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", ""), More: "private: true"}},
			}
			g := gateway.Run(t, o)
			var asks []ask
			for _, class := range privateClasses {
				a := ask{dialect: fake.OpenAI}.about("m", "the task "+class)
				asks = append(asks, a)
				as := "X-Bardo-Task-Class: " + class
				first := mustKnow(t, g, a, "miss", as)
				assertTraced(t, p, class, !private)
				mustKnow(t, g, a, "hash", as) // in the memory of its own key
				assertTier(t, g, first, private)
				later := ask{dialect: fake.OpenAI, model: "m", say: "for later"}
				if got := g.Do(t, later.call(as, "X-Bardo-Defer: 24h")); (got.Status == http.StatusBadRequest && strings.Contains(got.Body, "deferred.key")) != private || !private && got.Status != http.StatusAccepted {
					t.Errorf("%s, for later: %d %s", class, got.Status, got.Body)
				}
			}
			ordinary := ask{dialect: fake.OpenAI}.about("m", "no task")
			mustKnow(t, g, ordinary, "miss")
			if saw := strings.Join(h.questions(), "\n"); strings.Contains(saw, "the task") == private || !strings.Contains(saw, "no task") {
				t.Errorf("the hook sees %q", saw)
			}
			if err := g.Stop(); err != nil {
				t.Fatal(err)
			}
			again := gateway.Run(t, o)
			again.Key = g.Key
			mustKnow(t, again, ordinary, "hash")
			for i, class := range privateClasses {
				mustKnow(t, again, asks[i], map[bool]string{true: "miss", false: "hash"}[private], "X-Bardo-Task-Class: "+class)
			}
		})
	}
}

// assertTraced fails the test if the provider's last request has a trace context, or has none where it should.
func assertTraced(t *testing.T, p *fake.Server, class string, want bool) {
	t.Helper()
	if sent, ok := p.Last(); !ok || (sent.Header.Get("Traceparent") != "") != want {
		t.Errorf("%s: the provider is sent the trace context %q", class, sent.Header.Get("Traceparent"))
	}
}

// assertTier fails the test if the record of an answer does not say whether its request needed the tier private.
func assertTier(t *testing.T, g *gateway.Gateway, got gateway.Answer, private bool) {
	t.Helper()
	var record struct {
		PrivacyTier string `json:"privacy_tier"`
	}
	get(t, g, g.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &record)
	if (record.PrivacyTier == "private") != private {
		t.Errorf("the record's tier is %q", record.PrivacyTier)
	}
}

// TestP09NoGatewayGetsThePrivateAnswersOfAnother: what the tier of a class in force keeps is not written to Redis.
func TestP09NoGatewayGetsThePrivateAnswersOfAnother(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	gs := sharersOf(t, redisStore(server, "1s"), "inference: {provider_mode: venice}\n", gateway.Provider{ID: "own", Fake: p, Models: models("m", ""), More: "private: true"})
	const as = "X-Bardo-Task-Class: incident"
	task, ordinary := forms[0].about("m", "An incident"), forms[0].about("m", "No task")
	if k := keyed(t, gs[0], task, gs[0].Key, as); k != "miss" {
		t.Errorf("the first gateway says %q", k)
	}
	keyed(t, gs[0], ordinary, gs[0].Key)
	shared(t, gs[1], ordinary, gs[0].Key, "hash") // written after the other one
	if k := keyed(t, gs[0], task, gs[0].Key, as); k != "hash" {
		t.Errorf("the first gateway says %q to its own key", k)
	}
	if k := keyed(t, gs[1], task, gs[0].Key, as); k != "miss" {
		t.Errorf("the second gateway says %q", k)
	}
}
