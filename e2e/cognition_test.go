package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/gateway"
)

// told is what the endpoints below /venice answer, as far as these tests look at it.
type told struct {
	Mock bool
	Data []struct {
		Class    string `json:"cognition_class"`
		Tier     string `json:"privacy_tier"`
		Tick     string `json:"tick_id"`
		Model    string `json:"model_id"`
		Ray      string `json:"cf_ray"`
		Input    int64  `json:"input_tokens"`
		Attested *bool  `json:"attestation_valid"`
		Valid    *bool  `json:"structured_output_valid"`
		Verified bool
		Request  string `json:"request_id"`
	}
}

// see asks with a key; "" is the gateway's own.
func see(t *testing.T, g *gateway.Gateway, path, key string) (out told) {
	t.Helper()
	got := g.Do(t, gateway.Call{Path: path, Key: key})
	if got.Status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, got.Status, got.Body)
	}
	got.JSON(t, &out)
	return out
}

// followEvents opens the stream of events; what it reads ends with the test.
func followEvents(t *testing.T, g *gateway.Gateway, token, last string) *gateway.Reader {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := gateway.Call{Path: "/venice/stream"}
	if token != "" {
		c.Path, c.NoKey = c.Path+"?token="+token, true
	}
	if last != "" {
		c.Header = []string{"Last-Event-ID: " + last}
	}
	resp, err := g.Open(ctx, c)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
	})
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	return gateway.NewReader(resp.Body)
}

// await reads events until one has a name and all of the texts.
func await(t *testing.T, r *gateway.Reader, name string, texts ...string) gateway.Event {
	t.Helper()
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatalf("before an event %s with %v: %v", name, texts, err)
		}
		if e.Name == name && !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(e.Data, s) }) {
			return e
		}
	}
}

// TestP10WhatTheEnclaveDidIsShown: status, telemetry, attestations and the live stream of attested answers and refused ones; each key sees its own.
func TestP10WhatTheEnclaveDidIsShown(t *testing.T) {
	t.Parallel()
	l := runAttestLab(t, "on_privacy_exhausted: fail", false, false)
	other := l.CreateKey(t, "--name", "other").Key
	token := struct{ Token string }{}
	issued := l.Do(t, gateway.Call{Method: http.MethodPost, Path: "/venice/stream-token"})
	if issued.JSON(t, &token); issued.Status != http.StatusOK || strings.Contains(issued.Body, `"expires_at":null`) {
		t.Fatalf("%d %s", issued.Status, issued.Body)
	}
	r := followEvents(t, l.Gateway, token.Token, "")
	l.venice.Behave(fake.Behaviour{JSON: bid, Header: []string{"CF-Ray: 8a1b2c3d-FRA"}})
	if got := l.Do(t, trade(false)); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	await(t, r, "attestation", `"verified":true`, `"tickId":"41"`, `"enclaveId":"`+l.enclave.Measurement)
	first := await(t, r, "cognition", `"class":"trade"`, `"privacyTier":"tee"`, `"tickId":"41"`, `"modelId":"sealed`)
	l.venice.Behave(fake.Behaviour{JSON: bid, Forge: func(r *enclave.Receipt) { r.Sent = func(string) []string { return nil } }})
	if got := l.Do(t, trade(true)); got.Status != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	await(t, r, "attestation", `"verified":false`, `"failureReason":"missing"`)
	again := followEvents(t, l.Gateway, "", first.ID)
	await(t, again, "attestation", `"verified":false`)

	records := see(t, l.Gateway, "/venice/telemetry", "")
	if d := records.Data; records.Mock || len(d) != 1 || d[0].Class != "trade" || d[0].Tier != "tee" || d[0].Tick != "41" || d[0].Ray != "8a1b2c3d-FRA" || d[0].Input == 0 || d[0].Attested == nil || !*d[0].Attested || d[0].Valid == nil || !*d[0].Valid {
		t.Errorf("%+v", records)
	}
	eventually(t, "the token is shown with its request", func() bool {
		d := see(t, l.Gateway, "/venice/attestations", "").Data
		return len(d) == 1 && d[0].Verified && d[0].Request != ""
	})
	if got := l.Do(t, gateway.Call{Path: "/venice/status"}); !strings.Contains(got.Body, `"keyStatus":"active"`) || !strings.Contains(got.Body, `"trade":0`) || !strings.Contains(got.Body, `"tee":1`) {
		t.Errorf("%s", got.Body)
	}
	if a, b := see(t, l.Gateway, "/venice/telemetry", other), see(t, l.Gateway, "/venice/attestations", other); len(a.Data)+len(b.Data) != 0 {
		t.Errorf("another key sees %+v %+v", a, b)
	}
	for _, path := range []string{
		"/venice/telemetry?limit=0", "/venice/attestations?limit=501", "/venice/telemetry?limit=x", "/venice/telemetry?limit=1&limit=2", "/venice/attestations?Limit=1", "/venice/attestations?limit=",
		"/venice/status?limit=1", "/venice/stream?last-event-id=1",
	} {
		if got := l.Do(t, gateway.Call{Path: path}); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	for _, c := range []gateway.Call{
		{Path: "/venice/stream?token=" + token.Token + "x", NoKey: true},
		{Path: "/venice/status?token=" + token.Token, NoKey: true},
		{Method: http.MethodPost, Path: "/venice/stream-token", Key: "nonsense"},
	} {
		if got := l.Do(t, c); got.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", c.Path, got.Status, got.Body)
		}
	}
	if seen := fmt.Sprint(records, l.Log()); strings.Contains(seen, "PLANTED") {
		t.Error("content is shown")
	}
}

// TestP10WithoutVeniceFiguresAreMadeUp: they say so, and on this machine a token is given to anybody, for ever.
func TestP10WithoutVeniceFiguresAreMadeUp(t *testing.T) {
	t.Parallel()
	open := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + "\nauth: {anonymous: true}\n", Env: []string{"VENICE_MOCK_RATE_MS=20"}, Providers: []gateway.Provider{{ID: "openai", Fake: open}}})
	if got := see(t, g, "/venice/telemetry?limit=7", ""); !got.Mock || len(got.Data) != 7 {
		t.Errorf("%+v", got)
	}
	if got := see(t, g, "/venice/attestations", ""); !got.Mock || len(got.Data) != 50 {
		t.Errorf("%d", len(got.Data))
	}
	if got := g.Do(t, gateway.Call{Path: "/venice/status"}); !strings.Contains(got.Body, `"mock":true`) || !strings.Contains(got.Body, `"dream_rem":{`) {
		t.Errorf("%s", got.Body)
	}
	issued := g.Do(t, gateway.Call{Method: http.MethodPost, Path: "/venice/stream-token", Key: "anything"})
	var token struct {
		Token       string
		Expires     *int64 `json:"expires_at"`
		Development bool
	}
	if issued.JSON(t, &token); token.Expires != nil || !token.Development {
		t.Fatalf("%d %s", issued.Status, issued.Body)
	}
	r := followEvents(t, g, token.Token, "")
	last := await(t, r, "cognition", `"mock":true`)
	if next := await(t, followEvents(t, g, token.Token, last.ID), "cognition", `"mock":true`); next.ID == last.ID || next.Data == last.Data {
		t.Errorf("%+v after %+v", next, last)
	}
}

// TestP10AStreamEndsWithTheGateway: it does not hold up the stop.
func TestP10AStreamEndsWithTheGateway(t *testing.T) {
	t.Parallel()
	open := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "openai", Fake: open}}})
	r := followEvents(t, g, "", "")
	await(t, r, "cognition")
	if err := g.Terminate(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := r.Next(); err != nil {
			break
		}
	}
	<-g.Exited()
	if code := g.ExitCode(); code != 0 || strings.Contains(g.Log(), "the drain time is over") {
		t.Errorf("exit %d: %s", code, g.Log())
	}
}

// TestP08OneKeyPerAgentAndEpoch: an agent's prompts have one key in the provider's cache, until a dream begins, its phase changes, or it says so.
func TestP08OneKeyPerAgentAndEpoch(t *testing.T) {
	t.Parallel()
	venice := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "venice", Vendor: fake.Venice})
	events := filepath.Join(t.TempDir(), "events.jsonl")
	config := func(cache string) gateway.Options {
		return gateway.Options{Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s"}
providers: {venice: {base_url: %q, api_key: %s%s, models: [{id: m, quality: high, price: {input: 1, output: 2}, capabilities: [tools, visible_thinking]}]}}
`, events, venice.URL, venice.Key, cache)}
	}
	g := gateway.Run(t, config(", cache: {}"))
	// key is the key of a request's prompts in the provider's cache.
	key := func(header ...string) string {
		t.Helper()
		venice.Forget()
		if got := g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, append(header, "X-Bardo-Golem-Id: g1", "X-Bardo-No-Cache: true")...); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		_, after, _ := strings.Cut(string(venice.Generations()[0].Body), `"prompt_cache_key":"`)
		k, _, _ := strings.Cut(after, `"`)
		return k
	}
	keys := []string{key("X-Bardo-Subsystem: heartbeat_t1")}
	for _, row := range []struct {
		about  string
		header []string
		same   bool
	}{
		{"another subsystem", []string{"X-Bardo-Subsystem: curator"}, true},
		{"a dream begins", []string{"X-Bardo-Subsystem: dream_nrem", "X-Bardo-Dream-Cycle-Id: c1"}, false},
		{"the dream goes on", []string{"X-Bardo-Subsystem: dream_rem", "X-Bardo-Dream-Cycle-Id: c1"}, true},
		{"a phase", []string{"X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Phase: stable"}, true},
		{"another phase", []string{"X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Phase: declining"}, false},
	} {
		k := key(row.header...)
		if !strings.HasPrefix(k, "g1:") || (k == keys[len(keys)-1]) != row.same {
			t.Errorf("%s: %s after %v", row.about, k, keys)
		}
		keys = append(keys, k)
	}
	advanced := g.Do(t, gateway.Call{Path: "/venice/cache/advance", Body: `{"golem_id":"g1"}`, Header: []string{"content-type: application/json"}})
	if k := key("X-Bardo-Subsystem: heartbeat_t1"); slices.Contains(keys, k) || !strings.Contains(advanced.Body, strings.TrimPrefix(k, "g1:")) {
		t.Errorf("asked for one: %s after %v; %s", k, keys, advanced.Body)
	}
	eventually(t, "the events", func() bool {
		b, err := os.ReadFile(events)
		all := string(b)
		return err == nil && strings.Count(all, `"venice:epoch_advanced"`) == 4 && strings.Contains(all, `"dream_cycle_start"`) && strings.Contains(all, `"phase_transition"`) && strings.Contains(all, `"reason":"request"`)
	})
	for _, bad := range []string{`{}`, `{"golem_id":7}`, `nonsense`, `{"golem_id":"g1","golem":"g2"}`} {
		if got := g.Do(t, gateway.Call{Path: "/venice/cache/advance", Body: bad, Header: []string{"content-type: application/json"}}); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, got.Status, got.Body)
		}
	}
	g.Configure(t, config(""))
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "without the section, keys are the subsystems'", func() bool { return key("X-Bardo-Subsystem: heartbeat_t1") == "golem-g1-heartbeat_t1" })
	if got := g.Do(t, gateway.Call{Path: "/venice/cache/advance", Body: `{"golem_id":"g1"}`, Header: []string{"content-type: application/json"}}); got.Status != http.StatusNotFound {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}
