package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/sigv4"
	"bardo.money/gateway/e2e/gateway"
)

// Several keys of one provider, users' own keys, and keys that requests bring.

// byKey counts a provider's completions by the key that they came with.
func byKey(p *fake.Server) map[string]int {
	n := map[string]int{}
	for _, r := range p.Generations() {
		n[r.Key()]++
	}
	return n
}

// severalKeys is a gateway with one provider that has three keys.
func severalKeys(t *testing.T, keys ...string) (*gateway.Gateway, *fake.Server) {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Keys: keys})
	return gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{
		ID: "own", Fake: p, Key: keys[0], Models: models("m", ""), More: fmt.Sprintf("api_keys: [%s]", strings.Join(keys[1:], ", ")),
	}}}), p
}

func TestRequestsAreSpreadOverTheKeysOfAProvider(t *testing.T) {
	t.Parallel()
	g, p := severalKeys(t, "sk-one", "sk-two", "sk-three")
	for i := range 12 {
		a := ask{dialect: fake.OpenAI, model: "m", stream: i%2 == 0}
		text(t, a, g.Do(t, a.call()))
	}
	if n := byKey(p); n["sk-one"] != 4 || n["sk-two"] != 4 || n["sk-three"] != 4 {
		t.Errorf("requests by key: %v", n)
	}
}

// TestAKeyRestsAloneWhileItsProviderServes: what one key is refused for, another answers at once; the provider keeps its good name, and
// the key is left in peace for as long as it asked.
func TestAKeyRestsAloneWhileItsProviderServes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		b    fake.Behaviour
	}{
		{"D-16 asked too often", fake.Behaviour{Status: http.StatusTooManyRequests, RetryAfter: "120"}},
		{"a bad key", fake.Behaviour{Status: http.StatusUnauthorized}},
		{"an account that is empty", fake.Behaviour{Status: http.StatusPaymentRequired}},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", row.name, stream), func(t *testing.T) {
				t.Parallel()
				g, p := severalKeys(t, "sk-one", "sk-two", "sk-three")
				p.BehaveWith("sk-two", row.b)
				a := ask{dialect: fake.OpenAI, model: "m", stream: stream}
				for range 9 {
					got := g.Do(t, a.call())
					if got.Status != http.StatusOK {
						t.Fatalf("status %d: %s", got.Status, got.Body)
					}
					text(t, a, got)
				}
				if n := byKey(p); n["sk-two"] != 1 || n["sk-one"] < 4 || n["sk-three"] < 4 {
					t.Errorf("requests by key: %v", n)
				}
				if s := standings(t, g)["own"]; s.Order != 1 || s.State == "down" || s.State == "degraded" {
					t.Errorf("the provider counts as %+v", s)
				}
			})
		}
	}
}

// TestAllKeysAskedTooOftenIsThe429OfTheirProvider: with nothing left to ask, the client hears when to come back.
func TestAllKeysAskedTooOftenIsThe429OfTheirProvider(t *testing.T) {
	t.Parallel()
	g, p := severalKeys(t, "sk-one", "sk-two")
	p.Behave(fake.Behaviour{Status: http.StatusTooManyRequests, RetryAfter: "7"})
	for _, stream := range []bool{false, true} {
		p.Forget()
		a := ask{dialect: fake.OpenAI, model: "m", stream: stream}
		got := g.Do(t, a.call())
		mustFail(t, a, got, http.StatusTooManyRequests, "rate_limit_exceeded")
		retryAfter(t, got, 7)
		if !stream {
			if n := byKey(p); n["sk-one"] != 1 || n["sk-two"] != 1 {
				t.Errorf("requests by key: %v", n)
			}
		}
	}
}

// ownVendors is a gateway with users' own keys at two vendors, and operator's keys at the same ones.
type ownVendors struct {
	*gateway.Gateway
	openai, anthropic       *fake.Server // of the operator
	ownOpenAI, ownAnthropic *fake.Server // of the users
	engineered              *fake.Server
}

func runOwnVendors(t *testing.T, config string) *ownVendors {
	t.Helper()
	o := &ownVendors{
		openai:       fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "operator-openai"}),
		anthropic:    fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "operator-anthropic"}),
		ownOpenAI:    fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own-openai"}),
		ownAnthropic: fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "own-anthropic"}),
		engineered:   fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own-engineered"}),
	}
	o.Gateway = gateway.Run(t, gateway.Options{Config: fmt.Sprintf(`
providers:
  openai: {api_key: %s, base_url: %q}
  anthropic: {api_key: %s, base_url: %q}
  direct:
    keys:
      - {provider: openai, api_key: %s, base_url: %q}
      - {provider: anthropic, api_key: %s, base_url: %q}
      - {provider: openai, api_key: %s, base_url: %q, models: [gpt-4.1], context_engineering: true}
`, o.openai.Key, o.openai.URL, o.anthropic.Key, o.anthropic.URL, o.ownOpenAI.Key, o.ownOpenAI.URL, o.ownAnthropic.Key, o.ownAnthropic.URL,
		o.engineered.Key, o.engineered.URL) + config})
	return o
}

// TestP13RequestsAtAUsersOwnKeyPassAsTheyAre: but for the model's prefix and the credential, the vendor gets what the client wrote.
func TestP13RequestsAtAUsersOwnKeyPassAsTheyAre(t *testing.T) {
	t.Parallel()
	o := runOwnVendors(t, quick)
	poor := o.CreateKey(t, "--name", "poor", "--balance-usd", "0.000001")
	for _, row := range []struct {
		name, path, prefix, body string
		at                       *fake.Server
		header                   []string
	}{
		{
			"openai", "/v1/chat/completions", "direct/openai/",
			"{ \"model\" : \"%sgpt-4.1\",\n\t\"temperature\":0, \"seed\":12345678901234567890, \"prediction\":{\"type\":\"content\",\"content\":\"a  b\"}," +
				" \"messages\":[ {\"role\":\"user\",\"content\":\"caf\\u00e9  and  two spaces\"} ]  }",
			o.ownOpenAI, nil,
		},
		{
			"anthropic", "/v1/messages", "direct/anthropic/",
			"{ \"model\" : \"%sclaude-sonnet-4-5\",\n \"max_tokens\":64, \"temperature\":0, \"system\":[{\"type\":\"text\",\"text\":\"s\",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}}]," +
				" \"messages\":[ {\"role\":\"user\",\"content\":\"two  spaces\"} ]  }",
			o.ownAnthropic,
			[]string{"anthropic-version: 2023-06-01", "anthropic-beta: extended-cache-ttl-2025-04-11"},
		},
	} {
		for _, again := range []bool{false, true} { // no answer is taken from a cache, whatever the temperature
			row.at.Forget()
			got := o.Do(t, gateway.Call{Path: row.path, Body: fmt.Sprintf(row.body, row.prefix), Header: row.header, Key: poor.Key})
			if got.Status != http.StatusOK {
				t.Fatalf("%s: %d %s", row.name, got.Status, got.Body)
			}
			sent, ok := row.at.Last()
			if want := fmt.Sprintf(row.body, ""); !ok || string(sent.Body) != want {
				t.Errorf("%s, again=%v: the vendor got\n%s\nwant\n%s", row.name, again, sent.Body, want)
			}
			if row.at.Saw(poor.Key) {
				t.Errorf("%s: the vendor saw the gateway's key", row.name)
			}
			if got.Header.Get("X-Bardo-Cost") != "direct" || got.Header.Get("X-Bardo-Spread") != "0" || got.Header.Get("X-Bardo-Pipeline") != "" ||
				got.Header.Get("X-Bardo-Provider") != strings.TrimSuffix(row.prefix, "/") {
				t.Errorf("%s: headers %v", row.name, got.Header)
			}
			if b := got.Header.Get("X-Bardo-Balance"); b != "0.000001" {
				t.Errorf("%s: the balance is %q", row.name, b)
			}
		}
	}
	if n := len(o.openai.Generations()) + len(o.anthropic.Generations()) + len(o.engineered.Generations()); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
	o.AssertSound(t)
}

// TestP13AStreamAtAUsersOwnKeyCostsNothing and leaves a record without content.
func TestP13AStreamAtAUsersOwnKeyCostsNothing(t *testing.T) {
	t.Parallel()
	o := runOwnVendors(t, quick)
	a := ask{dialect: fake.OpenAI, model: "direct/openai/gpt-4.1", stream: true, say: "the secret question"}
	o.ownOpenAI.Behave(fake.Behaviour{Text: "the secret answer", Usage: &fake.Usage{Input: 1000, Output: 500}})
	got := o.Do(t, a.call())
	if s := text(t, a, got); s != "the secret answer" || got.Header.Get("X-Bardo-Cost") != "direct" {
		t.Errorf("it says %q, headers %v", s, got.Header)
	}
	if r := recordOf(t, o.Gateway, got); r.Provider != "direct/openai" || r.OutputTokens != 500 || r.CostUSD != 0.0 {
		t.Errorf("record %+v", r)
	}
	whole := o.Do(t, gateway.Call{Path: "/v1/requests/" + got.Header.Get("X-Request-Id")})
	for _, secret := range []string{"secret", o.ownOpenAI.Key} {
		if strings.Contains(whole.Body, secret) || strings.Contains(o.Log(), secret) {
			t.Errorf("%q is in the record or in the log", secret)
		}
	}
}

// TestD39RateLimitsHoldForUsersOwnKeys, too: they protect the gateway.
func TestD39RateLimitsHoldForUsersOwnKeys(t *testing.T) {
	t.Parallel()
	o := runOwnVendors(t, "routing: {ping_interval: 1h}\n")
	k := o.CreateKey(t, "--name", "busy", "--rpm", "2")
	a := ask{dialect: fake.OpenAI, model: "direct/openai/gpt-4.1"}
	c := a.call()
	c.Key = k.Key
	if n := byStatus(t, a, atOnce(t, o.Gateway, 5, c)); n[http.StatusOK] != 2 || n[http.StatusTooManyRequests] != 3 {
		t.Errorf("statuses %v", n)
	}
}

// TestANativeFeatureGoesToTheKeyOfItsVendor: only the vendor's own API has predicted outputs, and a user's key for it comes first then.
func TestANativeFeatureGoesToTheKeyOfItsVendor(t *testing.T) {
	t.Parallel()
	o := runOwnVendors(t, quick)
	for _, row := range []struct{ name, model, provider string }{
		{"a model without a hint stays with the operator", "gpt-4.1", "openai"},
		{"the key's own prefix", "direct/openai/gpt-4.1", "direct/openai"},
		{"a second key of the vendor", "direct/openai-2/gpt-4.1", "direct/openai-2"},
	} {
		if got := o.Do(t, ask{dialect: fake.OpenAI, model: row.model}.call()); got.Header.Get("X-Bardo-Provider") != row.provider {
			t.Errorf("%s: %d by %q: %s", row.name, got.Status, got.Header.Get("X-Bardo-Provider"), got.Body)
		}
	}
	got := o.Do(t, ask{dialect: fake.OpenAI, model: "auto"}.call("X-Bardo-Require: predicted_outputs", "X-Bardo-Subsystem: playbook"))
	if by := got.Header.Get("X-Bardo-Provider"); !strings.HasPrefix(by, "direct/openai") || got.Header.Get("X-Bardo-Cost") != "direct" {
		t.Errorf("predicted outputs: %d by %q, cost %q: %s", got.Status, by, got.Header.Get("X-Bardo-Cost"), got.Body)
	}
	if got := o.Do(t, ask{dialect: fake.OpenAI, model: "direct/openai-2/gpt-4o"}.call()); got.Status != http.StatusNotFound {
		t.Errorf("a model that a key is not for: %d %s", got.Status, got.Body)
	}
}

// TestUsersKeysOfOneVendorAreSpreadOver, and one that is asked too often rests.
func TestUsersKeysOfOneVendorAreSpreadOver(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Keys: []string{"sk-hers", "sk-his"}})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers:
  direct:
    keys:
      - {provider: openai, api_key: sk-hers, base_url: %[1]q}
      - {provider: openai, api_key: sk-his, base_url: %[1]q}
`, p.URL)})
	for i := range 8 {
		a := ask{dialect: fake.OpenAI, model: "direct/openai/gpt-4.1", stream: i%2 == 0}
		text(t, a, g.Do(t, a.call()))
	}
	if n := byKey(p); n["sk-hers"] != 4 || n["sk-his"] != 4 {
		t.Errorf("requests by key: %v", n)
	}
	p.BehaveWith("sk-his", fake.Behaviour{Status: http.StatusTooManyRequests, RetryAfter: "120"})
	p.Forget()
	for i := range 6 {
		a := ask{dialect: fake.OpenAI, model: "gpt-4.1", stream: i%2 == 0} // nobody else has it
		text(t, a, g.Do(t, a.call()))
	}
	if n := byKey(p); n["sk-hers"] != 6 || n["sk-his"] != 1 {
		t.Errorf("requests by key: %v", n)
	}
}

// TestAnEngineeredKeyRunsThePipeline: a user's own key with `context_engineering: true` runs the pipeline (D-39).
func TestAnEngineeredKeyRunsThePipeline(t *testing.T) {
	t.Parallel()
	o := runOwnVendors(t, quick)
	a := ask{dialect: fake.OpenAI, model: "direct/openai-2/gpt-4.1", more: `"temperature":0`}
	for i, want := range []string{"direct", "0.000000"} { // the second answer is a stored one
		got := o.Do(t, a.call())
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != want {
			t.Errorf("request %d: %d, cost %q", i+1, got.Status, got.Header.Get("X-Bardo-Cost"))
		}
	}
	if n := len(o.engineered.Generations()); n != 1 {
		t.Errorf("%d requests reached the vendor", n)
	}
}

var ownKeyCases = []struct {
	b      fake.Behaviour
	status int
	code   string
}{
	{fake.Behaviour{Status: http.StatusUnauthorized}, http.StatusUnauthorized, "invalid_api_key"},
	{fake.Behaviour{Status: http.StatusPaymentRequired}, http.StatusPaymentRequired, "insufficient_balance"},
	{fake.Behaviour{Status: http.StatusTooManyRequests, RetryAfter: "120"}, http.StatusTooManyRequests, "rate_limit_exceeded"},
}

// TestAKeyThatARequestBringsReachesItsProviderAlone and nobody remembers it.
func TestAKeyThatARequestBringsReachesItsProviderAlone(t *testing.T) {
	t.Parallel()
	const own = "sk-or-the-users-own"
	broad := fake.Start(t, fake.Config{Vendor: fake.OpenRouter, Keys: []string{own}})
	other := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "other"})
	g := gateway.Run(t, gateway.Options{Config: quick + "telemetry: {log_level: debug}\n", Providers: []gateway.Provider{
		{ID: "openrouter", Fake: broad, More: "byok: true", Models: models("m", "maker/m")},
		{ID: "other", Fake: other, Models: append([]gateway.Model{{ID: "m", Price: "{input: 9, output: 9}"}}, models("elsewhere", "")...)},
	}})
	k := g.CreateKey(t, "--name", "little", "--balance-usd", "0.000001")
	for _, stream := range []bool{false, true} {
		a := ask{dialect: fake.OpenAI, model: "m", stream: stream, more: `"max_tokens":100`}
		c := a.call("X-Bardo-Upstream-Key: " + own)
		c.Key = k.Key
		got := g.Do(t, c)
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != "direct" || got.Header.Get("X-Bardo-Provider") != "openrouter" {
			t.Fatalf("%d, headers %v: %s", got.Status, got.Header, got.Body)
		}
		text(t, a, got)
		if r, _ := broad.Last(); r.Key() != own || r.Header.Get("X-Bardo-Upstream-Key") != "" {
			t.Errorf("the provider got the headers %v", r.Header)
		}
		c.Path, c.Body, c.Header = "/v1/requests/"+got.Header.Get("X-Request-Id"), "", nil
		eventually(t, "the record", func() bool { return g.Do(t, c).Status == http.StatusOK })
		if rec := g.Do(t, c); strings.Contains(rec.Body, own) || !strings.Contains(rec.Body, `"cost_usd":0.000000`) {
			t.Errorf("record %s", rec.Body)
		}
	}

	a := ask{dialect: fake.OpenAI, model: "m"}
	for _, row := range ownKeyCases {
		broad.BehaveWith(own, row.b)
		for i := range 6 { // as often as would bring any provider down
			a.stream = i%2 == 0
			mustFail(t, a, g.Do(t, a.call("X-Bardo-Upstream-Key: "+own)), row.status, row.code)
		}
	}
	a.stream = false
	if got := g.Do(t, a.call()); got.Header.Get("X-Bardo-Provider") != "openrouter" || got.Header.Get("X-Bardo-Cost") == "direct" {
		t.Errorf("after the refusals of a key that requests brought, the others are served by %q at %q", got.Header.Get("X-Bardo-Provider"), got.Header.Get("X-Bardo-Cost"))
	}

	broad.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
	mustFail(t, a, g.Do(t, a.call("X-Bardo-Upstream-Key: "+own)), http.StatusServiceUnavailable, "overloaded")
	a.model = "elsewhere"
	mustFail(t, a, g.Do(t, a.call("X-Bardo-Upstream-Key: "+own)), http.StatusBadRequest, "invalid_request")
	if other.Saw(own) || len(other.Generations()) != 0 {
		t.Error("another provider saw the key, or its request")
	}
	if strings.Contains(g.Log(), own) {
		t.Error("the key is in the log")
	}
	if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()); got.Header.Get("X-Bardo-Cost") == "direct" {
		t.Error("a request without a key of its own costs nothing")
	}
	g.AssertSound(t)
}

// TestAFileIsNamedFreelyWithAKeyOfTheRequestsOwn: such a key reaches what its user stored, so the provider decides; without one, the request
// may name only what its account stored through the gateway.
func TestAFileIsNamedFreelyWithAKeyOfTheRequestsOwn(t *testing.T) {
	t.Parallel()
	const own = "sk-or-the-users-own"
	p := fake.Start(t, fake.Config{Vendor: fake.OpenRouter, Keys: []string{own}})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "openrouter", Fake: p, More: "byok: true", Models: models("m", "maker/m")}}})
	c := gateway.Call{Path: "/v1/chat/completions", Body: `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-elsewhere"}}]}]}`}
	mustFail(t, ask{dialect: fake.OpenAI}, g.Do(t, c), http.StatusNotFound, "not_found")
	c.Header = []string{"X-Bardo-Upstream-Key: " + own}
	if got := g.Do(t, c); got.Status != http.StatusOK || !p.Saw("file-elsewhere") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// TestF05WhatIsSaidWithAKeyOfTheRequestsOwnIsNotLogged: its user pays the provider, and the operator reads nothing of it.
func TestF05WhatIsSaidWithAKeyOfTheRequestsOwnIsNotLogged(t *testing.T) {
	t.Parallel()
	const own = "sk-or-the-users-own"
	p := fake.Start(t, fake.Config{Vendor: fake.OpenRouter, Keys: []string{own}})
	o := gateway.Options{
		Config: quick + fmt.Sprintf("providers:\n  openrouter: {api_key: %s, endpoint: %q, byok: true, models: [{id: m, upstream_id: maker/m, price: {input: 1, output: 2}}]}\n", p.Key, p.URL) + "telemetry: {prompts: {file: prompts.db, encryption_key: \"a key of thirty-two bytes, or so it is\"}}\n",
	}
	g := gateway.Run(t, o)
	logPromptsOf(t, g, o)
	for _, stream := range []bool{false, true} {
		for _, row := range []struct{ say, header, logged string }{
			{"said with the operators key", "", "on"},
			{"said with an own key", "X-Bardo-Upstream-Key: " + own, ""},
			{"said at the end", "", "on"},
		} {
			a := ask{dialect: fake.OpenAI, model: "m", stream: stream, say: row.say}
			c := a.call()
			if row.header != "" {
				c = a.call(row.header)
			}
			if got := g.Do(t, c); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Prompt-Log") != row.logged {
				t.Errorf("%s, stream %v: %d, logged %q: %s", row.say, stream, got.Status, got.Header.Get("X-Bardo-Prompt-Log"), got.Body)
			}
		}
	}
	var kept string
	eventually(t, "the prompt log", func() bool { kept = g.Bardo(t, "prompts"); return strings.Count(kept, "said at the end") >= 2 })
	if !strings.Contains(kept, "said with the operators key") || strings.Contains(kept, "own key") {
		t.Errorf("it has %s", kept)
	}
}

// TestB13RequestsBringKeysOfTheProvidersThatTheyName: each key reaches the provider that it is for, and no other, also after a failure there. A key without
// a provider's name is refused if several accept keys, and so is one for a provider that does not. Bedrock's may be AWS credentials.
func TestB13RequestsBringKeysOfTheProvidersThatTheyName(t *testing.T) {
	t.Parallel()
	const atOne, atTwo = "gsk-first-of-the-user", "sk-second-of-the-user"
	access := sigv4.Key{ID: "AKIDUSER", Secret: "secret-access-key-of-the-user", Region: "eu-west-1", Service: "bedrock-mantle"}
	one, two := fake.Start(t, fake.Config{Vendor: fake.Groq, Keys: []string{atOne}}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Keys: []string{atTwo}})
	three, other := fake.Start(t, fake.Config{Vendor: fake.Bedrock, AWS: &access}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "other"})
	g := gateway.Run(t, gateway.Options{Config: quick + "telemetry: {log_level: debug}\n" + fmt.Sprintf(`providers:
  groq: {base_url: %q, byok: true, models: [{id: m}]}
  openai: {base_url: %q, api_key: %q, byok: true}
  bedrock: {base_url: %q, region: eu-west-1, byok: true, models: [{id: m, upstream_id: openai.m}]}
  custom: [{id: other, endpoints: [%q], api_key: %q, models: [{id: m}]}]
`, one.URL, two.URL, two.Key, three.URL, other.URL, other.Key)})
	for _, row := range []struct {
		provider, model, key string
		s                    *fake.Server
	}{
		{"groq", "m", atOne, one}, {"openai", "gpt-5-mini", atTwo, two}, {"bedrock", "m", access.ID + " " + access.Secret, three},
	} {
		for _, stream := range []bool{false, true} {
			a := ask{dialect: fake.OpenAI, model: row.model, stream: stream, more: `"max_completion_tokens":100`}
			got := g.Do(t, a.call("X-Bardo-Upstream-Key: "+row.provider+" "+row.key))
			if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != "direct" || got.Header.Get("X-Bardo-Provider") != row.provider {
				t.Errorf("%s: %d, headers %v: %s", row.provider, got.Status, got.Header, got.Body)
			}
			row.s.Queue(fake.Behaviour{Status: http.StatusUnauthorized})
			mustFail(t, a, g.Do(t, a.call("X-Bardo-Upstream-Key: "+row.provider+" "+row.key)), http.StatusUnauthorized, "invalid_api_key")
		}
	}
	a := ask{dialect: fake.OpenAI, model: "m"}
	for value, says := range map[string]string{
		atOne: "name the provider before its key, with a space between: one of groq, openai, bedrock", "other " + atOne: "these providers accept keys: groq, openai, bedrock",
		"nobody " + atOne: "these providers accept keys",
	} {
		if got := g.Do(t, a.call("X-Bardo-Upstream-Key: "+value)); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, says) || strings.Contains(got.Body, atOne) {
			t.Errorf("%q: %d %s", value, got.Status, got.Body)
		}
	}
	if got := g.Do(t, a.call()); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "other" {
		t.Errorf("without a key: %d by %q", got.Status, got.Header.Get("X-Bardo-Provider"))
	}
	for _, secret := range []string{atOne, atTwo, access.Secret} {
		reached := 0
		for _, s := range []*fake.Server{one, two, three, other} {
			if s.Saw(secret) {
				reached++
			}
		}
		if reached > 1 || strings.Contains(g.Log(), secret) {
			t.Errorf("%q reached %d providers, or is in the log", secret, reached)
		}
	}
	g.AssertSound(t)
}

// TestD39AKeyOfTheRequestsOwnSkipsLayersButNotMasking: answers are not stored, nor called for again because of their schema; a caller cannot avoid the
// operator's masking by a key.
func TestD39AKeyOfTheRequestsOwnSkipsLayersButNotMasking(t *testing.T) {
	t.Parallel()
	const own = "gsk-of-the-user"
	s := fake.Start(t, fake.Config{Vendor: fake.Groq, Keys: []string{own}})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf("providers: {groq: {base_url: %q, api_key: %q, byok: true, models: [{id: m}]}}\npipeline: {pii: {policy: mask}}\n", s.URL, s.Key)})
	const schema = `"temperature":0,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}`
	for _, row := range []struct {
		about   string
		headers []string
		more    string
		calls   int
	}{
		{"stored answers, with the operator's key", nil, `"temperature":0`, 1},
		{"stored answers, with the user's", []string{"X-Bardo-Upstream-Key: groq " + own}, `"temperature":0`, 2},
		{"a schema, with the user's", []string{"X-Bardo-Upstream-Key: groq " + own}, schema, 2},
	} {
		before := len(s.Generations())
		for range 2 {
			got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", say: "Write to ada@lovelace.example, please.", more: row.more}.call(row.headers...))
			if got.Status != http.StatusOK {
				t.Errorf("%s: %d %s", row.about, got.Status, got.Body)
			}
		}
		if n := len(s.Generations()) - before; n != row.calls {
			t.Errorf("%s: %d calls, want %d", row.about, n, row.calls)
		}
	}
	if s.Saw("ada@lovelace.example") {
		t.Error("an address reached the provider")
	}
	g.AssertSound(t)
}
