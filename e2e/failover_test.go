package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// pairing is who speaks what: the client, the provider that fails, and the one that helps.
type pairing struct {
	name                  string
	client, first, second fake.Dialect
}

var pairings = []pairing{
	{"same dialect", fake.OpenAI, fake.OpenAI, fake.OpenAI},
	{"to the other dialect", fake.OpenAI, fake.OpenAI, fake.Anthropic},
	{"back to the client's dialect", fake.Anthropic, fake.OpenAI, fake.Anthropic},
	{"same dialect, Anthropic", fake.Anthropic, fake.Anthropic, fake.Anthropic},
	{"same dialect, Gemini", fake.Gemini, fake.Gemini, fake.Gemini},
	{"from Gemini to another", fake.OpenAI, fake.Gemini, fake.Anthropic},
}

// failures are the ways in which a provider fails before its first content. Streams can fail in more ways: there the
// status is out, but nothing has been said.
var failures = []struct {
	name       string
	b          fake.Behaviour
	refused    bool // nothing listens
	streamOnly bool
	wholeOnly  bool
}{
	{name: "connection refused", refused: true},
	{name: "reset before the headers", b: fake.Behaviour{Break: fake.Break{Kind: fake.Reset}}},
	{name: "closed before the headers", b: fake.Behaviour{Break: fake.Break{Kind: fake.Close}}},
	{name: "silence before the headers", b: fake.Behaviour{Break: fake.Break{Kind: fake.Hang}}},
	{name: "401", b: fake.Behaviour{Status: 401}},
	{name: "403", b: fake.Behaviour{Status: 403}},
	{name: "408", b: fake.Behaviour{Status: 408}},
	{name: "429", b: fake.Behaviour{Status: 429, RetryAfter: "1"}},
	{name: "500", b: fake.Behaviour{Status: 500}},
	{name: "502 in HTML", b: fake.Behaviour{Raw: &fake.Raw{Status: 502, Header: []string{"content-type: text/html"}, Body: "<html>Bad Gateway</html>"}}},
	{name: "503 in gzip", b: fake.Behaviour{Status: 503, Encoding: "gzip"}},
	{name: "529", b: fake.Behaviour{Status: 529}},
	{name: "dead after the headers", b: fake.Behaviour{Break: fake.Break{Kind: fake.Reset, At: fake.AfterHeaders}}, wholeOnly: true},
	{name: "dead in the middle of the body", b: fake.Behaviour{Tokens: 50, Break: fake.Break{Kind: fake.Close, At: fake.AfterTokens}}, wholeOnly: true},
	{name: "reset in the middle of the body", b: fake.Behaviour{Tokens: 50, Break: fake.Break{Kind: fake.Reset, At: fake.AfterTokens}}, wholeOnly: true},
	{name: "silence in the middle of the body", b: fake.Behaviour{Tokens: 50, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens}}, wholeOnly: true},
	{name: "an error as the body of a 200", b: fake.Behaviour{Break: fake.Break{Kind: fake.ErrorEvent, At: fake.AfterHeaders}}, wholeOnly: true},
	{name: "an error in JSON for a stream", b: fake.Behaviour{Raw: &fake.Raw{
		Status: 200, Header: []string{"content-type: application/json"}, Body: `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`,
	}}, streamOnly: true},
	{name: "an empty body", b: fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: application/json"}}}},
	{name: "a web page as the body of a 200", b: fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: text/html"}, Body: "<html>Sorry</html>"}}, wholeOnly: true},
	{name: "an answer without a body", b: fake.Behaviour{Raw: &fake.Raw{Status: 204, Header: []string{"content-type: text/event-stream"}}}},
	{name: "half of an answer with its length", b: fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: application/json"}, Body: `{"choices":[{"index":0,`}}, wholeOnly: true},
	{name: "text in the place of JSON", b: fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: text/plain"}, Body: "busy, please wait"}}, wholeOnly: true},
	{name: "JSON that is no answer", b: fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: application/json"}, Body: `["busy"]`}}, wholeOnly: true},
	{name: "an answer that is compressed unasked", b: fake.Behaviour{Encoding: "gzip"}, wholeOnly: true},
	{name: "K-45 429 while opening a stream", b: fake.Behaviour{Status: 429}, streamOnly: true},
	{name: "K-44 an error event first", b: fake.Behaviour{Break: fake.Break{Kind: fake.ErrorEvent, At: fake.AfterHeaders}}, streamOnly: true},
	{name: "an error event after the preamble", b: fake.Behaviour{Break: fake.Break{Kind: fake.ErrorEvent, At: fake.AfterTokens}}, streamOnly: true},
	{name: "reset after the headers", b: fake.Behaviour{Break: fake.Break{Kind: fake.Reset, At: fake.AfterHeaders}}, streamOnly: true},
	{name: "closed after the preamble", b: fake.Behaviour{Break: fake.Break{Kind: fake.Close, At: fake.AfterTokens}}, streamOnly: true},
	{name: "K-42 silence after the headers", b: fake.Behaviour{Break: fake.Break{Kind: fake.Hang, At: fake.AfterHeaders}}, streamOnly: true},
	{name: "silence after the preamble", b: fake.Behaviour{Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens}}, streamOnly: true},
	{name: "K-48 an error without a code as the first chunk", b: fake.Behaviour{Raw: &fake.Raw{
		Status: 200, Header: []string{"content-type: text/event-stream"}, Body: "data: {\"error\":{\"message\":\"boom\"}}\n\n",
	}}, streamOnly: true},
}

// row is one case of the matrix with its own two providers, so that no case disturbs another's health.
type row struct {
	ask           ask
	refused       bool
	first, second *fake.Server
}

func TestD15FailsOverBeforeTheFirstContent(t *testing.T) {
	t.Parallel()
	rows, names, o := map[string]row{}, []string{}, gateway.Options{Config: hasty}
	for _, p := range pairings {
		for _, f := range failures {
			for _, stream := range []bool{false, true} {
				if f.streamOnly && !stream || f.wholeOnly && stream {
					continue
				}
				n := len(names)
				r := row{ask: ask{dialect: p.client, model: fmt.Sprintf("model-%d", n), stream: stream}, refused: f.refused}
				r.first = fake.Start(t, fake.Config{Dialect: p.first, Name: fmt.Sprintf("first-%d", n)})
				r.second = fake.Start(t, fake.Config{Dialect: p.second, Name: fmt.Sprintf("second-%d", n)})
				r.first.Behave(f.b)
				r.second.Behave(fake.Behaviour{Text: "the second one answers"})
				first := gateway.Provider{ID: fmt.Sprintf("first-%d", n), Fake: r.first, Format: string(p.first), Models: models(r.ask.model, "upstream-first")}
				second := gateway.Provider{ID: fmt.Sprintf("second-%d", n), Fake: r.second, Format: string(p.second), Models: models(r.ask.model, "upstream-second")}
				o.Providers = append(o.Providers, first, second)
				name := fmt.Sprintf("%s/%s/stream=%v", p.name, f.name, stream)
				rows[name], names = r, append(names, name)
			}
		}
	}
	g := gateway.Run(t, o)
	t.Run("matrix", func(t *testing.T) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rows[name].check(t, g)
			})
		}
	})
}

func (r row) check(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	if r.refused {
		r.first.Stop() // not before: one that never listened is known to be down
	}
	got := g.Do(t, r.ask.call())
	if got.Status != http.StatusOK {
		t.Fatalf("status %d: %s", got.Status, got.Body)
	}
	if s := text(t, r.ask, got); s != "the second one answers" {
		t.Errorf("the answer says %q", s)
	}
	second, _ := r.second.Last()
	name := got.Header.Get("X-Bardo-Provider")
	if !strings.HasPrefix(name, "second-") || got.Header.Get("X-Bardo-Model") != r.ask.model {
		t.Errorf("answered by %s, model %s", name, got.Header.Get("X-Bardo-Model"))
	}
	saysWhy(t, attemptLog(t, g, got))
	if n := got.Header.Get("X-Bardo-Attempts"); n == "" || n == "0" || n == "1" {
		t.Errorf("X-Bardo-Attempts: %q", n)
	}
	r.checkIsolation(t, second, g.Key)
	if rec := recordOf(t, g, got); rec.Provider != name || rec.Attempts < 2 || rec.Status != "ok" || rec.OutputTokens == 0 {
		t.Errorf("record %+v", rec)
	}
}

// checkIsolation: neither provider sees the other's credential or model name, nor the client's key.
func (r row) checkIsolation(t *testing.T, second fake.Request, key string) {
	t.Helper()
	if second.Model != "upstream-second" {
		t.Errorf("K-58: the second provider was asked for %q", second.Model)
	}
	for _, secret := range []string{r.first.Key, "upstream-first", key} {
		if r.second.Saw(secret) {
			t.Errorf("K-58: the second provider saw %q", secret)
		}
	}
	for _, secret := range []string{r.second.Key, "upstream-second", key} {
		if r.first.Saw(secret) {
			t.Errorf("K-58: the first provider saw %q", secret)
		}
	}
	if n := len(r.first.Generations()); !r.refused && (n < 1 || n > 2) {
		t.Errorf("the first provider was asked %d times", n)
	}
	if n := len(r.second.Generations()); n != 1 {
		t.Errorf("the second provider was asked %d times", n)
	}
}

// deadAddress is an address that nothing listens on, and that no other server of the test run is given.
const deadAddress = "127.0.0.1:1"

func TestK56TheCallersOwnMistakesAreNotRetried(t *testing.T) {
	t.Parallel()
	first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"})
	second := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
	statuses := []int{400, 404, 413, 422}
	offered := models("m", "")
	for _, status := range statuses { // each its own: a provider that says that it lacks a model is asked for it last
		offered = append(offered, gateway.Model{ID: fmt.Sprintf("m-%d-true", status)}, gateway.Model{ID: fmt.Sprintf("m-%d-false", status)})
	}
	g := gateway.Run(t, gateway.Options{Config: hasty, Providers: []gateway.Provider{
		{ID: "first", Fake: first, Models: offered}, {ID: "second", Fake: second, Models: offered},
	}})
	for _, status := range statuses {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d stream=%v", status, stream), func(t *testing.T) {
				first.Reset()
				second.Reset()
				first.Behave(fake.Behaviour{Status: status, Message: "your fault alone"})
				a := ask{dialect: fake.OpenAI, model: fmt.Sprintf("m-%d-%v", status, stream), stream: stream}
				got := g.Do(t, a.call())
				if got.Status != status || !strings.HasPrefix(got.Header.Get("Content-Type"), "application/json") {
					t.Errorf("got %d %s, want %d", got.Status, got.Body, status)
				}
				if n := len(first.Generations()) + len(second.Generations()); n != 1 {
					t.Errorf("%d calls", n)
				}
			})
		}
	}
	t.Run("said in a 200", func(t *testing.T) {
		first.Reset()
		second.Reset()
		first.Behave(fake.Behaviour{Raw: &fake.Raw{
			Status: 200, Header: []string{"content-type: application/json"},
			Body: `{"error":{"message":"your fault alone","type":"invalid_request_error","code":"context_length_exceeded"}}`,
		}})
		for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
			a := ask{dialect: d, model: "m"}
			got := g.Do(t, a.call())
			mustFail(t, a, got, http.StatusBadRequest, "context_length_exceeded")
			if !strings.Contains(got.Body, "your fault alone") {
				t.Errorf("the reason is lost: %s", got.Body)
			}
		}
		if n := len(second.Generations()); n != 0 {
			t.Errorf("the second provider was asked %d times", n)
		}
	})
}

func TestASingleProviderIsTriedTwice(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: hasty, Providers: []gateway.Provider{{ID: "only", Fake: p, Models: models("m", "")}}})
	for _, stream := range []bool{false, true} {
		p.Forget()
		p.Queue(fake.Behaviour{Status: 503})
		a := ask{dialect: fake.OpenAI, model: "m", stream: stream}
		if got := g.Do(t, a.call()); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Attempts") != "2" {
			t.Errorf("stream=%v: %d after %q attempts: %s", stream, got.Status, got.Header.Get("X-Bardo-Attempts"), got.Body)
		}
		if n := len(p.Generations()); n != 2 {
			t.Errorf("stream=%v: %d calls", stream, n)
		}
	}
}
