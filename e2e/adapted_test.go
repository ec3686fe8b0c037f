package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestK85BetaFlags: Anthropic gets every flag, a server of its format those it is configured to know, and a flag that a provider
// refuses does not fail the request.
func TestK85BetaFlags(t *testing.T) {
	t.Parallel()
	const known, edits, unknown = "context-1m-2025-08-07", "context-management-2025-06-27", "future-feature-2031-01-01"
	official := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "official"})
	strict := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "strict", Betas: []string{known}})
	wary := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "wary", Betas: []string{known}})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "anthropic", Fake: official},
		{ID: "strict", Fake: strict, Format: "anthropic", Models: models("m", ""), More: "betas: [" + known + "]"},
		anthropicCustom("wary", wary, "n"),
	}})
	for _, r := range []struct {
		model, provider, attempts string
		at                        *fake.Server
		flags                     string
		lost                      []string
	}{
		{"claude-sonnet-4-5", "anthropic", "1", official, known + "," + edits + "," + unknown, nil},
		{"m", "strict", "1", strict, known, []string{"context_management", "beta:" + edits, "beta:" + unknown}},
		{"n", "wary", "3", wary, known, []string{"context_management", "beta:" + edits, "beta:" + unknown}},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream=%v", r.provider, stream), func(t *testing.T) {
				a := ask{dialect: fake.Anthropic, model: r.model, stream: stream, more: `"context_management":{"edits":[]}`}
				got := g.Do(t, a.call("anthropic-beta: "+known+","+edits+", "+unknown))
				mustAnswer(t, got, r.provider, r.attempts, r.lost...)
				if flags := lastOf(t, r.at).Header.Get("Anthropic-Beta"); flags != r.flags {
					t.Errorf("the provider saw %q, want %q", flags, r.flags)
				}
			})
		}
		t.Run(r.provider+", counting", func(t *testing.T) {
			got := g.Do(t, gateway.Call{
				Path: "/v1/messages/count_tokens?beta=true", Body: `{"model":"` + r.model + `","messages":[{"role":"user","content":"hi"}]}`,
				Header: []string{"anthropic-version: 2023-06-01", "anthropic-beta: " + known + "," + unknown},
			})
			if got.Status != http.StatusOK || !strings.Contains(got.Body, "input_tokens") {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
}

// TestD24SamplingThatAModelRefuses: the catalog knows whose models refuse it, whoever asks.
func TestD24SamplingThatAModelRefuses(t *testing.T) {
	t.Parallel()
	o := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "openai", Fake: o}}})
	for model, lost := range map[string]string{"o4-mini": "temperature", "gpt-4o": ""} {
		for _, a := range []ask{
			{dialect: fake.OpenAI, model: model, more: `"max_tokens":100,"temperature":0.5`},
			{dialect: fake.OpenAI, model: model, more: `"max_tokens":100,"temperature":0.5`, stream: true},
			{dialect: fake.Anthropic, model: model, more: `"temperature":0.5`},
		} {
			t.Run(fmt.Sprintf("%s to %s, stream=%v", a.dialect, model, a.stream), func(t *testing.T) {
				got := g.Do(t, a.call())
				if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Degraded") != lost {
					t.Fatalf("%d, degraded %q: %s", got.Status, got.Header.Get("X-Bardo-Degraded"), got.Body)
				}
				body := string(lastOf(t, o).Body)
				if strings.Contains(body, "temperature") != (lost == "") || strings.Contains(body, `"max_completion_tokens":100`) == (lost == "" && a.dialect == fake.OpenAI) {
					t.Errorf("the provider got %s", body)
				}
			})
		}
	}
}
