package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

const (
	listedOrigin = "https://app.example"
	foreign      = "https://evil.example"
)

// crossing is a configuration that lets the pages of one origin in.
func crossing() string {
	return strings.Replace(quick, "{rpm: 0}", "{rpm: 0, tokens_per_hour: 1000000}", 1) + fmt.Sprintf("listen: {http: 127.0.0.1:0, https: 127.0.0.1:0, admin: 127.0.0.1:0, cors_origins: [%q]}\n", listedOrigin)
}

// TestC6PagesOfAListedOriginReadEveryAnswer: whole ones, streams, errors of the gateway, of Envoy and of the provider; others read none.
func TestC6PagesOfAListedOriginReadEveryAnswer(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.BehaveFor("refused", fake.Behaviour{Status: 400})
	g := gateway.Run(t, gateway.Options{Config: crossing(), Providers: []gateway.Provider{{ID: "p", Fake: p}}})
	key := g.CreateKey(t, "--name", "limited", "--rpm", "1000").Key
	for name, c := range map[string]gateway.Call{
		"a whole answer":           ask{dialect: fake.OpenAI, model: "m"}.call(),
		"a stream":                 ask{dialect: fake.Anthropic, model: "m", stream: true}.call(),
		"an answer of ours":        {Path: "/v1/models"},
		"an error of the provider": ask{dialect: fake.OpenAI, model: "refused"}.call(),
		"an error of ours":         {Path: "/v1/chat/completions", Body: "{"},
		"no key":                   {Path: "/v1/models", NoKey: true},
		"no such path":             {Path: "/v1/nothing"},
		"an error of Envoy's":      {Path: "/v1/models%00"},
	} {
		if !c.NoKey {
			c.Key = key
		}
		without := c.Header
		for _, from := range []string{listedOrigin, foreign, ""} {
			c.Header = without
			if from != "" {
				c.Header = append([]string{"Origin: " + from}, without...)
			}
			got := g.Do(t, c)
			allow, vary := got.Header.Get("Access-Control-Allow-Origin"), got.Header.Get("Vary")
			if from != listedOrigin {
				if allow != "" {
					t.Errorf("%s: a page of %q may read it: %s", name, from, allow)
				}
				continue
			}
			if allow != listedOrigin || !strings.Contains(vary, "Origin") {
				t.Errorf("%s: %d, Access-Control-Allow-Origin %q, Vary %q", name, got.Status, allow, vary)
			}
			if got.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s: cookies are allowed", name)
			}
			exposed := strings.ToLower(got.Header.Get("Access-Control-Expose-Headers"))
			for h := range got.Header {
				h = strings.ToLower(h)
				if (strings.HasPrefix(h, "x-bardo-") || strings.HasPrefix(h, "x-ratelimit-") || h == "x-request-id" || h == "x-remaining-tokens") && !strings.Contains(exposed, h) {
					t.Errorf("%s: a page cannot read %s: %q", name, h, exposed)
				}
			}
		}
	}
}

// TestC6APreflightIsAnswered without a key and without a call of a provider.
func TestC6APreflightIsAnswered(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: crossing(), Providers: []gateway.Provider{{ID: "p", Fake: p}}})
	options := func(path string, header ...string) gateway.Answer {
		return g.Do(t, gateway.Call{Method: http.MethodOptions, Path: path, NoKey: true, Header: header})
	}
	const names = "authorization, content-type, x-stainless-retry-count, anthropic-version"
	wish := []string{"Origin: " + listedOrigin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: " + names}
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1beta/models/m:generateContent", "/v1/files"} {
		got := options(path, wish...)
		if got.Status != http.StatusNoContent || got.Body != "" {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin": listedOrigin, "Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": names,
			"Access-Control-Max-Age": "7200", "Vary": "Origin",
		} {
			if v := got.Header.Get(name); !strings.Contains(v, want) {
				t.Errorf("%s: %s is %q, want %q", path, name, v, want)
			}
		}
		if v := got.Header.Get("Vary"); !strings.Contains(v, "Access-Control-Request-Headers") {
			t.Errorf("%s: Vary: %s", path, v)
		}
	}
	if got := options("/v1/chat/completions", append([]string{"Access-Control-Request-Private-Network: true"}, wish...)...); got.Header.Get("Access-Control-Allow-Private-Network") != "true" {
		t.Errorf("a private network: %v", got.Header)
	}
	if got := options("/v1/chat/completions", "Origin: "+foreign, wish[1]); got.Status != http.StatusForbidden || !strings.Contains(got.Body, "listen.cors_origins") ||
		got.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a page that is not listed: %d %v %s", got.Status, got.Header, got.Body)
	}
	for path, want := range map[string]string{"/v1/chat/completions": "POST, OPTIONS", "/v1/models": "GET, HEAD, OPTIONS"} {
		if got := options(path); got.Status != http.StatusNoContent || got.Header.Get("Allow") != want {
			t.Errorf("a program that asks for the methods of %s: %d, Allow %q", path, got.Status, got.Header.Get("Allow"))
		}
	}
	if got := options("/v1/nothing", wish...); got.Status != http.StatusNotFound || got.Header.Get("Access-Control-Allow-Origin") != listedOrigin {
		t.Errorf("a path that there is not: %d %v", got.Status, got.Header)
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
}

// TestC6WithoutAListNoPageReadsAnything, as before.
func TestC6WithoutAListNoPageReadsAnything(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p}}})
	if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call("Origin: "+listedOrigin)); got.Status != http.StatusOK || got.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", got.Status, got.Header)
	}
	got := g.Do(t, gateway.Call{Method: http.MethodOptions, Path: "/v1/models", NoKey: true, Header: []string{"Origin: " + listedOrigin, "Access-Control-Request-Method: GET"}})
	if got.Status != http.StatusForbidden || !strings.Contains(got.Body, "listen.cors_origins") {
		t.Errorf("a preflight: %d %s", got.Status, got.Body)
	}
}

// TestC6AListedOriginNeedsNoKeyWhereProgramsNeedNone, under the names of this machine alone; and * lets nobody in so.
func TestC6AListedOriginNeedsNoKeyWhereProgramsNeedNone(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	anonymous := gateway.Run(t, gateway.Options{Config: crossing() + "auth: {anonymous: true}\n", Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
	demo := gateway.Run(t, gateway.Options{Config: crossing()})
	anyone := gateway.Run(t, gateway.Options{Config: strings.Replace(crossing(), listedOrigin, "*", 1)})
	for _, row := range []struct {
		about, host, from string
		g                 *gateway.Gateway
		model             string
		ok                bool
	}{
		{"anonymous, listed", "localhost", listedOrigin, anonymous, "m", true},
		{"anonymous, not listed", "localhost", foreign, anonymous, "m", false},
		{"anonymous, rebinding", "app.example", listedOrigin, anonymous, "m", false},
		{"demo, listed", "localhost", listedOrigin, demo, "demo", true},
		{"demo, not listed", "localhost", foreign, demo, "demo", false},
		{"demo, every origin", "localhost", foreign, anyone, "demo", false},
	} {
		body := ask{dialect: fake.OpenAI, model: row.model}.body()
		got := sayTo(t, row.g.URL, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nSec-Fetch-Site: cross-site\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", row.host, row.from, len(body), body))
		if row.ok != (got.Status == http.StatusOK) || !row.ok && got.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", row.about, got.Status, got.Body)
		}
	}
	if got := anyone.Do(t, gateway.Call{Path: "/v1/models", Header: []string{"Origin: " + foreign}}); got.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("with a key, every origin: %v", got.Header)
	}
}
