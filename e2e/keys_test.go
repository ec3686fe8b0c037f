package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// one is a gateway with one provider of one model, "m", at 1 and 2 USD per million tokens.
func one(t *testing.T, config string) (*gateway.Gateway, *fake.Server) {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	return gateway.Run(t, gateway.Options{Config: config, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}}), p
}

// both are a request in each client's format.
var both = []ask{{dialect: fake.OpenAI, model: "m"}, {dialect: fake.Anthropic, model: "m"}, {dialect: fake.OpenAI, model: "m", stream: true}, {dialect: fake.Anthropic, model: "m", stream: true}}

func (a ask) with(key string, header ...string) gateway.Call {
	c := a.call(header...)
	c.Key = key
	return c
}

// errorType is error.type of an answer.
func errorType(t testing.TB, got gateway.Answer) string {
	t.Helper()
	var e apiError
	got.JSON(t, &e)
	return e.Error.Type
}

// TestPrepaidKeysPayInAdvance: without money nothing is served, and a deposit counts at once.
func TestPrepaidKeysPayInAdvance(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 20}})
	const charge = 60 // (10 x 1 + 20 x 2) x 1.2 millionths
	poor := g.CreateKey(t, "--name", "poor", "--balance-usd", "0.000010", "--tier", "free")
	if fmt.Sprint(poor.BalanceUSD) != "1e-05" || poor.Tier != "free" {
		t.Errorf("created %+v", poor)
	}
	for _, a := range both {
		got := g.Do(t, a.with(poor.Key))
		mustFail(t, a, got, http.StatusPaymentRequired, "insufficient_balance")
		if want := map[fake.Dialect]string{fake.OpenAI: "insufficient_quota", fake.Anthropic: "billing_error"}[a.dialect]; errorType(t, got) != want { //nolint:exhaustive // Gemini is tested apart
			t.Errorf("%+v: %s, want type %s", a, got.Body, want)
		}
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
	want := int64(10)
	for i, usd := range []string{"0.99", "4"} {
		g.Bardo(t, "deposit", poor.ID, "--usd", usd, "--ref", "invoice-"+usd)
		g.Bardo(t, "deposit", poor.ID, "--usd", usd, "--ref", "invoice-"+usd) // counts once
		want += []int64{990_000, 4_000_000}[i] - charge
		shown := func() string { return fmt.Sprintf("%d.%06d", want/1e6, want%1e6) }
		got := g.Do(t, both[i].with(poor.Key))
		for began := time.Now(); got.Status == http.StatusOK && got.Header.Get("X-Bardo-Balance") != shown() && time.Since(began) < 10*time.Second; {
			want -= charge // a gateway that has money in memory knows of a deposit a quarter of a second later
			got = g.Do(t, both[i].with(poor.Key))
		}
		if got.Status != http.StatusOK {
			t.Fatalf("after a deposit: %d %s", got.Status, got.Body)
		}
		left := shown()
		if got.Header.Get("X-Bardo-Balance") != left || (got.Header.Get("X-Bardo-Balance-Warning") != "") != (want < 1e6) {
			t.Errorf("headers %v, want balance %s", got.Header, left)
		}
		if got.Header.Get("X-Bardo-Cost") != "0.000060" {
			t.Errorf("cost %q", got.Header.Get("X-Bardo-Cost"))
		}
		if n := balanceOf(t, g, poor.Key); n != want {
			t.Errorf("balance %d, want %d", n, want)
		}
		checkBalanceCommand(t, g, poor.ID, left)
	}
	if f := fundsOf(t, g, poor.Key); f.Tier != "free" || f.RemainingTokens != nil {
		t.Errorf("GET /v1/balance says %+v", f)
	}
	g.AssertSound(t)
}

// checkBalanceCommand compares what the command line says, while the gateway runs or not.
func checkBalanceCommand(t *testing.T, g *gateway.Gateway, id, balance string) {
	t.Helper()
	var b struct {
		ID      string
		Balance json.Number `json:"balance_usd"`
	}
	if err := json.Unmarshal([]byte(g.Bardo(t, "balance", id, "--json")), &b); err != nil || b.ID != id || string(b.Balance) != balance {
		t.Errorf("bardo balance --json: %+v %v, want %s", b, err, balance)
	}
	if out := g.Bardo(t, "balance", id); !strings.Contains(out, "$"+balance) {
		t.Errorf("bardo balance: %s, want %s", out, balance)
	}
}

// TestMeteredKeysAreNeverRefused: they have no balance, and what they use is counted.
func TestMeteredKeysAreNeverRefused(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{
		{ID: "m", Price: "{input: 1000, output: 2000}", More: "context: 2000000"},
	}}}})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1_000_000, Output: 1_000_000}})
	k := g.CreateKey(t, "--name", "metered")
	if k.BalanceUSD != nil {
		t.Errorf("created %+v", k)
	}
	for _, a := range both {
		got := g.Do(t, a.with(k.Key))
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Balance") != "" {
			t.Fatalf("%d %v %s", got.Status, got.Header, got.Body)
		}
		if b := billOf(t, g, k.Key, got.Header.Get("X-Request-Id")); b.Cost != "3600.000000" {
			t.Errorf("record %+v", b)
		}
		if a.stream {
			if s := summaryOf(t, got); s.Balance != nil || s.Cost != "3600.000000" {
				t.Errorf("summary %+v", s)
			}
		}
	}
	if f := fundsOf(t, g, k.Key); f.Balance != nil || f.Held != "0.000000" {
		t.Errorf("GET /v1/balance says %+v", f)
	}
	if r := g.Try(t, "deposit", k.ID, "--usd", "1", "--ref", "x"); r.Code == 0 {
		t.Errorf("a metered key took a deposit: %s", r.Stdout)
	}
	if out := g.Bardo(t, "balance", k.ID); !strings.Contains(out, "metered") {
		t.Errorf("bardo balance: %s", out)
	}
	other := g.CreateKey(t, "--name", "other")
	got := g.Do(t, both[0].with(k.Key))
	if a := g.Do(t, gateway.Call{Path: "/v1/requests/" + got.Header.Get("X-Request-Id"), Key: other.Key}); a.Status != http.StatusNotFound {
		t.Errorf("another key's request: %d %s", a.Status, a.Body)
	}
}

// TestRestrictedKeys can do what they were left, and get 403 for the rest.
func TestRestrictedKeys(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	reader := g.CreateKey(t, "--name", "reader", "--read-only")
	far := g.CreateKey(t, "--name", "far", "--ip", "10.0.0.0/8", "--ip", "2001:db8::/32")
	near := g.CreateKey(t, "--name", "near", "--ip", "10.0.0.0/8", "--ip", "127.0.0.0/8")
	for _, a := range both {
		for _, k := range []gateway.NewKey{reader, far} {
			got := g.Do(t, a.with(k.Key))
			mustFail(t, a, got, http.StatusForbidden, "key_restricted")
			if errorType(t, got) != "permission_error" {
				t.Errorf("%s: %s", k.Name, got.Body)
			}
		}
		if got := g.Do(t, a.with(near.Key)); got.Status != http.StatusOK {
			t.Errorf("from inside: %d %s", got.Status, got.Body)
		}
	}
	if n := len(p.Generations()); n != len(both) {
		t.Errorf("%d requests reached the provider, want %d", n, len(both))
	}
	for _, path := range []string{"/v1/models", "/v1/models/m", "/v1/balance", "/v1/usage"} {
		if got := g.Do(t, gateway.Call{Path: path, Key: reader.Key}); got.Status != http.StatusOK {
			t.Errorf("read-only: %s: %d %s", path, got.Status, got.Body)
		}
		if got := g.Do(t, gateway.Call{Path: path, Key: far.Key}); got.Status != http.StatusForbidden {
			t.Errorf("from outside: %s: %d %s", path, got.Status, got.Body)
		}
	}
	forged := both[0].with(far.Key, "x-forwarded-for: 10.1.2.3", "x-real-ip: 10.1.2.3", "forwarded: for=10.1.2.3")
	mustFail(t, both[0], g.Do(t, forged), http.StatusForbidden, "key_restricted")

	g.Bardo(t, "keys", "update", far.ID, "--ip", "any")
	g.Bardo(t, "keys", "update", reader.ID, "--read-only=false")
	for _, k := range []gateway.NewKey{reader, far} {
		eventually(t, k.Name+" may generate", func() bool { return g.Do(t, both[0].with(k.Key)).Status == http.StatusOK })
	}
}

// TestRevokedKeysEndWithinASecond, in the gateway that runs, and for good.
func TestRevokedKeysEndWithinASecond(t *testing.T) {
	t.Parallel()
	g, _ := one(t, quick)
	var k gateway.NewKey
	polltest.Soon(t, time.Second, "the end of a revoked key", func() time.Duration {
		k = g.CreateKey(t, "--name", "leaked", "--balance-usd", "1")
		if got := g.Do(t, both[0].with(k.Key)); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		g.Bardo(t, "keys", "revoke", k.ID)
		revoked := time.Now()
		eventually(t, "the refusal", func() bool { return g.Do(t, both[0].with(k.Key)).Status == http.StatusUnauthorized })
		return time.Since(revoked)
	})
	for _, a := range both {
		mustFail(t, a, g.Do(t, a.with(k.Key)), http.StatusUnauthorized, "invalid_api_key")
	}
	if got := g.Do(t, gateway.Call{Path: "/v1/balance", Key: k.Key}); got.Status != http.StatusUnauthorized {
		t.Errorf("it still reads its balance: %d", got.Status)
	}
	if r := g.Try(t, "keys", "update", k.ID, "--name", "back"); r.Code == 0 {
		t.Error("a revoked key was changed")
	}
	g.AssertSound(t)
}

type credentialCase struct {
	name   string
	header []string
	ok     bool
}

// TestCredentials: which of the headers counts, and what is not a key.
func TestCredentials(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	good := g.Key
	id, secret, sum := keyParts(t, good)
	elsewhere, _ := one(t, quick)
	stranger := elsewhere.CreateKey(t, "--name", "stranger")
	other := "a"
	if secret[0] == 'a' {
		other = "b"
	}
	for _, r := range []credentialCase{
		{"Bearer", []string{"authorization: Bearer " + good}, true},
		{"bearer in lower case", []string{"authorization: bearer " + good}, true},
		{"x-api-key", []string{"x-api-key: " + good}, true},
		{"both", []string{"x-api-key: " + good, "authorization: Bearer " + good}, true},
		{"the first is not for this gateway", []string{"x-api-key: sk-ant-api03-xyz", "authorization: Bearer " + good}, true},
		{"the right one first", []string{"x-api-key: " + good, "authorization: Bearer " + stranger.Key}, true},
		{"the wrong one first", []string{"x-api-key: " + stranger.Key, "authorization: Bearer " + good}, false},
		{"a broken one first", []string{"x-api-key: " + good + "x", "authorization: Bearer " + good}, false},
		{"none", nil, false},
		{"empty", []string{"authorization: Bearer "}, false},
		{"of another gateway", []string{"authorization: Bearer " + stranger.Key}, false},
		{"a provider's", []string{"authorization: Bearer " + p.Key}, false},
		{"Basic", []string{"authorization: Basic " + good}, false},
		{"in the query", nil, false},
		{"cut short", []string{"x-api-key: " + good[:len(good)-1]}, false},
		{"without its sum", []string{"x-api-key: bardo_sk_" + id + "_" + secret}, false},
		{"another secret", []string{"x-api-key: bardo_sk_" + id + "_" + other + secret[1:] + "_" + sum}, false},
		{"very long", []string{"x-api-key: bardo_sk_" + strings.Repeat("a", 4000)}, false},
	} {
		t.Run(r.name, func(t *testing.T) { checkCredential(t, r, good, p, g, secret) })
	}
	if strings.Contains(g.Log(), secret) {
		t.Error("the log holds a key")
	}
}

func checkCredential(t *testing.T, r credentialCase, good string, p *fake.Server, g *gateway.Gateway, secret string) {
	t.Helper()
	for _, a := range both[:2] {
		c := a.call(r.header...)
		c.NoKey = true
		if r.name == "in the query" {
			c.Path += "?api_key=" + good + "&key=" + good
		}
		p.Forget()
		got := g.Do(t, c)
		if !r.ok {
			mustFail(t, a, got, http.StatusUnauthorized, "invalid_api_key")
			if errorType(t, got) != "authentication_error" || strings.Contains(got.Body, secret) || len(p.Generations()) != 0 {
				t.Errorf("%s, %d calls", got.Body, len(p.Generations()))
			}
			continue
		}
		if got.Status != http.StatusOK {
			t.Errorf("%d %s", got.Status, got.Body)
		}
		if p.Saw(secret) {
			t.Error("the provider saw the key")
		}
	}
}

// keyParts are the parts of bardo_sk_<id>_<secret>_<checksum>.
func keyParts(t *testing.T, key string) (id, secret, sum string) {
	t.Helper()
	p := strings.Split(key, "_")
	if len(p) != 5 || p[0] != "bardo" || p[1] != "sk" || len(p[3]) < 40 {
		t.Fatalf("%q is not a key", key)
	}
	return p[2], p[3], p[4]
}

// TestTheReserveIsTheWorstCase: the dearest candidate, the whole output, and every choice of it.
func TestTheReserveIsTheWorstCase(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	priced := func(model, price string) gateway.Model { return gateway.Model{ID: model, Price: price} }
	g := gateway.Run(t, gateway.Options{Config: quick + "billing: {reserve_output_tokens: 1000, spread_pct: 20}\n", Providers: []gateway.Provider{
		{ID: "cheap", Fake: p, Models: []gateway.Model{priced("m", "{input: 0, output: 10}"), priced("gpt-4o", "{input: 0, cached_input: 0, output: 10}"), priced("free", "{input: 0, output: 0}")}},
		{ID: "dear", Fake: p, Models: []gateway.Model{priced("m", "{input: 0, output: 100}")}},
	}})
	for _, r := range []struct {
		name, model, more string
		worst             string // with 20 percent
	}{
		{"max_tokens at the dearest candidate", "m", `"max_tokens":50`, "0.006000"},
		{"max_completion_tokens", "m", `"max_completion_tokens":50`, "0.006000"},
		{"every choice", "m", `"max_tokens":50,"n":3`, "0.018000"},
		{"the configured reserve", "m", `"temperature":1`, "0.120000"},
		{"the model's own limit", "gpt-4o", `"max_tokens":2000000`, "0.196608"},
		{"the model's own limit for every choice", "gpt-4o", `"max_tokens":2000000,"n":4`, "0.786432"},
		{"nothing", "free", `"max_tokens":50`, "0.000000"},
	} {
		t.Run(r.name, func(t *testing.T) {
			k := g.CreateKey(t, "--name", "k", "--balance-usd", r.worst)
			a := ask{dialect: fake.OpenAI, model: r.model, more: r.more}
			if got := g.Do(t, a.with(k.Key)); got.Status != http.StatusOK {
				t.Errorf("with enough: %d %s", got.Status, got.Body)
			}
			if r.worst == "0.000000" {
				return
			}
			short := fmt.Sprintf("0.%06d", micro(t, json.Number(r.worst))-1)
			k = g.CreateKey(t, "--name", "k", "--balance-usd", short)
			got := g.Do(t, a.with(k.Key))
			mustFail(t, a, got, http.StatusPaymentRequired, "insufficient_balance")
			if !strings.Contains(got.Body, "$"+r.worst) || !strings.Contains(got.Body, "$"+short) {
				t.Errorf("%s does not say that %s is needed and %s is there", got.Body, r.worst, short)
			}
		})
	}
}

// TestAnAnswerThatCostsMoreThanThereWas takes all there is, and blocks the key until a deposit.
func TestAnAnswerThatCostsMoreThanThereWas(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 1_000_000}})
	for _, a := range both {
		k := g.CreateKey(t, "--name", "k", "--balance-usd", "0.01")
		got := g.Do(t, a.with(k.Key))
		if s := text(t, a, got); s != "Hello from the fake provider." {
			t.Errorf("%+v says %q", a, s)
		}
		if b := billOf(t, g, k.Key, got.Header.Get("X-Request-Id")); b.Cost != "0.010000" || b.ProviderCost != "2.00001" {
			t.Errorf("record %+v", b)
		}
		if n := balanceOf(t, g, k.Key); n != 0 {
			t.Errorf("%d are left", n)
		}
		got = g.Do(t, a.with(k.Key))
		mustFail(t, a, got, http.StatusPaymentRequired, "insufficient_balance")
		if !strings.Contains(got.Body, "blocked until a deposit") {
			t.Errorf("%s", got.Body)
		}
		g.Bardo(t, "deposit", k.ID, "--usd", "0.02", "--ref", "r")
		if got := g.Do(t, a.with(k.Key)); got.Status != http.StatusOK {
			t.Errorf("after a deposit: %d %s", got.Status, got.Body)
		}
	}
	g.AssertSound(t)
}
