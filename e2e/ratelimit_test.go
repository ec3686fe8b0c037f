package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// wantLimit checks the three headers of a limit in OpenAI's form: how many there may be, how many more there may be now, and after what
// time all of them may come again.
func wantLimit(t testing.TB, got gateway.Answer, of, most, left string, reset time.Duration) {
	t.Helper()
	h := func(name string) string { return got.Header.Get("X-Ratelimit-" + name + "-" + of) }
	in, err := time.ParseDuration(h("Reset"))
	if h("Limit") != most || h("Remaining") != left || err != nil || in > reset || in < 0 {
		t.Errorf("%d: limit %q, remaining %q, reset %q; want %s, %s, at most %s", got.Status, h("Limit"), h("Remaining"), h("Reset"), most, left, reset)
	}
}

// wantNoLimits checks that an answer speaks of no limits.
func wantNoLimits(t testing.TB, got gateway.Answer) {
	t.Helper()
	for name := range got.Header {
		if strings.HasPrefix(name, "X-Ratelimit-") {
			t.Errorf("%d: %s: %s", got.Status, name, got.Header.Get(name))
		}
	}
}

type limitHeadersCase struct {
	name   string
	a      func(ask) ask
	does   fake.Behaviour
	status int
	tokens string // left
}

// TestD84EveryAnswerSaysWhatIsLeftOfItsKeysLimits: in one piece, as a stream, from the cache, and errors of any kind; in each format. What
// a provider says of the operator's own limits is not passed on.
func TestD84EveryAnswerSaysWhatIsLeftOfItsKeysLimits(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	usage := &fake.Usage{Input: 400, Output: 100}
	g := gateway.Run(t, gateway.Options{Config: "limits: {tokens_per_hour: 10000}\n", Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}})
	for _, a := range eachFormat {
		for _, r := range []limitHeadersCase{
			{"in one piece", func(a ask) ask { return a }, fake.Behaviour{Usage: usage}, 200, "9500"},
			{"a stream", func(a ask) ask { a.stream = true; return a }, fake.Behaviour{Usage: usage}, 200, "10000"}, // as it begins
			{"a provider's error", func(a ask) ask { return a }, fake.Behaviour{Status: 400}, 400, "10000"},
			{"an unknown model", func(a ask) ask { a.model = "nosuch"; return a }, fake.Behaviour{}, 404, "10000"},
			{"an invalid body", func(a ask) ask { a.more = `"x"`; return a }, fake.Behaviour{}, 400, "10000"},
		} {
			t.Run(r.name+"/"+string(a.dialect), func(t *testing.T) {
				p.Behave(r.does)
				k := g.CreateKey(t, "--name", "k", "--rpm", "2")
				got := g.Do(t, r.a(a).with(k.Key))
				if got.Status != r.status {
					t.Fatalf("%d %s", got.Status, got.Body)
				}
				wantLimit(t, got, "Requests", "2", "1", 30*time.Second)
				wantLimit(t, got, "Tokens", "10000", r.tokens, time.Hour)
			})
		}
		t.Run("a refusal by the rate/"+string(a.dialect), func(t *testing.T) {
			p.Behave(fake.Behaviour{Usage: usage})
			k := g.CreateKey(t, "--name", "k", "--rpm", "1")
			wantLimit(t, g.Do(t, a.with(k.Key)), "Requests", "1", "0", time.Minute)
			got := g.Do(t, a.with(k.Key))
			mustFail(t, a, got, http.StatusTooManyRequests, "rate_limit_exceeded")
			wantLimit(t, got, "Requests", "1", "0", time.Minute)
			wantLimit(t, got, "Tokens", "10000", "9500", time.Hour)
			wantLimit(t, g.Do(t, gateway.Call{Path: "/v1/models", Key: k.Key}), "Requests", "10", "9", 6*time.Second)
		})
	}
	t.Run("a stored answer", func(t *testing.T) {
		k := g.CreateKey(t, "--name", "k", "--rpm", "2")
		a := ask{dialect: fake.OpenAI, model: "m", more: `"temperature":0`}
		wantLimit(t, g.Do(t, a.with(k.Key)), "Requests", "2", "1", 30*time.Second)
		got := g.Do(t, a.with(k.Key))
		if got.Header.Get("X-Bardo-Cache") != "hash" {
			t.Fatalf("%d, cache %q", got.Status, got.Header.Get("X-Bardo-Cache"))
		}
		wantLimit(t, got, "Requests", "2", "0", time.Minute)
	})
	t.Run("the provider's own", func(t *testing.T) {
		p.Behave(fake.Behaviour{Raw: &fake.Raw{
			Status: 200, Header: []string{"Content-Type: application/json", "X-Ratelimit-Remaining-Requests: 7", "X-Ratelimit-Limit-Project-Tokens: 9"},
			Body: `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
		}})
		k := g.CreateKey(t, "--name", "k", "--rpm", "0")
		got := g.Do(t, eachFormat[0].with(k.Key))
		if got.Status != http.StatusOK || got.Header.Get("X-Ratelimit-Remaining-Requests") != "" || got.Header.Get("X-Ratelimit-Limit-Project-Tokens") != "" {
			t.Errorf("%d %v", got.Status, got.Header)
		}
	})
}

// TestD84WhoHasALimitWithoutAWordInTheConfiguration: prepaid keys, and nobody else; and nobody pays more than the provider's price.
func TestD84WhoHasALimitWithoutAWordInTheConfiguration(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, Output: 500}})
	own := []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}
	a := ask{dialect: fake.OpenAI, model: "m"}
	t.Run("keys", func(t *testing.T) {
		t.Parallel()
		g := gateway.Run(t, gateway.Options{Config: "billing: {reserve_output_tokens: 4096}\n", Providers: own})
		for i, row := range []struct {
			flags   []string
			limited bool
		}{
			{nil, false}, {[]string{"--tier", "golem"}, false}, {[]string{"--balance-usd", "1"}, true}, {[]string{"--balance-usd", "1", "--tier", "free"}, true},
		} {
			k := g.CreateKey(t, append([]string{"--name", "k" + strconv.Itoa(i)}, row.flags...)...)
			got := g.Do(t, a.with(k.Key))
			if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Spread") != "0" || got.Header.Get("X-Bardo-Cost") != "0.002000" {
				t.Errorf("%v: %d, spread %q, cost %q", row.flags, got.Status, got.Header.Get("X-Bardo-Spread"), got.Header.Get("X-Bardo-Cost"))
			}
			if !row.limited {
				wantNoLimits(t, got)
				continue
			}
			if most := got.Header.Get("X-Ratelimit-Limit-Requests"); most != "100" {
				t.Errorf("%v: a rate of %q", row.flags, most)
			}
		}
	})
	t.Run("no key", func(t *testing.T) {
		t.Parallel()
		g := gateway.Run(t, gateway.Options{Config: "auth: {anonymous: true}\nlisten: {http: 127.0.0.1:0, https: off, admin: 127.0.0.1:0}\n", NoKey: true, Providers: own})
		wantNoLimits(t, g.Do(t, a.call()))
	})
	t.Run("the demo", func(t *testing.T) {
		t.Parallel()
		g := gateway.Run(t, gateway.Options{NoKey: true})
		got := g.Do(t, a.call())
		if got.Status != http.StatusOK {
			t.Errorf("%d %s", got.Status, got.Body)
		}
		wantNoLimits(t, got)
	})
	t.Run("plans", func(t *testing.T) {
		t.Parallel()
		g := gateway.Run(t, gateway.Options{Config: "billing: {tiers: {free: {}, pro: {spread_pct: 5}}}\n", Providers: own})
		for tier, want := range map[string]string{"free": "25", "pro": "5", "golem": "10"} {
			k := g.CreateKey(t, "--name", tier, "--tier", tier)
			if got := g.Do(t, a.with(k.Key)); got.Header.Get("X-Bardo-Spread") != want {
				t.Errorf("%s: spread %q, want %s", tier, got.Header.Get("X-Bardo-Spread"), want)
			}
		}
	})
}
