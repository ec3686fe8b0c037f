package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// standing is a row of `bardo providers --json`.
type standing struct {
	Provider string
	State    string
	Reason   string
	Order    int
}

func standings(t testing.TB, g *gateway.Gateway, args ...string) map[string]standing {
	t.Helper()
	var rows []standing
	out := g.Bardo(t, append(append([]string{"providers"}, args...), "--json")...)
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatalf("providers printed %q: %v", out, err)
	}
	m := map[string]standing{}
	for _, r := range rows {
		m[r.Provider] = r
	}
	return m
}

// pair is a gateway with two providers of the same models.
func pair(t *testing.T, ms ...string) (g *gateway.Gateway, first, second *fake.Server) {
	t.Helper()
	first = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"})
	second = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
	var offered []gateway.Model
	for _, m := range ms {
		offered = append(offered, models(m, "")...)
	}
	return gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "first", Fake: first, Models: offered}, {ID: "second", Fake: second, Models: offered},
	}}), first, second
}

func TestAnOperatorDisablesAProviderUnderLoad(t *testing.T) {
	t.Parallel()
	g, first, second := pair(t, "m", "slow")
	first.BehaveFor("slow", fake.Behaviour{Tokens: 20, Gap: 100 * time.Millisecond})
	load := startClients(t, g, 12, everyKind("m")...)
	load.more(t, 50)
	backed := begin(t, g, ask{dialect: fake.OpenAI, model: "slow", stream: true})

	if s := standings(t, g, "disable", "first"); s["first"].State != "disabled" || s["first"].Order != 0 || s["second"].Order != 1 {
		t.Errorf("after disable: %+v", s)
	}
	load.say("while it is disabled")
	load.more(t, 100)
	if first.Saw("while it is disabled") {
		t.Error("a request that came after the command went to the disabled provider")
	}
	if got := backed.finish(t); got != words(20) {
		t.Errorf("the stream that was under way says %q", got)
	}

	if s := standings(t, g, "enable", "first"); s["first"].State == "disabled" || s["first"].Order != 1 {
		t.Errorf("after enable: %+v", s)
	}
	load.say("enabled again")
	load.more(t, 50)
	load.stop(t)
	if !first.Saw("enabled again") || second.Saw("enabled again") {
		t.Error("the first provider is not first again")
	}
	g.AssertSound(t)
}

func TestEveryProviderOfAModelIsDisabled(t *testing.T) {
	t.Parallel()
	g, first, second := pair(t, "m")
	for _, name := range []string{"first", "second"} {
		g.Bardo(t, "providers", "disable", name)
	}
	for _, a := range everyKind("m") {
		mustFail(t, a, g.Do(t, a.call()), http.StatusServiceUnavailable, "no_provider")
	}
	if n := len(first.Generations()) + len(second.Generations()); n != 0 {
		t.Errorf("%d calls reached a disabled provider", n)
	}
	if r := g.Try(t, "providers", "disable", "nobody"); r.Code != 1 || r.Stderr == "" {
		t.Errorf("an unknown provider: %+v", r)
	}
	g.Bardo(t, "providers", "enable", "second")
	for _, a := range everyKind("m") {
		if got := g.Do(t, a.call()); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "second" {
			t.Errorf("%+v: %d %s", a, got.Status, got.Body)
		}
	}
}

// TestK55ADeadPrimaryIsLeftAlone: whichever way it is dead, it is tried a few times and then goes last, until one request
// finds it alive again.
func TestK55ADeadPrimaryIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			t.Parallel()
			g, first, second := pair(t, "m")
			first.Behave(fake.Behaviour{Status: 500})
			a := ask{dialect: fake.OpenAI, model: "m", stream: stream}
			began := time.Now()
			for range 60 {
				if got := g.Do(t, a.call()); got.Status != http.StatusOK {
					t.Fatalf("%d %s", got.Status, got.Body)
				}
			}
			// Five failures take it out; if this machine is slow, one more try every 15 s is allowed.
			most := 5 + int(time.Since(began)/(15*time.Second))
			if n := len(first.Generations()); n < 5 || n > most {
				t.Errorf("the dead primary was asked %d times by 60 requests", n)
			}
			if n := len(second.Generations()); n != 60 {
				t.Errorf("the other was asked %d times", n)
			}
			if s := standings(t, g)["first"]; s.State != "down" || s.Reason == "" || s.Order != 2 {
				t.Errorf("it stands as %+v", s)
			}
			eventually(t, "a metric that says so", func() bool {
				m := g.Metrics(t)
				return m.Sum("bardo_provider_healthy", `provider="first"`) == 0 && m.Sum("bardo_provider_healthy", `provider="second"`) == 1
			})
			first.Behave(fake.Behaviour{})
			comesBack(t, g, a, "first")
		})
	}
}

// comesBack waits until a provider serves again; every request in between is served too.
func comesBack(t *testing.T, g *gateway.Gateway, a ask, provider string) {
	t.Helper()
	ctx := soon(t)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		got := g.Do(t, a.call())
		if got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		if got.Header.Get("X-Bardo-Provider") == provider {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s never came back: %+v", provider, standings(t, g))
		}
	}
}

func TestK53ARateLimitCoolsDown(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			t.Parallel()
			g, first, _ := pair(t, "m")
			a := ask{dialect: fake.Anthropic, model: "m", stream: stream}
			const rest = 12 * time.Second // more than the ten requests take on a busy machine
			first.Queue(fake.Behaviour{Status: 429, RetryAfter: "12"})
			began := time.Now()
			for i := range 10 {
				got := g.Do(t, a.call())
				if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "second" && time.Since(began) < rest {
					t.Fatalf("request %d: %d by %s: %s", i, got.Status, got.Header.Get("X-Bardo-Provider"), got.Body)
				}
			}
			if n := len(first.Generations()); n != 1 {
				t.Errorf("the busy provider was asked %d times", n)
			}
			if s := standings(t, g)["first"]; s.State != "degraded" {
				t.Errorf("it stands as %+v", s)
			}
			comesBack(t, g, a, "first")
			if d := time.Since(began); d < rest {
				t.Errorf("it was asked again after %s", d)
			}
		})
	}
}

func TestK54AMissingTokenCountIsNoFailure(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	p.BehaveOn("/messages/count_tokens", fake.Behaviour{Status: 404})
	other := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "other"})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "anthropic", Fake: p}, {ID: "other", Fake: other, Format: "anthropic"},
	}})
	a := ask{dialect: fake.Anthropic, model: "claude-sonnet-4-5"}
	count := a.call()
	count.Path = "/v1/messages/count_tokens"
	for range 8 {
		if got := g.Do(t, count); got.Status >= 500 {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	if got := g.Do(t, a.call()); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "anthropic" {
		t.Errorf("%d by %q: %s", got.Status, got.Header.Get("X-Bardo-Provider"), got.Body)
	}
	if s := standings(t, g)["anthropic"]; s.State != "healthy" {
		t.Errorf("it stands as %+v", s)
	}
}
