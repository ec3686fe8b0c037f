package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// chain is a gateway whose providers all have the model m, in order, and how often each was asked.
func chain(t *testing.T, config string, n int) (g *gateway.Gateway, ps []*fake.Server, asked func() []int) {
	t.Helper()
	o := gateway.Options{Config: config}
	for i := range n {
		id := fmt.Sprintf("p%d", i)
		ps = append(ps, fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: id}))
		o.Providers = append(o.Providers, gateway.Provider{ID: id, Fake: ps[i], Models: models("m", "")})
	}
	return gateway.Run(t, o), ps, func() []int {
		out := make([]int, n)
		for i, p := range ps {
			out[i] = len(p.Generations())
		}
		return out
	}
}

// attempts is a configuration with so many extra attempts.
func attempts(n int) string {
	return fmt.Sprintf("limits: {rpm: 0}\nrouting: {ping_interval: 1h, max_retries: %d, timeouts: {connect: 5s, first_token: 5s}}\n", n)
}

// TestD15MaxRetriesBoundsAllExtraAttempts: over providers, repetitions of one, and the keys of one together, on both paths.
func TestD15MaxRetriesBoundsAllExtraAttempts(t *testing.T) {
	t.Parallel()
	reset := fake.Behaviour{Break: fake.Break{Kind: fake.Reset}}
	for _, row := range []struct {
		name           string
		most           int
		first, others  fake.Behaviour
		native, driven []int
	}{
		{"none", 0, fake.Behaviour{Status: 500}, fake.Behaviour{}, []int{1, 0, 0, 0, 0}, []int{1, 0, 0, 0, 0}},
		{"none after a reset", 0, reset, fake.Behaviour{}, []int{1, 0, 0, 0, 0}, []int{1, 0, 0, 0, 0}},
		{"two", 2, fake.Behaviour{Status: 500}, fake.Behaviour{Status: 500}, []int{1, 1, 1, 0, 0}, []int{1, 1, 1, 0, 0}},
		{"two, of which the first's repetition is one", 2, reset, fake.Behaviour{Status: 500}, []int{1, 1, 1, 0, 0}, []int{2, 1, 0, 0, 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, stream := range []bool{false, true} {
				g, ps, asked := chain(t, attempts(row.most), 5)
				for i, p := range ps {
					if p.Behave(row.others); i == 0 {
						p.Behave(row.first)
					}
				}
				got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: stream}.call())
				want := row.native
				if stream {
					want = row.driven
				}
				if got.Status != http.StatusBadGateway || !slices.Equal(asked(), want) {
					t.Errorf("stream=%v: %d, calls %v, want %v", stream, got.Status, asked(), want)
				}
			}
		})
	}
	t.Run("keys", func(t *testing.T) {
		t.Parallel()
		keys := []string{"sk-one", "sk-two", "sk-three", "sk-four"}
		for _, stream := range []bool{false, true} {
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Keys: keys})
			g := gateway.Run(t, gateway.Options{Config: attempts(1), Providers: []gateway.Provider{{
				ID: "own", Fake: p, Key: keys[0], Models: models("m", ""), More: fmt.Sprintf("api_keys: [%s]", strings.Join(keys[1:], ", ")),
			}}})
			p.Behave(fake.Behaviour{Status: http.StatusTooManyRequests, RetryAfter: "9"})
			got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: stream}.call())
			if n := len(p.Generations()); got.Status != http.StatusTooManyRequests || n != 2 {
				t.Errorf("stream=%v: %d after %d calls, want 2", stream, got.Status, n)
			}
		}
	})
}

// TestD15A429OfTheOnlyCandidateIsNotRepeated: it said how long to leave it alone, and that is the client's to know.
func TestD15A429OfTheOnlyCandidateIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ status, calls int }{{http.StatusTooManyRequests, 1}, {http.StatusServiceUnavailable, 2}} {
		for _, a := range []ask{
			{dialect: fake.OpenAI, model: "m"},
			{dialect: fake.OpenAI, model: "m", stream: true},
			{dialect: fake.Anthropic, model: "m", stream: true},
			{dialect: fake.OpenAI, model: "m", more: `"response_format":{"type":"json_object"}`, say: "in json"},
		} {
			g, ps, asked := chain(t, attempts(3), 1)
			ps[0].Behave(fake.Behaviour{Status: row.status, RetryAfter: "7"})
			got := g.Do(t, a.call())
			if n := asked()[0]; got.Status != row.status || n != row.calls {
				t.Errorf("%+v: %d after %d calls, want %d", a, got.Status, n, row.calls)
			}
			if row.status == http.StatusTooManyRequests && got.Header.Get("Retry-After") != "7" {
				t.Errorf("%+v: Retry-After %q", a, got.Header.Get("Retry-After"))
			}
		}
	}
}

// TestD15TheFirstOfSeveralIsTriedAgainOnce on the driven path, after a broken connection and after nothing else; no other is.
func TestD15TheFirstOfSeveralIsTriedAgainOnce(t *testing.T) {
	t.Parallel()
	reset, bad := fake.Behaviour{Break: fake.Break{Kind: fake.Reset}}, fake.Behaviour{Status: 500}
	for _, row := range []struct {
		name          string
		first, second []fake.Behaviour
		want          []int
	}{
		{"it comes back", []fake.Behaviour{reset}, nil, []int{2, 0, 0}},
		{"it breaks off twice", []fake.Behaviour{reset, reset, reset}, nil, []int{2, 1, 0}},
		{"it answers with an error", []fake.Behaviour{bad}, nil, []int{1, 1, 0}},
		{"the second breaks off, too", []fake.Behaviour{reset, reset}, []fake.Behaviour{reset, reset}, []int{2, 1, 1}},
	} {
		for _, a := range []ask{
			{dialect: fake.OpenAI, model: "m", stream: true},
			{dialect: fake.OpenAI, model: "m", more: `"response_format":{"type":"json_object"}`, say: "in json"},
		} {
			t.Run(fmt.Sprintf("%s/stream=%v", row.name, a.stream), func(t *testing.T) {
				t.Parallel()
				g, ps, asked := chain(t, attempts(3), 3)
				ps[0].Queue(row.first...)
				ps[1].Queue(row.second...)
				for _, p := range ps {
					p.BehaveFor("m", fake.Behaviour{JSON: `{"a":1}`})
				}
				if got := g.Do(t, a.call()); got.Status != http.StatusOK || !slices.Equal(asked(), row.want) {
					t.Errorf("%d, calls %v, want %v: %s", got.Status, asked(), row.want, got.Body)
				}
			})
		}
	}
}

// TestK40NoHeartbeatComesBeforeAnAnswerInOnePiece: the gateway makes a client wait that wants JSON. Nothing stands before its body, and an
// error keeps its status.
func TestK40NoHeartbeatComesBeforeAnAnswerInOnePiece(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := beating(t, "5s", gateway.Provider{ID: "p", Fake: p, Models: models("m", "")})
	for _, row := range []struct {
		name string
		b    fake.Behaviour
		want int
	}{
		{"before the head", fake.Behaviour{HeaderDelay: 700 * time.Millisecond, JSON: `{"a":1}`}, http.StatusOK},
		{"before the body", fake.Behaviour{FirstToken: 700 * time.Millisecond, JSON: `{"a":1}`}, http.StatusOK},
		{"before an error", fake.Behaviour{HeaderDelay: 700 * time.Millisecond, Status: http.StatusBadRequest}, http.StatusBadRequest},
	} {
		for _, s := range shapers {
			t.Run(row.name+"/"+string(s), func(t *testing.T) {
				p.Behave(row.b)
				got := g.Do(t, s.call("m", false, "hi", s.schema("answer", `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`)))
				if got.Status != row.want || !strings.HasPrefix(got.Header.Get("Content-Type"), "application/json") || !strings.HasPrefix(got.Body, "{") {
					t.Errorf("%d %q: %.100q", got.Status, got.Header.Get("Content-Type"), got.Body)
				}
			})
		}
	}
}

// TestD15NoStaleAnswerAfterPaidCalls: where the first model fails and the second one's answer is no good, the request costs something, and an
// answer for which nobody pays does not stand in for it.
func TestD15NoStaleAnswerAfterPaidCalls(t *testing.T) {
	t.Parallel()
	g, lead, other := startTwoFamilies(t, "inference: {caching: {ttl_s: 1}}\n")
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	for _, stream := range []bool{false, true} {
		says(lead, lax, 10, 10)
		says(other, lax, 10, 10)
		c := shaper("openai").call("claude-opus-4-6", stream, fmt.Sprintf("May it? %v", stream), "",
			"X-Bardo-Subsystem: risk", "X-Bardo-Verify: true", "X-Bardo-Cache: force", fast)
		c.Key = key
		if got := g.Do(t, c); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cache") != "miss" {
			t.Fatalf("%d %v", got.Status, got.Header)
		}
		eventually(t, "an answer past its time", func() bool {
			var l listing
			get(t, g, key, "/v1/cache", &l)
			for i := range l.Data {
				if !l.Data[i].Stale {
					return false
				}
			}
			return len(l.Data) > 0
		})
		for _, row := range []struct {
			second fake.Behaviour
			stale  bool
		}{
			{fake.Behaviour{Status: 500}, true},
			{fake.Behaviour{Text: "Who knows?", Usage: &fake.Usage{Input: 1000, Output: 100}}, false},
		} {
			lead.Behave(fake.Behaviour{Status: 500})
			other.Behave(row.second)
			before := balanceOf(t, g, key)
			got := g.Do(t, c)
			if stale := got.Header.Get("X-Bardo-Cache") == "stale"; stale != row.stale || (got.Status == http.StatusOK) != row.stale {
				t.Errorf("stream=%v: %d, cache %q: %s", stream, got.Status, got.Header.Get("X-Bardo-Cache"), got.Body)
			}
			if paid := before - balanceOf(t, g, key); (paid == 0) != row.stale {
				t.Errorf("stream=%v: %d were paid", stream, paid)
			}
		}
	}
	g.AssertSound(t)
}

// TestOnlyListedModelsAreQuarantined: names that callers make up are not remembered. Where the provider says that it has no such model, it is
// still the first to be asked for that name.
func TestOnlyListedModelsAreQuarantined(t *testing.T) {
	t.Parallel()
	first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"})
	second := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
	dir := t.TempDir()
	g := gateway.Run(t, gateway.Options{Config: refreshingConfig(dir), Providers: []gateway.Provider{{ID: "first", Fake: first}, {ID: "second", Fake: second}}})
	a := ask{dialect: fake.OpenAI, model: "made-up"}
	for _, status := range []int{http.StatusNotFound, http.StatusGone} {
		first.Behave(fake.Behaviour{Status: status, ErrorCode: "model_not_found", Message: "The model made-up does not exist"})
		g.Do(t, a.call())
	}
	first.Behave(fake.Behaviour{})
	if got := g.Do(t, a.call()); got.Header.Get("X-Bardo-Provider") != "first" {
		t.Errorf("%d by %q: %s", got.Status, got.Header.Get("X-Bardo-Provider"), got.Body)
	}
	if told := modelEvents(t, dir, "catalog:model_quarantined"); len(told) != 0 {
		t.Errorf("told %+v", told)
	}
}
