package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// smallModel is one that heartbeats of tier T1 may have.
var smallModel = []gateway.Model{{
	ID: "small", Price: "{input: 1, output: 2}", More: "quality: low, family: small, reasoning: none, capabilities: [tools, structured_outputs, low_effort]",
}}

// TestR23TierT2IsNeverLessPrivateThanT1: an answer of a private provider to a request that prefers privacy, or that is confidential, is not
// replaced by that of one which is not private.
func TestR23TierT2IsNeverLessPrivateThanT1(t *testing.T) {
	t.Parallel()
	quiet := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "quiet"})
	loud := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "loud"})
	says(quiet, decision("observe", 0.9, true), 10, 10)
	says(loud, decision("exit", 0.9, false), 10, 10)
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "quiet", Fake: quiet, More: "private: true", Models: smallModel},
		{ID: "loud", Fake: loud, Format: "anthropic", Models: []gateway.Model{{ID: "claude-opus-4-6", Price: "{input: 3, output: 4}"}}},
	}})
	for _, row := range []struct{ header, given string }{
		{"X-Bardo-Prefer: privacy", "quiet"},
		{"X-Bardo-Security-Class: confidential", "quiet"},
		{"X-Bardo-Security-Class: standard", "loud"},
	} {
		for _, stream := range []bool{false, true} {
			loud.Forget()
			got := g.Do(t, shaper("openai").call("small", stream, fmt.Sprintf("a secret of ours, %s, %v", row.header, stream), "",
				"X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Escalate: auto", row.header))
			if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != row.given || loud.Saw("a secret of ours") != (row.given == "loud") {
				t.Errorf("%s, stream=%v: %d by %s, the other saw it: %v", row.header, stream, got.Status, got.Header.Get("X-Bardo-Provider"), loud.Saw("a secret of ours"))
			}
		}
	}
	g.AssertSound(t)
}

// TestR23TierT2IsNeverAskedWithAUsersOwnKey: of a request that the operator's account pays, T2 is not asked with a key that a user configured,
// nor the other way round, and no key that a request brings pays for a call that it did not ask for.
func TestR23TierT2IsNeverAskedWithAUsersOwnKey(t *testing.T) {
	t.Parallel()
	const brought, native = "sk-or-the-users-own", "X-Bardo-Prefer: direct_passthrough"
	const bring = "X-Bardo-Upstream-Key: " + brought
	swift := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "swift"})
	loud := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "loud"})
	broad := fake.Start(t, fake.Config{Vendor: fake.OpenRouter, Keys: []string{brought}})
	large := `models: [{id: large, upstream_id: maker/large, price: {input: 3, output: 4}, quality: high, family: large, capabilities: [tools, structured_outputs, low_effort, cross_verify]}]`
	direct := fmt.Sprintf("  direct: {keys: [{provider: anthropic, api_key: %s, base_url: %q}]}\n", loud.Key, loud.URL)
	engineered := fmt.Sprintf("  direct: {keys: [{provider: anthropic, api_key: %s, base_url: %q, context_engineering: true}]}\n", loud.Key, loud.URL)
	ownSwift := fmt.Sprintf("  direct: {keys: [{provider: openai, api_key: %s, base_url: %q, context_engineering: true}]}\n", swift.Key, swift.URL)
	operators := fmt.Sprintf("  anthropic: {api_key: %s, base_url: %q}\n", loud.Key, loud.URL)
	custom := fmt.Sprintf("  custom: [{id: swift, endpoints: [%q], api_key: %s, models: [{id: small, price: {input: 1, output: 2}, %s}]}]\n", swift.URL, swift.Key, smallModel[0].More)
	byok := func(key, models string) string {
		return fmt.Sprintf("  openrouter: {endpoint: %q, byok: true%s, %s}\n", broad.URL, key, models)
	}
	small := "models: [{id: small, upstream_id: maker/small, price: {input: 1, output: 2}, " + smallModel[0].More + "}]"
	for _, row := range []struct {
		about, providers string
		model, header    string
		escalates        bool
	}{
		{"T2 at a direct key", custom + direct, "small", native, false},
		{"T2 at a direct key with the pipeline", custom + engineered, "small", native, false},
		{"T2 at a provider that takes only keys that requests bring", custom + byok("", large), "small", "X-Bardo-Tick: 1", false},
		{"T1 at a direct key with the pipeline, T2 on the operator's account", ownSwift + operators, "gpt-4.1-nano", native, false},
		{"T1 with a key that the request brings, T2 on the operator's account", byok("", small) + operators, "small", bring, false},
		{"T1 and T2 with a key that the request brings", byok("", small[:len(small)-1]+", "+large[len("models: ["):]), "small", bring, false},
		{"both on the operator's account", custom + operators, "small", native, true},
	} {
		t.Run(row.about, func(t *testing.T) {
			g := gateway.Run(t, gateway.Options{Config: quick + "providers:\n" + row.providers})
			says(swift, decision("observe", 0.9, true), 10, 10)
			says(broad, decision("observe", 0.9, true), 10, 10)
			says(loud, decision("exit", 0.9, false), 10, 10)
			for _, stream := range []bool{false, true} {
				for _, s := range []*fake.Server{swift, broad, loud} {
					s.Forget()
				}
				c := shaper("openai").call(row.model, stream, fmt.Sprintf("What now? stream=%v", stream), "", "X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Escalate: auto", row.header)
				if !strings.Contains(row.providers, "  custom:") { // who pays the provider itself needs no balance
					c.Key = g.CreateKey(t, "--name", "poor", "--balance-usd", "0.000001").Key
				}
				got := g.Do(t, c)
				if word := wordOf(t, got, "X-Bardo-Escalated", "escalated"); got.Status != http.StatusOK || (word != "") != row.escalates {
					t.Errorf("stream=%v: %d, escalated %q by %s: %s", stream, got.Status, word, got.Header.Get("X-Bardo-Provider"), got.Body)
				}
				calls := len(swift.Generations()) + len(broad.Generations())
				if calls != 1 || (len(loud.Generations()) != 0) != row.escalates {
					t.Errorf("stream=%v: %d and %d calls", stream, calls, len(loud.Generations()))
				}
			}
			g.AssertSound(t)
		})
	}
}
