package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// beating is a gateway whose streams get a comment after a short silence.
func beating(t *testing.T, firstToken string, providers ...gateway.Provider) *gateway.Gateway {
	t.Helper()
	return gateway.Run(t, gateway.Options{
		Config:    "limits: {rpm: 0}\nrouting: {timeouts: {connect: 10s, first_token: " + firstToken + ", idle: 5s, heartbeat: 200ms}}\n",
		Providers: providers,
	})
}

const heartbeat = ": heartbeat\n"

// checkHeartbeats: each is a line of its own at the border of two events, without a blank line after it.
func checkHeartbeats(t *testing.T, body string, least int) {
	t.Helper()
	n := strings.Count(body, heartbeat)
	if n < least {
		t.Errorf("%d heartbeats, want %d or more: %q", n, least, body)
	}
	for rest := body; ; {
		before, after, found := strings.Cut(rest, heartbeat)
		if !found {
			break
		}
		if before != "" && !strings.HasSuffix(before, "\n\n") {
			t.Fatalf("K-41: a heartbeat after %q, which is not the end of an event", before)
		}
		if strings.HasPrefix(after, "\n") {
			t.Fatal("a blank line follows a heartbeat: an empty event for some clients")
		}
		for strings.HasPrefix(after, heartbeat) {
			after = after[len(heartbeat):]
		}
		rest = after
	}
}

// TestK42ASilentProviderIsBridged: heartbeats go out before the first token, its time-out leads to the second provider, and the
// client reads one good answer.
func TestK42ASilentProviderIsBridged(t *testing.T) {
	t.Parallel()
	silences := map[string]fake.Behaviour{
		"before the headers": {Break: fake.Break{Kind: fake.Hang}},
		"after the headers":  {Break: fake.Break{Kind: fake.Hang, At: fake.AfterHeaders}},
		"after the preamble": {Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens}},
	}
	var providers []gateway.Provider
	var offered []gateway.Model
	asks := map[string]ask{}
	for name, b := range silences {
		for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
			model := fmt.Sprintf("model-%d", len(asks))
			first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: model})
			first.Behave(b)
			providers = append(providers, gateway.Provider{ID: model, Fake: first, Models: models(model, "")})
			offered = append(offered, models(model, "")...)
			asks[name+" to "+string(d)] = ask{dialect: d, model: model, stream: true}
		}
	}
	second := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := beating(t, "5s", append(providers, gateway.Provider{ID: "second", Fake: second, Format: "anthropic", Models: offered})...)
	for name, a := range asks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			res, err := g.Open(t.Context(), a.call())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			if waited := time.Since(began); res.StatusCode != http.StatusOK || waited > 4900*time.Millisecond {
				t.Errorf("status %d after %s, want it with the first heartbeat", res.StatusCode, waited)
			}
			s := newRunning(a, res)
			if got := s.finish(t); got != "Hello from the fake provider." {
				t.Errorf("it says %q", got)
			}
			checkHeartbeats(t, s.got.String(), 4)
			if rec := recordOf(t, g, gateway.Answer{Header: res.Header}); rec.Provider != "second" || rec.Status != "ok" {
				t.Errorf("record %+v", rec)
			}
		})
	}
}

// TestK41HeartbeatsFallBetweenEvents: the provider's lines come in pieces with silences between them, in which comments are
// due, on both paths and in both dialects.
func TestK41HeartbeatsFallBetweenEvents(t *testing.T) {
	t.Parallel()
	torn := fake.Behaviour{Tokens: 3, Shape: fake.Shape{Cut: 100, CutGap: 250 * time.Millisecond}}
	o := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	n := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	spare := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "spare"})
	o.Behave(torn)
	n.Behave(torn)
	g := beating(t, "10s",
		gateway.Provider{ID: "o", Fake: o, Models: append(models("backed-o", ""), models("alone-o", "")...)},
		gateway.Provider{ID: "n", Fake: n, Format: "anthropic", Models: append(models("backed-n", ""), models("alone-n", "")...)},
		gateway.Provider{ID: "spare", Fake: spare, Models: append(models("backed-o", ""), models("backed-n", "")...)},
	)
	for _, model := range []string{"backed-o", "backed-n", "alone-o", "alone-n"} {
		for _, client := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
			t.Run(model+" to "+string(client), func(t *testing.T) {
				t.Parallel()
				a := ask{dialect: client, model: model, stream: true}
				got := g.Do(t, a.call())
				if got.Status != http.StatusOK || got.Err != nil {
					t.Fatalf("%d %v %s", got.Status, got.Err, got.Body)
				}
				if s := text(t, a, got); s != words(3) {
					t.Errorf("it says %q", s)
				}
				checkHeartbeats(t, got.Body, 4)
			})
		}
	}
}
