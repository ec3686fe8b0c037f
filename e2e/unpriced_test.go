package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// pricedLab is a gateway before OpenAI, Anthropic, Google, OpenRouter, Venice and a server of its own, all on the operator's account, with
// users' own keys at the first three.
type pricedLab struct {
	*gateway.Gateway
	at   map[string]*fake.Server // by the provider's name
	rich string                  // a prepaid key
}

// runPricedLab starts it. more are further members of OpenRouter's section.
func runPricedLab(t *testing.T, more string) *pricedLab {
	t.Helper()
	l := &pricedLab{at: map[string]*fake.Server{}}
	for name, c := range map[string]fake.Config{
		"openai": {Dialect: fake.OpenAI}, "anthropic": {Dialect: fake.Anthropic}, "google": {Dialect: fake.Gemini},
		"openrouter": {Vendor: fake.OpenRouter}, "venice": {Vendor: fake.Venice}, "mine": {Dialect: fake.OpenAI}, "claudish": {Dialect: fake.Anthropic},
	} {
		c.Allow = []string{ // so that the fake takes what the real one may not know
			"background", "speed", "inference_geo", "container", "mcp_servers", "search_parameters", "enable_search", "fallbacks", "models",
			"plugins", "route", "preset", "provider", "transforms", "web_search_options",
		}
		l.at[name] = fake.Start(t, c)
		l.at[name].Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, Output: 500}})
	}
	direct := ""
	for _, name := range []string{"openai", "anthropic", "google"} {
		direct += fmt.Sprintf("{provider: %s, api_key: %s, base_url: %q}, ", name, l.at[name].Key, l.at[name].URL)
	}
	config := quick + "billing: {spread_pct: 20}\nproviders:\n"
	for _, name := range []string{"openai", "anthropic", "google"} {
		config += fmt.Sprintf("  %s: {api_key: %s, base_url: %q}\n", name, l.at[name].Key, l.at[name].URL)
	}
	config += fmt.Sprintf("  openrouter: {api_key: %s, endpoint: %q%s}\n", l.at["openrouter"].Key, l.at["openrouter"].URL, more) +
		fmt.Sprintf("  venice: {api_key: %s, base_url: %q, models: [{id: dreamer, capabilities: [web_search], price: {input: 1, output: 2}}, {id: seer, capabilities: [web_search], price: {input: 1, output: 2, per_search: 0.01}}]}\n", l.at["venice"].Key, l.at["venice"].URL) +
		fmt.Sprintf("  custom:\n  - {id: mine, endpoints: [%q], api_key: %s, responses: true, models: [{id: plain, price: {input: 1, output: 2}}, {id: finder, price: {input: 1, output: 2, per_search: 0.02}}]}\n", l.at["mine"].URL, l.at["mine"].Key) +
		fmt.Sprintf("  - {id: claudish, format: anthropic, endpoints: [%q], api_key: %s, models: [{id: poet, price: {input: 1, output: 2}}]}\n", l.at["claudish"].URL, l.at["claudish"].Key) +
		"  direct: {keys: [" + direct + "]}\n"
	l.Gateway = gateway.Run(t, gateway.Options{Config: config})
	l.rich = l.CreateKey(t, "--name", "rich", "--balance-usd", "100").Key
	return l
}

// asked is how many completions all the providers were asked for.
func (l *pricedLab) asked() (n int) {
	for _, p := range l.at {
		n += len(p.Generations())
	}
	return n
}

// extra is a part of a request that costs more than its tokens.
type extra struct {
	s     shaper
	model string
	more  string // members
	names string // what the error says of it: the member, and its value
}

func (e *extra) String() string { return string(e.s) + "/" + e.model + "/" + e.names }

// unpricedParts are examples of every provider and every format of a client.
var unpricedParts = []extra{
	{"responses", "openai/gpt-5", `"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`, `tools[0].type "code_interpreter"`},
	{"responses", "openai/gpt-5", `"tools":[{"type":"function","name":"f","parameters":{"type":"object"}},{"type":"image_generation"}]`, `tools[1].type "image_generation"`},
	{"responses", "openai/gpt-5", `"tools":[{"type":"file_search","vector_store_ids":[]}]`, `tools[0].type "file_search"`},
	{"responses", "openai/gpt-5", `"tools":[{"type":"mcp","server_label":"x","server_url":"https://a.example/"}]`, `tools[0].type "mcp"`},
	{"responses", "openai/gpt-5", `"tools":[{"type":"shell","environment":{"type":"container_auto"}}]`, `tools[0].type "shell"`},
	{"responses", "openai/gpt-5", `"tools":[{"type":"namespace","name":"n","tools":[{"type":"mcp"}]}]`, `tools[0].tools[0].type "mcp"`},
	{"responses", "openai/gpt-5", `"tools":[{"type":"of_next_year"}]`, `tools[0].type "of_next_year"`},
	{"responses", "openai/gpt-4.1", `"tools":[{"type":"web_search_preview"}]`, `tools[0].type "web_search_preview"`},
	{"responses", "openai/gpt-5", `"background":true`, `background "true"`},
	{"responses", "openai/gpt-5", `"service_tier":"scale"`, `service_tier "scale"`},
	{"openai", "openai/gpt-5", `"service_tier":"scale"`, `service_tier "scale"`},
	{"openai", "openai/gpt-4o", `"modalities":["text","audio"],"audio":{"voice":"alloy","format":"wav"}`, `modalities`},
	{"openai", "openai/gpt-4o", `"background":true`, `background "true"`},
	{"openai", "mine/plain", `"web_search_options":{}`, `web_search_options "{}"`},
	{"openai", "mine/plain", `"search_parameters":{"mode":"on"}`, `search_parameters`},
	{"openai", "mine/plain", `"enable_search":true`, `enable_search "true"`},
	{"openai", "mine/plain", `"models":["gpt-5-pro"]`, `models`},
	{"openai", "mine/finder", `"service_tier":"priority"`, `service_tier "priority"`},
	{"responses", "mine/plain", `"tools":[{"type":"web_search"}]`, `tools[0].type "web_search"`},
	{"anthropic", "anthropic/claude-sonnet-4-5", `"speed":"fast"`, `speed "fast"`},
	{"anthropic", "anthropic/claude-sonnet-4-5", `"inference_geo":"us"`, `inference_geo "us"`},
	{"anthropic", "anthropic/claude-sonnet-4-5", `"tools":[{"type":"code_execution_20250825","name":"code_execution"}]`, `tools[0].type "code_execution_20250825"`},
	{"anthropic", "anthropic/claude-sonnet-4-5", `"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]`, `tools[0].type "web_fetch_20250910"`},
	{"anthropic", "anthropic/claude-sonnet-4-5", `"mcp_servers":[{"type":"url","url":"https://a.example/","name":"x"}]`, `mcp_servers`},
	{"anthropic", "anthropic/claude-sonnet-4-5", `"container":{"skills":[]}`, `container`},
	{"anthropic", "anthropic/claude-sonnet-4-5", `"service_tier":"turbo"`, `service_tier "turbo"`},
	{"anthropic", "claudish/poet", `"tools":[{"type":"web_search_20250305","name":"web_search"}]`, `tools[0].type "web_search_20250305"`},
	{"gemini", "google/gemini-2.5-pro", `"tools":[{"googleSearch":{}}]`, `tools[0].googleSearch "googleSearch"`},
	{"gemini", "google/gemini-2.5-pro", `"tools":[{"google_search":{}}]`, `tools[0].google_search "google_search"`},
	{"gemini", "google/gemini-2.5-pro", `"tools":{"googleMaps":{}}`, `tools.googleMaps "googleMaps"`},
	{"gemini", "google/gemini-2.5-pro", `"tools":[{"functionDeclarations":[{"name":"f"}]},{"urlContext":{}}]`, `tools[1].urlContext "urlContext"`},
	{"gemini", "google/gemini-2.5-pro", `"tools":[{"codeExecution":{}}]`, `tools[0].codeExecution "codeExecution"`},
	{"gemini", "google/gemini-2.5-pro", `"generation_config":{"response_modalities":["AUDIO"]}`, `generation_config.response_modalities`},
	{"gemini", "google/gemini-2.5-pro", `"serviceTier":"turbo"`, `serviceTier "turbo"`},
	{"openai", "openrouter/openai/gpt-5", `"models":["openai/gpt-5-pro"]`, `models`},
	{"openai", "openrouter/openai/gpt-5", `"plugins":[{"id":"web"}]`, `plugins`},
	{"openai", "openrouter/openai/gpt-5", `"route":"fallback"`, `route "fallback"`},
	{"openai", "openrouter/openai/gpt-5", `"preset":"mine"`, `preset "mine"`},
	{"openai", "openrouter/openai/gpt-5:online", ``, `model ":online"`},
	{"openai", "openrouter/openai/gpt-5@preset/mine", ``, `model "@preset/"`},
	{"openai", "openrouter/openai/gpt-5", `"tools":[{"type":"openrouter:web_search"}]`, `tools[0].type "openrouter:web_search"`},
	{"openai", "venice/dreamer", `"venice_parameters":{"enable_web_search":"on"}`, `venice_parameters.enable_web_search "on"`},
	{"openai", "venice/seer", `"venice_parameters":{"enable_web_scraping":true}`, `venice_parameters.enable_web_scraping "true"`},
}

// TestD87WhatHasNoPriceIsRefused on the operator's account: the error names the member and what it says, in the client's format, and no
// provider hears of the request, whoever pays for it.
func TestD87WhatHasNoPriceIsRefused(t *testing.T) {
	t.Parallel()
	l := runPricedLab(t, "")
	before := balanceOf(t, l.Gateway, l.rich)
	for i := range unpricedParts {
		e := &unpricedParts[i]
		for _, key := range []string{"", l.rich} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/prepaid=%v/stream=%v", e, key != "", stream), func(t *testing.T) {
					c := e.s.call(e.model, stream, "hi", e.more)
					c.Key = key
					got := l.Do(t, c)
					mustFail(t, ask{dialect: e.s.format()}, got, http.StatusBadRequest, "unpriced_parameter")
					if !strings.Contains(strings.ReplaceAll(got.Body, `\"`, `"`), e.names) {
						t.Errorf("the error does not name %s: %s", e.names, got.Body)
					}
					if at, _, _ := strings.Cut(e.names, " "); e.s.format() == fake.OpenAI && !strings.Contains(got.Body, fmt.Sprintf(`"param":%q`, at)) {
						t.Errorf("param is not %s: %s", at, got.Body)
					}
					if got.Header.Get("X-Should-Retry") != "false" {
						t.Errorf("a retry may help: %v", got.Header)
					}
				})
			}
		}
	}
	for _, more := range []string{`"models":["a/b"]`, `"plugins":[{"id":"web"}]`, `"service_tier":"scale"`} {
		body := fmt.Sprintf(`{"model":"openrouter/openai/text-embedding-3-small","input":"hi",%s}`, more)
		mustFail(t, ask{dialect: fake.OpenAI}, l.Do(t, gateway.Call{Path: "/v1/embeddings", Body: body}), http.StatusBadRequest, "unpriced_parameter")
	}
	for _, model := range []string{"openrouter/openai/gpt-5", "mine/plain", "openai/gpt-3.5-turbo-instruct"} {
		for _, more := range []string{`"models":["a/b"]`, `"plugins":[{"id":"web"}]`, `"service_tier":"scale"`, `"background":true`} {
			if strings.HasPrefix(model, "openai/") && !strings.Contains(more, "service_tier") && !strings.Contains(more, "background") {
				continue // such members mean nothing there
			}
			body := fmt.Sprintf(`{"model":%q,"prompt":"hi",%s}`, model, more)
			mustFail(t, ask{dialect: fake.OpenAI}, l.Do(t, gateway.Call{Path: "/v1/completions", Body: body}), http.StatusBadRequest, "unpriced_parameter")
		}
	}
	if n := l.asked(); n != 0 {
		t.Errorf("the providers were asked %d times", n)
	}
	if after := balanceOf(t, l.Gateway, l.rich); after != before {
		t.Errorf("%d were taken", before-after)
	}
}

// format is the format of a client's errors.
func (s shaper) format() fake.Dialect {
	switch s {
	case "anthropic":
		return fake.Anthropic
	case "gemini":
		return fake.Gemini
	}
	return fake.OpenAI
}

// TestD87UsersOwnKeysAskForAnything: what the operator does not pay is none of the gateway's business.
func TestD87UsersOwnKeysAskForAnything(t *testing.T) {
	t.Parallel()
	l := runPricedLab(t, "")
	for i := range unpricedParts {
		e := unpricedParts[i]
		name, _, _ := strings.Cut(e.model, "/")
		if !slices.Contains([]string{"openai", "anthropic", "google"}, name) || strings.Contains(e.more, `"tools":{`) || strings.Contains(e.more, "of_next_year") { // which the vendors would refuse
			continue
		}
		t.Run(e.String(), func(t *testing.T) {
			l.at[name].Forget()
			if got := l.Do(t, e.s.call("direct/"+e.model, false, "hi", e.more)); got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			if last, _ := l.at[name].Last(); !strings.Contains(string(last.Body), e.more) {
				t.Errorf("the provider got %s", last.Body)
			}
		})
	}
}

// TestD87WhatCostsNothingMorePasses: members that do not change the price, values that are the usual ones, and tools of the client's own.
func TestD87WhatCostsNothingMorePasses(t *testing.T) {
	t.Parallel()
	l := runPricedLab(t, ", allow: [models, plugins, route, preset]")
	for _, row := range []struct {
		s           shaper
		model, more string
	}{
		{"responses", "openai/gpt-5", `"tools":[{"type":"local_shell"},{"type":"apply_patch"},{"type":"custom","name":"c"}]`},
		{"responses", "openai/gpt-5", `"background":false,"service_tier":"default","store":true,"max_tool_calls":3`},
		{"openai", "openai/gpt-4o", `"modalities":["text"],"store":false,"prediction":{"type":"content","content":"x"},"verbosity":"low"`},
		{"openai", "mine/plain", `"tools":[],"speed":null,"enable_search":false,"models":[]`},
		{"anthropic", "claudish/poet", `"speed":"standard","inference_geo":"global","mcp_servers":[]`},
		{"anthropic", "anthropic/claude-sonnet-4-5", `"service_tier":"standard_only"`},
		{"gemini", "google/gemini-2.5-pro", `"generationConfig":{"responseModalities":["TEXT"]}`},
		{"openai", "openrouter/openai/gpt-5", `"provider":{"order":["azure"],"sort":"price"},"transforms":["middle-out"]`},
		{"openai", "openrouter/openai/gpt-5", `"models":["openai/gpt-5-mini"],"route":"fallback","plugins":[{"id":"web"}]`},
		{"openai", "venice/dreamer", `"venice_parameters":{"enable_web_search":"off"}`},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", row.s, row.model, row.more), func(t *testing.T) {
			if got := l.Do(t, row.s.call(row.model, false, "hi", row.more)); got.Status != http.StatusOK {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
}

// TestD87SearchesAreCharged to the micro-dollar, with the spread: 1000 and 500 tokens, and three searches, where the provider says how
// many there were. The price of a search is the vendor's, or the operator's.
func TestD87SearchesAreCharged(t *testing.T) {
	t.Parallel()
	l := runPricedLab(t, "")
	for _, row := range []struct {
		s           shaper
		model, more string
		cost        string // the provider's
		charge      int64  // with 20 %, rounded up
	}{
		{"responses", "openai/gpt-5", `"tools":[{"type":"web_search"}]`, "0.03625", 43_500},                                                        // 1.25, 10; 0.01
		{"responses", "openai/gpt-5", `"tools":[{"type":"web_search_preview"}]`, "0.03625", 43_500},                                                //
		{"anthropic", "anthropic/claude-sonnet-4-5", `"tools":[{"type":"web_search_20250305","name":"web_search"}]`, "0.0405", 48_600},             // 3, 15; 0.01
		{"anthropic", "anthropic/claude-haiku-4-5", `"tools":[{"type":"web_search_20260209","name":"web_search","max_uses":3}]`, "0.0335", 40_200}, // 1, 5; 0.01
		{"openai", "mine/finder", `"web_search_options":{}`, "0.022", 26_400},                                                                      // 1, 2; 0.02, once
		{"openai", "venice/seer", `"venice_parameters":{"enable_web_search":"auto"}`, "0.012", 14_400},                                             // 1, 2; 0.01, once
	} {
		name, _, _ := strings.Cut(row.model, "/")
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%s/stream=%v", row.s, row.model, stream), func(t *testing.T) {
				l.at[name].Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, Output: 500, Searches: 3}})
				before := balanceOf(t, l.Gateway, l.rich)
				c := row.s.call(row.model, stream, "hi", row.more)
				c.Key = l.rich
				got := l.Do(t, c)
				if got.Status != http.StatusOK {
					t.Fatalf("%d %s", got.Status, got.Body)
				}
				asks := row.more
				if name == "venice" { // among what the gateway says
					asks = `"enable_web_search":"auto"`
				}
				if last, _ := l.at[name].Last(); !strings.Contains(string(last.Body), asks) {
					t.Errorf("the provider got %s", last.Body)
				}
				if b := billOf(t, l.Gateway, l.rich, got.Header.Get("X-Request-Id")); string(b.ProviderCost) != row.cost {
					t.Errorf("the provider is owed %s, want %s", b.ProviderCost, row.cost)
				}
				if paid := before - balanceOf(t, l.Gateway, l.rich); paid != row.charge {
					t.Errorf("%d were taken, want %d", paid, row.charge)
				}
			})
		}
	}
	l.AssertSound(t)
}

// TestD87SearchesAreReserved: a key that can pay the tokens alone does not get an answer with searches.
func TestD87SearchesAreReserved(t *testing.T) {
	t.Parallel()
	l := runPricedLab(t, "")
	poor := l.CreateKey(t, "--name", "poor", "--balance-usd", "0.03").Key
	for more, want := range map[string]int{
		`"max_output_tokens":500`:                                                      http.StatusOK,
		`"max_output_tokens":500,"tools":[{"type":"web_search"}]`:                      http.StatusPaymentRequired,
		`"max_output_tokens":500,"max_tool_calls":1,"tools":[{"type":"web_search"}]`:   http.StatusOK,
		`"max_output_tokens":500,"max_tool_calls":500,"tools":[{"type":"web_search"}]`: http.StatusPaymentRequired,
	} {
		l.at["openai"].Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 5}})
		c := shaper("responses").call("openai/gpt-5-mini", false, "hi", more)
		c.Key = poor
		if got := l.Do(t, c); got.Status != want {
			t.Errorf("%s: %d %s", more, got.Status, got.Body)
		}
	}
	l.AssertSound(t)
}

// TestD87WhoPricesItIsAsked: of several providers of a model, those that have no price for a part are left out; where those are all that
// are told of it, the request is refused, and not served without it.
func TestD87WhoPricesItIsAsked(t *testing.T) {
	t.Parallel()
	dear, cheap, claude := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Allow: []string{"enable_search"}}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Allow: []string{"enable_search"}}), fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick + "billing: {spread_pct: 0}\n", Providers: []gateway.Provider{
		{ID: "first", Fake: dear, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 2}"}, {ID: "n", Price: "{input: 1, output: 2}"}}},
		{ID: "second", Fake: cheap, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 2, per_search: 0.01}"}}},
		{ID: "third", Fake: claude, Models: models("n", "")},
	}})
	a := ask{dialect: fake.OpenAI, model: "m", more: `"enable_search":true`}
	if got := served(t, g, a); got.Header.Get("X-Bardo-Provider") != "second" {
		t.Errorf("%s answers", got.Header.Get("X-Bardo-Provider"))
	}
	cheap.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
	if got := g.Do(t, a.call()); got.Status < 500 || len(dear.Generations()) != 0 {
		t.Errorf("%d %s; the one without a price was asked %d times", got.Status, got.Body, len(dear.Generations()))
	}
	a.model = "n"
	mustFail(t, a, g.Do(t, a.call()), http.StatusBadRequest, "unpriced_parameter")
	a.more = ""
	if got := served(t, g, a); got.Header.Get("X-Bardo-Provider") != "first" {
		t.Errorf("%s answers without it", got.Header.Get("X-Bardo-Provider"))
	}
}

// TestD87ExplainSaysWhatHasNoPrice, and counting tokens costs nothing more, whatever the request holds.
func TestD87ExplainSaysWhatHasNoPrice(t *testing.T) {
	t.Parallel()
	l := runPricedLab(t, "")
	c := shaper("responses").call("openai/gpt-5", false, "hi", `"tools":[{"type":"code_interpreter"}]`, "X-Bardo-Route: explain")
	got := l.Do(t, c)
	if got.Status != http.StatusOK || !strings.Contains(got.Body, `tools[0].type \"code_interpreter\" has no price there`) || !strings.Contains(got.Body, `"error": "unpriced_parameter: `) {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	c = shaper("anthropic").call("anthropic/claude-sonnet-4-5", false, "hi", `"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]`)
	c.Path, c.Body = "/v1/messages/count_tokens", strings.Replace(c.Body, `"max_tokens":400,`, "", 1)
	if got := l.Do(t, c); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// TestD87TheGatewaysOwnSearchNeedsAPrice: where a subsystem wants one, those that can be paid for it are asked; where there are none,
// it is left out, and named.
func TestD87TheGatewaysOwnSearchNeedsAPrice(t *testing.T) {
	t.Parallel()
	l := runPricedLab(t, "")
	for model, want := range map[string]string{"venice/seer": "on", "venice/dreamer": "off"} {
		got := served(t, l.Gateway, ask{dialect: fake.OpenAI, model: model}, "X-Bardo-Web-Search: true")
		if s := sentTo(t, l.at["venice"]); s.VeniceParameters["enable_web_search"] != want {
			t.Errorf("%s is asked with %v", model, s.VeniceParameters)
		}
		if slices.Contains(lost(got), "web_search") != (want == "off") {
			t.Errorf("%s: degraded %q", model, lost(got))
		}
	}
}
