package e2e

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// splitGateway has two providers of one model, so that each can take over from the other.
func splitGateway(t *testing.T) (g *gateway.Split, providers []*fake.Server) {
	t.Helper()
	o := gateway.Options{Config: quick}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
		p := fake.Start(t, fake.Config{Dialect: d, Name: "p-" + string(d)})
		providers = append(providers, p)
		o.Providers = append(o.Providers, gateway.Provider{ID: "p-" + string(d), Fake: p, Format: string(d), Models: models("m", "")})
	}
	return gateway.RunSplit(t, o), providers
}

// everyWay is the same question in both dialects, streamed and not.
func everyWay() (asks []ask) {
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
		for _, stream := range []bool{false, true} {
			asks = append(asks, ask{dialect: d, model: "m", stream: stream})
		}
	}
	return asks
}

func mustServe(t *testing.T, g *gateway.Split) {
	t.Helper()
	for _, a := range everyWay() {
		got := g.Do(t, a.call())
		if got.Status != http.StatusOK || text(t, a, got) == "" {
			t.Fatalf("%+v: %d %s", a, got.Status, got.Body)
		}
	}
}

func TestASplitGatewayServes(t *testing.T) {
	t.Parallel()
	g, providers := splitGateway(t)
	mustServe(t, g)
	providers[0].Queue(fake.Behaviour{Status: 503}, fake.Behaviour{Status: 503})
	got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
	if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Attempts") != "2" {
		t.Errorf("failover: %d after %q attempts: %s", got.Status, got.Header.Get("X-Bardo-Attempts"), got.Body)
	}
	none := ask{dialect: fake.OpenAI, model: "m"}
	c := none.call()
	c.NoKey = true
	mustFail(t, none, g.Do(t, c), http.StatusUnauthorized, "invalid_api_key")
}

// TestNothingPassesWithoutTheSidecar: whoever meters and masks is away, so Envoy refuses, and serves again by itself.
func TestNothingPassesWithoutTheSidecar(t *testing.T) {
	t.Parallel()
	g, providers := splitGateway(t)
	mustServe(t, g)
	g.Sidecar.Kill()
	for _, p := range providers {
		p.Forget()
	}
	for _, a := range everyWay() {
		got := g.Do(t, a.call())
		mustFail(t, a, got, http.StatusServiceUnavailable, "gateway_unavailable")
		if got.Header.Get("Retry-After") == "" {
			t.Errorf("%+v: no Retry-After", a)
		}
	}
	for _, p := range providers {
		if rs := p.Requests(); len(rs) != 0 {
			t.Errorf("%s %s reached a provider", rs[0].Method, rs[0].Path)
		}
	}
	if err := g.Sidecar.Start(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	eventually(t, "the gateway's recovery", func() bool {
		return g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()).Status == http.StatusOK
	})
	t.Logf("served again %s after the sidecar's start", time.Since(back))
	mustServe(t, g)
	g.AssertSound(t)
}

// TestAStreamEndsWithItsSidecar: nobody counts any more what a provider sends, so none of it may pass.
func TestAStreamEndsWithItsSidecar(t *testing.T) {
	t.Parallel()
	g, providers := splitGateway(t)
	providers[0].Behave(fake.Behaviour{Tokens: 200, Gap: 100 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), polltest.Patience)
	defer cancel()
	res, err := g.Open(ctx, ask{dialect: fake.OpenAI, model: "m", stream: true}.call())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	r := gateway.NewReader(res.Body)
	for range 3 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	g.Sidecar.Kill()
	for err == nil {
		var ev gateway.Event
		if ev, err = r.Next(); ev.Data == "[DONE]" {
			t.Error("the stream ended like a good one")
		}
	}
	if ctx.Err() != nil {
		t.Error("the stream went on without its sidecar")
	}
	if _, err := providers[0].WaitCancelled(soon(t), 1); err != nil {
		t.Error(err)
	}
}

func TestTrafficDoesNotNeedTheControlPlane(t *testing.T) {
	t.Parallel()
	g, _ := splitGateway(t)
	mustServe(t, g)
	g.ControlPlane.Kill()
	for range 5 {
		mustServe(t, g)
	}
	if err := g.ControlPlane.Start(); err != nil {
		t.Fatal(err)
	}
	mustServe(t, g)
}

// TestD63TheEgressListenerIsForTheSidecarAlone: it spends the operator's keys, so nobody else may call through it.
func TestD63TheEgressListenerIsForTheSidecarAlone(t *testing.T) {
	t.Parallel()
	g, providers := splitGateway(t)
	mustServe(t, g)
	for _, p := range providers {
		p.Forget()
	}
	fi, err := os.Stat(g.EgressSocket())
	if err != nil {
		t.Fatal(err)
	}
	if mode := fi.Mode(); mode&os.ModeSocket == 0 || mode.Perm() != 0o600 {
		t.Errorf("the egress socket is %s", mode)
	}
	for name, header := range map[string][]string{
		"nothing":          nil,
		"a cluster":        {"x-bardo-internal-cluster", "p-openai"},
		"a guessed secret": {"x-bardo-internal-cluster", "p-openai", "x-bardo-internal-exchange", "AAAAAAAAAAAAAAAAAAAAAAAAAA.req_1"},
		"an empty secret":  {"x-bardo-internal-cluster", "p-openai", "x-bardo-internal-exchange", ".req_1"},
	} {
		req, err := http.NewRequestWithContext(soon(t), http.MethodPost, "http://egress/v1/chat/completions",
			strings.NewReader(ask{dialect: fake.OpenAI, model: "m"}.body()))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := gateway.OverSocket(g.EgressSocket()).Do(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("a call with %s: %d", name, res.StatusCode)
		}
	}
	for _, p := range providers {
		if n := len(p.Generations()); n != 0 {
			t.Errorf("a provider was called %d times", n)
		}
	}
}
