package e2e

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// wrongKey is a key that no fake accepts.
const wrongKey = "wrong.3kd92mQz0Lw27xPq"

// diagnosis is the row of `bardo doctor --json` of one check, and the command's exit status.
type diagnosis struct {
	Check, Detail, Fix string
	OK                 bool
}

func diagnose(t testing.TB, g *gateway.Gateway, check string) (d diagnosis, code int) {
	t.Helper()
	got := g.Try(t, "doctor", "--json")
	var rows []diagnosis
	if err := json.Unmarshal([]byte(got.Stdout), &rows); err != nil {
		t.Fatalf("doctor printed %q: %v", got.Stdout, err)
	}
	for _, r := range rows {
		if r.Check == check {
			return r, got.Code
		}
	}
	t.Fatalf("doctor says nothing of %s: %s", check, got.Stdout)
	return d, 0
}

// showsRefusal checks all the places where an operator looks.
func showsRefusal(t *testing.T, g *gateway.Gateway, provider, words string) {
	t.Helper()
	s := standings(t, g)[provider]
	if s.State != "credential_refused" || !strings.Contains(s.Reason, words) {
		t.Errorf("bardo providers shows %+v, want credential_refused and %q", s, words)
	}
	d, code := diagnose(t, g, "provider "+provider)
	if d.OK || code != 1 || !strings.Contains(d.Detail, words) || !strings.Contains(d.Fix, "api_key") {
		t.Errorf("bardo doctor ends with %d and shows %+v", code, d)
	}
	if n := strings.Count(g.Log(), "refuses the gateway's credential"); n != 1 {
		t.Errorf("the log says so %d times:\n%s", n, g.Log())
	}
	hides(t, "bardo providers", s.Reason+d.Detail+d.Fix, wrongKey)
	hides(t, "the log", g.Log(), wrongKey)
}

// TestC2AWrongProviderKeyShowsWithItsFirstRequest on every path, by status and code and without the key and the provider's sentence, which may quote it, and ends with a right key.
func TestC2AWrongProviderKeyShowsWithItsFirstRequest(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		for _, stream := range []bool{false, true} {
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Keys: []string{wrongKey}})
			p.Behave(fake.Behaviour{Status: status, Message: "the key " + wrongKey + " is not known here"})
			o := gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Key: wrongKey, Models: models("m", "")}}}
			g := gateway.Run(t, o)
			for range 5 {
				if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: stream}.call()); got.Status != http.StatusBadGateway {
					t.Fatalf("%d %s", got.Status, got.Body)
				}
			}
			showsRefusal(t, g, "p", strconv.Itoa(status)+": ")
			if list := g.Do(t, gateway.Call{Path: "/v1/models"}).Body; strings.Contains(list, "credential") {
				t.Errorf("clients are told: %s", list)
			}
			o.Providers[0].Key = p.Key
			p.Behave(fake.Behaviour{})
			reload(t, g, o)
			eventually(t, "a provider that is not refused any more", func() bool { return standings(t, g)["p"].State != "credential_refused" })
			if d, _ := diagnose(t, g, "provider p"); !d.OK {
				t.Errorf("after the key was corrected: %+v", d)
			}
		}
	}
}

// TestC2AWrongProviderKeyShowsBehindAFailover although Envoy tells nothing but the status of the attempt that it went on from.
func TestC2AWrongProviderKeyShowsBehindAFailover(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first", Keys: []string{wrongKey}}) // its pings are answered
		first.Behave(fake.Behaviour{Status: http.StatusUnauthorized, Message: "who are you"})
		second := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
		g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
			{ID: "first", Fake: first, Key: wrongKey, Models: models("m", "")}, {ID: "second", Fake: second, Models: models("m", "")},
		}})
		for range 5 {
			if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: stream}.call()); got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
		}
		showsRefusal(t, g, "first", "401")
		if s := standings(t, g); s["first"].Order != 2 || s["second"].Order != 1 {
			t.Errorf("a provider that refuses the key is not the last: %+v", s)
		}
		if n := len(first.Generations()); n != 1 {
			t.Errorf("%d requests went to it", n)
		}
	}
}

// TestC2AWrongProviderKeyShowsByItsPing, before anybody asks for anything; and a ping ends it.
func TestC2AWrongProviderKeyShowsByItsPing(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	o := gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Key: wrongKey, Models: models("m", "")}}}
	g := gateway.Run(t, o)
	eventually(t, "a refusal that nobody's request met", func() bool { return standings(t, g)["p"].State == "credential_refused" })
	showsRefusal(t, g, "p", "401: ")
	o.Providers[0].Key = p.Key
	reload(t, g, o)
	eventually(t, "health by a ping with the new key", func() bool { return standings(t, g)["p"].State == "healthy" })
}

// TestC2OneGoodKeyOfSeveralIsEnough: a provider is refused only with all of its keys.
func TestC2OneGoodKeyOfSeveralIsEnough(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Key: wrongKey, More: "api_keys: [" + p.Key + "]", Models: models("m", "")},
	}})
	eventually(t, "a ping with the good key", func() bool { return standings(t, g)["p"].State == "healthy" })
	for range 4 {
		if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()); got.Status != http.StatusOK {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	if s := standings(t, g)["p"]; s.State != "healthy" {
		t.Errorf("%+v", s)
	}
}

// TestC2AFlaggedPromptIsNoWrongKey: otherwise any caller could put a provider out of favour.
func TestC2AFlaggedPromptIsNoWrongKey(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Status: http.StatusForbidden, Message: "m requires moderation on OpenInference. Your input was flagged for \"violence\""})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
	for _, stream := range []bool{false, true} {
		g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: stream}.call())
	}
	if s := standings(t, g)["p"]; s.State == "credential_refused" || s.State == "down" {
		t.Errorf("%+v", s)
	}
}

// TestANameWithoutAnAddressIsSaid, not that a connection was refused: Envoy connects to a port where nobody listens instead.
func TestANameWithoutAnAddressIsSaid(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "lost", BaseURL: "http://nosuch.invalid/v1", Models: models("m", "")}}})
	eventually(t, "a ping of a name without an address", func() bool { return standings(t, g)["lost"].State == "down" })
	const want = "no connection: its name has no address"
	if why := standings(t, g)["lost"].Reason; why != want {
		t.Errorf("it is down for the reason %q, want %q", why, want)
	}
	if d, _ := diagnose(t, g, "provider lost"); !strings.Contains(d.Detail, want) {
		t.Errorf("bardo doctor says %q, want %q", d.Detail, want)
	}
}

// TestC2ADeadPortIsDownAfterItsFirstConnects of pings, and of requests.
func TestC2ADeadPortIsDownAfterItsFirstConnects(t *testing.T) {
	t.Parallel()
	alive := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	whole, streams := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "whole"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "streams"})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "dead", BaseURL: "http://" + deadAddress + "/v1", Models: models("any", "")},
		{ID: "whole", Fake: whole, Models: models("w", "")},
		{ID: "streams", Fake: streams, Models: models("s", "")},
		{ID: "alive", Fake: alive, Models: append(append(models("any", ""), models("w", "")...), models("s", "")...)},
	}})
	isDown := func(provider string) func() bool {
		return func() bool {
			d, code := diagnose(t, g, "provider "+provider)
			return standings(t, g)[provider].State == "down" && !d.OK && code == 1
		}
	}
	eventually(t, "pings that find nobody there", isDown("dead"))
	if s := standings(t, g); s["dead"].Order != 4 || s["whole"].State != "healthy" || s["streams"].State != "healthy" || s["alive"].State != "healthy" {
		t.Errorf("%+v", s)
	}
	if why := standings(t, g)["dead"].Reason; why != "no connection: connection refused" {
		t.Errorf("it is down for the reason %q", why)
	}
	whole.Stop()
	streams.Stop()
	for _, a := range []ask{{dialect: fake.OpenAI, model: "w"}, {dialect: fake.OpenAI, model: "s", stream: true}} {
		if got := g.Do(t, a.call()); got.Status != http.StatusOK {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	eventually(t, "a whole answer from nobody", isDown("whole"))
	eventually(t, "a stream from nobody", isDown("streams"))
}
