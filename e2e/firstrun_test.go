package e2e

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

var printedKey = regexp.MustCompile(`bardo_sk_\w+`)

func TestTheFirstKeyIsPrintedOnce(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	o := gateway.Options{Config: quick, NoKey: true, Home: t.TempDir(), Providers: []gateway.Provider{{ID: "openai", Fake: p}}}
	g := gateway.Run(t, o)
	var keys []string
	eventually(t, "the key to be printed", func() bool {
		keys = printedKey.FindAllString(g.Log(), -1)
		return len(keys) > 0
	})
	if len(keys) != 1 {
		t.Fatalf("%d keys in %s", len(keys), g.Log())
	}
	c := ask{dialect: fake.OpenAI, model: "gpt-4o-mini"}.call()
	if got := g.Do(t, c); got.Status != http.StatusUnauthorized {
		t.Errorf("without it: %d", got.Status)
	}
	c.Key = keys[0]
	if got := g.Do(t, c); got.Status != http.StatusOK {
		t.Errorf("with it: %d %s", got.Status, got.Body)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	again := gateway.Run(t, o)
	if printedKey.MatchString(again.Log()) {
		t.Errorf("the second start prints a key: %s", again.Log())
	}
	if got := again.Do(t, c); got.Status != http.StatusOK {
		t.Errorf("after the restart: %d %s", got.Status, got.Body)
	}
}

// TestTheDemoIsForThisMachineAlone: without a key it answers programs on this machine, and no web page that a browser on this
// machine shows.
func TestTheDemoIsForThisMachineAlone(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{NoKey: true})
	port := g.URL[strings.LastIndexByte(g.URL, ':'):]
	for _, row := range []struct {
		name, host, origin string
		want               int
	}{
		{"a program", "127.0.0.1" + port, "", 200},
		{"by name", "localhost" + port, "", 200},
		{"a page of this machine", "localhost" + port, "http://localhost:3000", 200},
		{"a name that leads here", "evil.example", "", 401},
		{"a name that leads here, with the port", "evil.example" + port, "", 401},
		{"a name that looks like this machine", "localhost.evil.example" + port, "", 401},
		{"a foreign page", "127.0.0.1" + port, "https://evil.example", 401},
		{"a page without an origin of its own", "127.0.0.1" + port, "null", 401},
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
			body := ask{dialect: fake.Anthropic, model: "demo"}.body()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = row.host
			req.Header.Set("Content-Type", "application/json")
			if row.origin != "" {
				req.Header.Set("Origin", row.origin)
			}
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != row.want {
				t.Errorf("%s on %s: %d %s, want %d", row.name, path, res.StatusCode, b, row.want)
			}
		}
	}
}
