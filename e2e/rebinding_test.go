package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// pages are the ways in which a request without a key may come, and whether it may be that of a program on this machine.
var pages = []struct {
	about, host string
	header      []string
	ok          bool
}{
	{"a program", "127.0.0.1:1234", nil, true},
	{"by name", "localhost:1234", nil, true},
	{"without a port", "localhost", nil, true},
	{"IPv6 loopback", "[::1]:1234", nil, true},
	{"a page of this machine", "localhost:1234", []string{"Origin: http://localhost:3000"}, true},
	{"DNS rebinding", "evil.example:1234", nil, false},
	{"DNS rebinding of its own page", "evil.example", []string{"Origin: http://evil.example"}, false},
	{"a name that begins like ours", "localhost.evil.example", nil, false},
	{"a page elsewhere", "127.0.0.1:1234", []string{"Origin: https://evil.example"}, false},
	{"a page elsewhere, by address", "127.0.0.1:1234", []string{"Origin: http://203.0.113.9"}, false},
	{"an opaque origin", "127.0.0.1:1234", []string{"Origin: null"}, false},
	{"an image of a page elsewhere", "127.0.0.1:1234", []string{"Sec-Fetch-Site: cross-site"}, false},
}

// sayTo sends a request head and body to an address, as they are.
func sayTo(t *testing.T, base, request string) gateway.Answer {
	t.Helper()
	return sayRaw(t, &gateway.Gateway{URL: base}, request)
}

// TestWithoutAKeyNoPageOfSomebodyElseIsServed: where auth.anonymous is on, and on the admin listener.
func TestWithoutAKeyNoPageOfSomebodyElseIsServed(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + "auth: {anonymous: true}\n", Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
	body := ask{dialect: fake.OpenAI, model: "m"}.body()
	for _, row := range pages {
		t.Run(row.about, func(t *testing.T) {
			p.Forget()
			more := strings.Join(append(row.header, ""), "\r\n")
			head := fmt.Sprintf("Host: %s\r\n%s", row.host, more)
			for _, kind := range []string{"application/json", "text/plain"} { // a form's needs no leave of ours
				got := sayTo(t, g.URL, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\n%sContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", head, kind, len(body), body))
				if row.ok && got.Status != http.StatusOK || !row.ok && got.Status != http.StatusUnauthorized {
					t.Errorf("a completion as %s: %d %s", kind, got.Status, got.Body)
				}
				if !row.ok && !strings.Contains(got.Body, "without an API key") {
					t.Errorf("it says %s", got.Body)
				}
			}
			if n := len(p.Generations()); (n == 0) == row.ok {
				t.Errorf("%d requests reached the provider", n)
			}
			if got := sayTo(t, g.URL, "GET /v1/models HTTP/1.1\r\n"+head+"\r\n"); (got.Status == http.StatusOK) != row.ok {
				t.Errorf("the models: %d %s", got.Status, got.Body)
			}
			for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/readyz?verbose"} {
				got := sayTo(t, g.Admin, "GET "+path+" HTTP/1.1\r\nConnection: close\r\n"+head+"\r\n")
				if row.ok && got.Status != http.StatusOK || !row.ok && got.Status != http.StatusForbidden {
					t.Errorf("%s: %d %.200s", path, got.Status, got.Body)
				}
			}
			if got := sayTo(t, g.Admin, "GET /healthz HTTP/1.1\r\n"+head+"\r\n"); got.Status != http.StatusOK {
				t.Errorf("health: %d", got.Status)
			}
		})
	}
	t.Run("by address", func(t *testing.T) { // scrapers of other machines; no DNS leads there
		if got := sayTo(t, g.Admin, "GET /metrics HTTP/1.1\r\nHost: 192.0.2.7:9090\r\n\r\n"); got.Status != http.StatusOK {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	})
}

// TestWithoutAKeyConfiguredHostsAreServed: IPv6 listeners, and the host of listen.public_url.
func TestWithoutAKeyConfiguredHostsAreServed(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "[::1]:0")
	at := "127.0.0.1:0" // where the machine has no IPv6
	if err == nil {
		at = "[::1]:0"
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{
		Config: fmt.Sprintf("listen: {http: %q, https: off, admin: %q, public_url: \"https://llm.example\"}\nlimits: {rpm: 0}\nauth: {anonymous: true}\n", at, at), NoKey: true,
		Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}},
	})
	for host, ok := range map[string]bool{"llm.example": true, "[::1]:1": true, "127.0.0.1": true, "x.llm.example": false, "192.0.2.7": false} {
		got := sayTo(t, g.URL, "GET /v1/models HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		if (got.Status == http.StatusOK) != ok {
			t.Errorf("%s: %d %s", host, got.Status, got.Body)
		}
	}
	if got := sayTo(t, g.Admin, "GET /metrics HTTP/1.1\r\nHost: llm.example:9090\r\n\r\n"); got.Status != http.StatusOK {
		t.Errorf("metrics by the public name: %d", got.Status)
	}
}
