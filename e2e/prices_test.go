package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// tieredBill is what a request's record says of its tier of service and of its price.
type tieredBill struct {
	Cost     json.Number `json:"provider_cost_usd"`
	Tier     string      `json:"service_tier"`
	Degraded []string
}

// TestTheTierOfServiceIsBilled: what the answer says overrides what was asked for, for clients of both of OpenAI's formats, streamed or not. A
// tier that has no price is refused. gpt-5-mini: $0.25 and $2, flex $0.125 and $1, priority $0.45 and $3.60.
func TestTheTierOfServiceIsBilled(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + "billing: {spread_pct: 0}\n", Providers: []gateway.Provider{{ID: "openai", Fake: p}, nightly(t)}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
	checkNightly(t, g, key)
	const usual, flex, priority = "0.00125", "0.000625", "0.00225"
	for _, row := range []struct {
		asked, answered string
		sent            bool
		cost, tier      string
	}{
		{"", "default", false, usual, ""},
		{"priority", "priority", true, priority, "priority"},
		{"priority", "default", true, usual, ""}, // it was asked for too much
		{"flex", "flex", true, flex, "flex"},
		{"flex", "auto", true, flex, "flex"}, // the answer does not say
		{"auto", "priority", true, priority, "priority"},
		{"", "priority", false, priority, "priority"}, // by its account
		{"default", "default", true, usual, ""},
	} {
		p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, Output: 500, Tier: row.answered}})
		for _, s := range []shaper{"openai", "responses"} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("asks %q, gets %q/%s/stream=%v", row.asked, row.answered, s, stream), func(t *testing.T) {
					p.Forget()
					more := ""
					if row.asked != "" {
						more = fmt.Sprintf(`"service_tier":%q`, row.asked)
					}
					before := balanceOf(t, g, key)
					c := s.call("gpt-5-mini", stream, "hi", more)
					c.Key = key
					got := g.Do(t, c)
					if got.Status != http.StatusOK {
						t.Fatalf("%d %s", got.Status, got.Body)
					}
					last, _ := p.Last()
					if sent := strings.Contains(string(last.Body), fmt.Sprintf(`"service_tier":%q`, row.asked)); sent != row.sent {
						t.Errorf("the provider got %s", last.Body)
					}
					var b tieredBill
					get(t, g, key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &b)
					if string(b.Cost) != row.cost || b.Tier != row.tier || slices.Contains(b.Degraded, "service_tier") {
						t.Errorf("billed %+v", b)
					}
					if paid := before - balanceOf(t, g, key); fmt.Sprintf("0.%06d", paid) != padded(row.cost) {
						t.Errorf("%d were taken", paid)
					}
				})
			}
		}
	}
	g.AssertSound(t)
}

// TestTheTierAskedForIsReserved: a key that can pay the usual price alone gets nothing dearer, and nothing of what it has stays held.
func TestTheTierAskedForIsReserved(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + "billing: {spread_pct: 0}\n", Providers: []gateway.Provider{{ID: "openai", Fake: p}}})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 5}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "0.003").Key
	for tier, want := range map[string]int{"default": http.StatusOK, "flex": http.StatusOK, "priority": http.StatusPaymentRequired, "scale": http.StatusBadRequest} {
		for _, stream := range []bool{false, true} {
			c := ask{dialect: fake.OpenAI, model: "gpt-5-mini", stream: stream, more: fmt.Sprintf(`"max_tokens":1000,"service_tier":%q`, tier)}.call()
			c.Key = key
			if got := g.Do(t, c); got.Status != want {
				t.Errorf("%s: %d %s", tier, got.Status, got.Body)
			}
		}
	}
	balanceOf(t, g, key)
	g.AssertSound(t)
}

// TestOtherTiersElsewhere: Anthropic's priority is what its account has by commitment, and is billed as usual unless its operator says
// otherwise; a user's own key gets what it asks for; and a provider that the client's words do not reach is not billed by them.
func TestOtherTiersElsewhere(t *testing.T) {
	t.Parallel()
	claude, gpt, own := fake.Start(t, fake.Config{Dialect: fake.Anthropic}), fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf("billing: {spread_pct: 0}\nproviders:\n  anthropic: {api_key: %s, base_url: %q}\n", claude.Key, claude.URL) +
		fmt.Sprintf("  direct: {keys: [{provider: openai, api_key: %s, base_url: %q}]}\n", own.Key, own.URL) +
		fmt.Sprintf("  custom: [{id: mine, endpoints: [%q], api_key: %s, models: [{id: gpt-4.1}, {id: priced, price: {input: 1, output: 2, service_tiers: {turbo: {input: 10, output: 20}}}}]}]\n", gpt.URL, gpt.Key)})
	u := func(tier string) fake.Behaviour {
		return fake.Behaviour{Usage: &fake.Usage{Input: 1000, Output: 500, Tier: tier}}
	}
	claude.Behave(u("priority"))
	gpt.Behave(u(""))
	own.Behave(u("priority"))
	for _, row := range []struct {
		about string
		s     shaper
		model string
		asked string
		at    *fake.Server
		sent  bool
		lost  bool
		cost  string
	}{
		{"Anthropic's auto", "anthropic", "claude-sonnet-4-5", "auto", claude, true, false, "0.0105"},
		{"Anthropic's standard", "anthropic", "claude-sonnet-4-5", "standard_only", claude, true, false, "0.0105"},
		{"OpenAI's word for Anthropic", "openai", "claude-sonnet-4-5", "flex", claude, false, true, "0.0105"},
		{"the operator's own, with an answer that names the usual", "openai", "mine/priced", "turbo", gpt, true, false, "0.002"},
		{"from another format", "anthropic", "mine/priced", "turbo", gpt, false, true, "0.002"},
		{"a user's own key", "openai", "direct/openai/gpt-4.1", "scale", own, true, false, "0"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", row.about, stream), func(t *testing.T) {
				row.at.Forget()
				got := g.Do(t, row.s.call(row.model, stream, "hi", fmt.Sprintf(`"service_tier":%q`, row.asked)))
				if got.Status != http.StatusOK {
					t.Fatalf("%d %s", got.Status, got.Body)
				}
				last, _ := row.at.Last()
				if sent := strings.Contains(string(last.Body), fmt.Sprintf("%q", row.asked)); sent != row.sent {
					t.Errorf("the provider got %s", last.Body)
				}
				b := billOfLater(t, g, got)
				if string(b.Cost) != row.cost || slices.Contains(b.Degraded, "service_tier") != row.lost {
					t.Errorf("billed %+v", b)
				}
			})
		}
	}
	g.AssertSound(t)
}

// TestALongPromptIsBilledAsOne: by what the provider counts, the cached part included, and reserved by what the gateway expects. GET
// /v1/models shows it. Gemini 2.5 Pro: $1.25 and $10, above 200,000 tokens $2.50 and $15, and $0.25 of what is cached.
func TestALongPromptIsBilledAsOne(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Gemini})
	g := gateway.Run(t, gateway.Options{Config: quick + "billing: {spread_pct: 0}\n", Providers: []gateway.Provider{{ID: "google", Fake: p}}})
	for _, row := range []struct {
		input, cached int
		cost          string
	}{{199_000, 1_000, "0.258875"}, {199_000, 1_001, "0.51275025"}, {300_000, 0, "0.765"}} {
		p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: row.input, Cached: row.cached, Output: 1_000}})
		for _, stream := range []bool{false, true} {
			got := g.Do(t, ask{dialect: fake.OpenAI, model: "gemini-2.5-pro", stream: stream}.call())
			if got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			if r := billOfLater(t, g, got); string(r.Cost) != row.cost {
				t.Errorf("%d and %d tokens, stream=%v: %s, want %s", row.input, row.cached, stream, r.Cost, row.cost)
			}
		}
	}
	// A prompt of some 250,000 tokens at $2.50, not $1.25.
	poor := g.CreateKey(t, "--name", "poor", "--balance-usd", "0.5").Key
	c := ask{dialect: fake.OpenAI, model: "gemini-2.5-pro", more: `"max_tokens":10`, say: strings.Repeat("word ", 250_000)}.call()
	c.Key = poor
	if got := g.Do(t, c); got.Status != http.StatusPaymentRequired {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
	balanceOf(t, g, poor)
	var m struct {
		Offers []struct {
			Price struct {
				Above []struct {
					Tokens int
					Input  json.Number
				}
			}
		}
	}
	got := g.Do(t, gateway.Call{Path: "/v1/models/gemini-2.5-pro"})
	got.JSON(t, &m)
	if len(m.Offers) != 1 || len(m.Offers[0].Price.Above) != 1 || m.Offers[0].Price.Above[0].Tokens != 200_000 || m.Offers[0].Price.Above[0].Input != "2.500000" {
		t.Errorf("GET /v1/models shows %s", got.Body)
	}
	g.AssertSound(t)
}

// billOfLater is a record that is written behind its answer.
func billOfLater(t *testing.T, g *gateway.Gateway, got gateway.Answer) (b tieredBill) {
	t.Helper()
	eventually(t, "its record", func() bool {
		r := g.Do(t, gateway.Call{Path: "/v1/requests/" + got.Header.Get("X-Request-Id")})
		return r.Status == http.StatusOK && json.Unmarshal([]byte(r.Body), &b) == nil
	})
	return b
}

// nightly is a provider with a model whose usual price never holds.
func nightly(t *testing.T) gateway.Provider {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, Output: 500}})
	return gateway.Provider{ID: "night", Fake: p, Models: []gateway.Model{{ID: "nightly", Price: `{input: 1, output: 2, hours: [{from: "00:00", to: "24:00", pct: 50}]}`}}}
}

// checkNightly checks that the price of the time of day is estimated and charged (B-17), and that the invoice names it.
func checkNightly(t *testing.T, g *gateway.Gateway, key string) {
	t.Helper()
	got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: key, Body: `{"model":"nightly","messages":[{"role":"user","content":"hi"}]}`})
	if got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	var b struct {
		Cost    json.Number `json:"cost_usd"`
		Invoice []struct {
			Price json.Number `json:"usd_per_million"`
			Hours string      `json:"price_hours"`
		} `json:"invoice"`
	}
	get(t, g, key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &b)
	if b.Cost != "0.001" && b.Cost != "0.001000" || len(b.Invoice) != 2 || b.Invoice[0].Price != "0.500000" || b.Invoice[1].Hours != "00:00-24:00 UTC" {
		t.Errorf("billed %+v", b)
	}
	if out := g.Bardo(t, "route", "--model", "nightly", "--input-tokens", "1000000", "--max-tokens", "1000000"); !strings.Contains(out, "1.5") {
		t.Errorf("the estimate is %s", out)
	}
}
