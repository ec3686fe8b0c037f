package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// readEvents opens the stream of a key's events; what it reads ends with the test.
func readEvents(t *testing.T, g *gateway.Gateway, key, last string) *gateway.Reader {
	t.Helper()
	c := gateway.Call{Path: "/v1/events", Key: key}
	if last != "" {
		c.Header = []string{"Last-Event-ID: " + last}
	}
	resp, err := g.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	return gateway.NewReader(resp.Body)
}

// readAllEvents opens the operator's stream.
func readAllEvents(t *testing.T, g *gateway.Gateway) *gateway.Reader {
	t.Helper()
	o := operatorOf(t, g)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.at+"/admin/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+o.token)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	return gateway.NewReader(resp.Body)
}

// failingOver is a gateway whose first provider answers nothing, and whose second one does.
func failingOver(t *testing.T) (g *gateway.Gateway, second *fake.Server) {
	t.Helper()
	first := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	first.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
	second = fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	second.Behave(fake.Behaviour{Text: "PLANTED answer", Thoughts: []fake.Thought{{Text: "PLANTED thought"}}})
	return gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "first", Fake: first, Models: models("m", "")}, {ID: "second", Fake: second, Models: models("m", "")},
	}}), second
}

// TestE03AKeySeesItsInferences from start to end, with the failover, the tokens and stored answers, and no word of what was said. Another key sees nothing, and the
// operator all.
func TestE03AKeySeesItsInferences(t *testing.T) {
	t.Parallel()
	g, _ := failingOver(t)
	other := g.CreateKey(t, "--name", "other").Key
	mine, all, foreign := readEvents(t, g, "", ""), readAllEvents(t, g), readEvents(t, g, other, "")
	call := ask{dialect: fake.OpenAI, model: "m", stream: true, say: "PLANTED question", more: `"temperature":0`}.call()
	call.Header = append(call.Header, "X-Bardo-Golem-Id: golem-7", "X-Bardo-Tick: 41", "X-Bardo-Subsystem: heartbeat_t2")
	if got := g.Do(t, call); got.Status != http.StatusOK || !strings.Contains(got.Body, "answer") {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	var seen strings.Builder
	next := func(name string, texts ...string) gateway.Event {
		e := await(t, mine, name, append(texts, `"request_id":"`)...)
		seen.WriteString(e.Data)
		return e
	}
	start := next("inference.start", `"golem_id":"golem-7","sequence":0,"tick":41`, `"model":"m","provider":"first","tier":"T2","subsystem":"heartbeat_t2"`)
	next("inference.provider_fallback", `"failed_provider":"first","fallback_provider":"second","reason":"status_503"`)
	next("inference.token", `"is_reasoning":true`)
	next("inference.token", `"is_reasoning":false`, `"token_count":`)
	next("inference.end", `"model":"m","provider":"second"`, `"outcome":"ok"`, `"latency_ms":`, `"cache_hit_rate":0`, `"output_tokens":`)
	again := ask{dialect: fake.OpenAI, model: "m", say: "PLANTED again", more: `"temperature":0`}.call()
	for _, cache := range []string{"miss", "hash"} {
		if got := g.Do(t, again); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cache") != cache {
			t.Fatalf("%d %v", got.Status, got.Header)
		}
	}
	next("inference.cache_hit", `"cache_type":"hash"`, `"savings_usd":`)
	await(t, all, "inference.start", `"account":"`, `"golem-7"`)
	await(t, all, "inference.cache_hit", `"account":"`)
	if e := await(t, readEvents(t, g, "", start.ID), "inference.end"); !strings.Contains(e.Data, `"provider":"second"`) {
		t.Errorf("resumed: %s", e.Data)
	}
	if got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: other, Body: `{"model":"m","messages":[{"role":"user","content":"x"}]}`}); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if e := await(t, foreign, "inference.start"); strings.Contains(e.Data, "golem-7") {
		t.Errorf("another key sees %s", e.Data)
	}
	if strings.Contains(seen.String(), "PLANTED") {
		t.Error("content is shown")
	}
}

// TestE03WhoMayReadEvents: a key, not more than so many streams of one, and who comes with an id of elsewhere is told.
func TestE03WhoMayReadEvents(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + "\nauth: {anonymous: true}\n", Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
	for _, c := range []gateway.Call{{Path: "/v1/events", NoKey: true}, {Path: "/v1/events", Key: "nonsense"}} {
		if got := g.Do(t, c); got.Status != http.StatusUnauthorized {
			t.Errorf("%+v: %d %s", c, got.Status, got.Body)
		}
	}
	if got := g.Do(t, gateway.Call{Method: http.MethodPost, Path: "/v1/events"}); got.Status != http.StatusMethodNotAllowed {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	await(t, readEvents(t, g, "", "ELSEWHERE-9"), "bardo:gap", `{"missed":null,"reason":"unknown_id"}`)
	for range 15 {
		readEvents(t, g, "", "")
	}
	if got := g.Do(t, gateway.Call{Path: "/v1/events"}); got.Status != http.StatusTooManyRequests {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()); got.Status != http.StatusOK {
		t.Errorf("a request while events are read: %d %s", got.Status, got.Body)
	}
}

// TestD3AReaderOfEventsHoldsUpNothing: neither a reload nor a stop waits for one, and one who reads nothing holds up no request.
func TestD3AReaderOfEventsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	o := gateway.Options{Config: quickly, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}}
	g := gateway.Run(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	unread, err := g.Open(ctx, gateway.Call{Path: "/v1/events"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unread.Body.Close() }()
	r, all := readEvents(t, g, "", ""), readAllEvents(t, g)
	for i := range 300 {
		if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", say: fmt.Sprint(i)}.call()); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	o.Config = quickly + "telemetry: {log_level: debug}\n"
	reload(t, g, o)
	if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", more: `"user":"after"`}.call()); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	await(t, r, "inference.end")
	await(t, all, "inference.end")
	if err := g.Terminate(); err != nil {
		t.Fatal(err)
	}
	if code := stops(t, g); code != 0 {
		t.Errorf("exit status %d", code)
	}
}
