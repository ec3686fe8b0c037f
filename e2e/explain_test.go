package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// retainsNothing is a gateway with an ordinary provider and one that retains nothing.
func retainsNothing(t *testing.T) (g *gateway.Gateway, ordinary, private *fake.Server) {
	t.Helper()
	ordinary = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "ordinary"})
	private = fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "private"})
	good := gateway.Model{ID: "good", Price: "{input: 3, output: 15}", More: "quality: maximum, capabilities: [tools, citations, interleaved_thinking], latency_p50_ms: 900"}
	fast := gateway.Model{ID: "fast", Price: "{input: 1, output: 2}", More: "quality: low, capabilities: [tools, low_effort], latency_p50_ms: 200"}
	quiet := gateway.Model{ID: "quiet", Price: "{input: 2, output: 4}", More: "quality: high, capabilities: [tools, visible_thinking], latency_p50_ms: 900"}
	return gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "ordinary", Fake: ordinary, Models: []gateway.Model{fast, good}},
		{ID: "private", Fake: private, Format: "anthropic", Models: []gateway.Model{quiet}, More: "private: true"},
	}}), ordinary, private
}

// explained is a request's explanation.
func explained(t *testing.T, g *gateway.Gateway, c gateway.Call) (r dryRun) {
	t.Helper()
	c.Header = append(c.Header, "X-Bardo-Route: explain")
	got := g.Do(t, c)
	if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("X-Request-Id") == "" {
		t.Fatalf("%d %v: %s", got.Status, got.Header, got.Body)
	}
	got.JSON(t, &r)
	return r
}

// TestAnExplanationSaysWhatWouldBeDone: in each dialect, and then it is done.
func TestAnExplanationSaysWhatWouldBeDone(t *testing.T) {
	t.Parallel()
	g, ordinary, private := retainsNothing(t)
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "1")
	for _, row := range []struct {
		about, subsystem, want string
		pipeline               string
	}{
		{"a routine beat", "heartbeat_t1", "ordinary/fast", "fast"},
		{"what counts", "risk", "ordinary/good", "standard"},
		{"a dream", "dream", "private/quiet", "fast"},
	} {
		t.Run(row.about, func(t *testing.T) {
			for _, a := range []ask{
				{dialect: fake.OpenAI, model: "auto"},
				{dialect: fake.OpenAI, model: "auto", stream: true},
				{dialect: fake.Anthropic, model: "auto"},
				{dialect: fake.Gemini, model: "auto"},
			} {
				call := a.call("X-Bardo-Subsystem: " + row.subsystem)
				call.Key = key.Key
				r := explained(t, g, call)
				if len(r.Order) == 0 || r.Order[0].Provider+"/"+r.Order[0].Model != row.want || r.Pipeline != row.pipeline {
					t.Errorf("%s: %+v", a.dialect, r)
				}
			}
		})
	}
	r := explained(t, g, gateway.Call{Path: "/v1/responses", Body: `{"model":"auto","input":"hi"}`, Key: key.Key, Header: []string{"X-Bardo-Subsystem: risk"}})
	if r.providers() == "" || r.Order[0].Model != "good" {
		t.Errorf("Responses: %+v", r)
	}
	if n := len(ordinary.Generations()) + len(private.Generations()); n != 0 {
		t.Errorf("%d calls for explanations", n)
	}
	var balance struct {
		Balance json.Number `json:"balance_usd"`
		Held    json.Number `json:"held_usd"`
	}
	g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/balance", Key: key.Key}).JSON(t, &balance)
	if balance.Balance != "1.000000" || balance.Held != "0.000000" {
		t.Errorf("an explanation costs nothing: %+v", balance)
	}
	for _, row := range [][2]string{{"risk", "ordinary"}, {"dream", "private"}} {
		got := g.Do(t, ask{dialect: fake.OpenAI, model: "auto"}.call("X-Bardo-Subsystem: "+row[0]))
		if by := got.Header.Get("X-Bardo-Provider"); got.Status != http.StatusOK || by != row[1] {
			t.Errorf("%s: %d by %s, want %s: %s", row[0], got.Status, by, row[1], got.Body)
		}
	}
}

func TestAnExplanationForPeople(t *testing.T) {
	t.Parallel()
	g, _, _ := retainsNothing(t)
	got := g.Do(t, ask{dialect: fake.OpenAI, model: "auto"}.call("X-Bardo-Route: explain", "Accept: text/plain", "X-Bardo-Subsystem: risk", "X-Bardo-Golem-Id: g"))
	for _, want := range []string{"RANK  PROVIDER", "1     ordinary", "pipeline standard; reasoning max, interleaved; profile {\"temperature\":0.1"} {
		if !strings.Contains(got.Body, want) {
			t.Errorf("no %q in\n%s", want, got.Body)
		}
	}
	if got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("it is %s", got.Header.Get("Content-Type"))
	}
	a := ask{dialect: fake.OpenAI, model: "auto"}
	mustFail(t, a, g.Do(t, a.call("X-Bardo-Route: perhaps")), http.StatusBadRequest, "invalid_request")
	mustFail(t, a, g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: a.body(), Key: "bardo_sk_no", Header: []string{"X-Bardo-Route: explain"}}), http.StatusUnauthorized, "invalid_api_key")
}

// TestD12WhatMustStayPrivateIsServedByThoseThatRetainNothingOrByNobody: also when they fail, and when the model is another's.
func TestD12WhatMustStayPrivateIsServedByThoseThatRetainNothingOrByNobody(t *testing.T) {
	t.Parallel()
	g, ordinary, private := retainsNothing(t)
	for _, a := range []ask{{dialect: fake.OpenAI, model: "auto"}, {dialect: fake.Anthropic, model: "auto", stream: true}} {
		call := a.call("X-Bardo-Security-Class: private", "X-Bardo-Subsystem: risk")
		if got := g.Do(t, call); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "private" {
			t.Errorf("%d by %s: %s", got.Status, got.Header.Get("X-Bardo-Provider"), got.Body)
		}
	}
	named := ask{dialect: fake.OpenAI, model: "good"}
	refused := g.Do(t, named.call("X-Bardo-Security-Class: private"))
	mustFail(t, named, refused, http.StatusServiceUnavailable, "no_private_provider")
	var record struct {
		SecurityClass string `json:"security_class"`
		ErrorMessage  string `json:"error_message"`
	}
	get(t, g, g.Key, "/v1/requests/"+refused.Header.Get("X-Request-Id"), &record)
	if why := "ordinary: the request is private, and it may retain what it gets"; record.SecurityClass != "private" || !strings.Contains(record.ErrorMessage, why) || !strings.Contains(refused.Body, why) {
		t.Errorf("the record says %+v, the client was told %s", record, refused.Body)
	}
	private.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
	down := ask{dialect: fake.OpenAI, model: "auto"}
	if got := g.Do(t, down.call("X-Bardo-Security-Class: private", "X-Bardo-Subsystem: risk")); got.Status < 500 {
		t.Errorf("%d by %s", got.Status, got.Header.Get("X-Bardo-Provider"))
	}
	if n := len(ordinary.Generations()); n != 0 {
		t.Errorf("%d private requests were seen by a provider that may retain them", n)
	}
}

// TestARunOnRulesPaysForNoModel (D-10).
func TestARunOnRulesPaysForNoModel(t *testing.T) {
	t.Parallel()
	g, _, _ := retainsNothing(t)
	for _, model := range []string{"auto", "good"} {
		a := ask{dialect: fake.OpenAI, model: model}
		mustFail(t, a, g.Do(t, a.call("X-Bardo-Subsystem: heartbeat_t0")), http.StatusUnprocessableEntity, "t0_has_no_model")
	}
}
