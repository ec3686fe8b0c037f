package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// byteGateway has one provider of each dialect, and a model that both have.
func byteGateway(t *testing.T) (g *gateway.Gateway, o, n *fake.Server) {
	t.Helper()
	o = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Allow: []string{"x_new"}})
	n = fake.Start(t, fake.Config{Dialect: fake.Anthropic, Allow: []string{"x_new"}})
	g = gateway.Run(t, gateway.Options{Config: patient, Providers: []gateway.Provider{
		{ID: "oo", Fake: o, Models: append(models("gpt-x", "gpt-x"), append(models("gpt-short", "the-long-upstream-name"), models("both", "")...)...)},
		{ID: "aa", Fake: n, Format: "anthropic", Models: append(models("claude-x", "claude-x"), models("both", "")...)},
	}})
	return g, o, n
}

func lastOf(t *testing.T, s *fake.Server) fake.Request {
	t.Helper()
	r, ok := s.Last()
	if !ok {
		t.Fatal("no request reached the provider")
	}
	return r
}

func TestK25UpstreamBodies(t *testing.T) {
	t.Parallel()
	g, o, n := byteGateway(t)
	// Odd spacing, odd key order, big numbers, escapes, an unknown member: all of it must survive.
	odd := `{ "x_new" : {"b":1,"a":[1e400,12345678901234567890]},"temperature":0.30,  "model":"%s", "max_tokens":7,` +
		`"messages":[{"content":"caf\u00e9 <b> \/ é","role":"user"}] }`
	t.Run("the same dialect passes byte by byte", func(t *testing.T) {
		for model, p := range map[string]*fake.Server{"gpt-x": o, "claude-x": n} {
			body := fmt.Sprintf(odd, model)
			got := g.Chat(t, body)
			if model == "claude-x" {
				got = g.Messages(t, body)
			}
			if got.Status != http.StatusOK {
				t.Fatalf("%s: %d %s", model, got.Status, got.Body)
			}
			if r := lastOf(t, p); string(r.Body) != body {
				t.Errorf("%s: the provider got\n%s\nwant\n%s", model, r.Body, body)
			}
		}
	})
	t.Run("only the model's name changes", func(t *testing.T) {
		if got := g.Chat(t, fmt.Sprintf(odd, "gpt-short")); got.Status != http.StatusOK || !strings.Contains(got.Body, `"gpt-short"`) {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		if r := lastOf(t, o); string(r.Body) != fmt.Sprintf(odd, "the-long-upstream-name") {
			t.Errorf("the provider got %s", r.Body)
		}
	})
	t.Run("the other dialect writes the same bytes 100 times", func(t *testing.T) {
		body := `{"model":"claude-x","tools":[{"type":"function","function":{"name":"b","parameters":{"type":"object","properties":{"z":{},"a":{}}}}},` +
			`{"type":"function","function":{"name":"a","parameters":{"type":"object"}}}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}`
		seen := map[string]bool{}
		for range 100 {
			if got := g.Chat(t, body); got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			seen[string(lastOf(t, n).Body)] = true
		}
		if len(seen) != 1 {
			t.Errorf("%d different bodies", len(seen))
		}
	})
	t.Run("the same dialect answers byte by byte", func(t *testing.T) {
		raw := `{"id":"x",  "object":"chat.completion","created":1,"model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"\u00e9"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2},"new":[1e400]}`
		o.Queue(fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: application/json"}, Body: raw}})
		if got := g.Chat(t, ask{dialect: fake.OpenAI, model: "gpt-x"}.body()); got.Body != raw {
			t.Errorf("got %s", got.Body)
		}
	})
}

func TestK28TheUsageChunkIsHiddenAndMetered(t *testing.T) {
	t.Parallel()
	g, o, _ := byteGateway(t)
	o.Behave(fake.Behaviour{Tokens: 3, Usage: &fake.Usage{Input: 1000, Cached: 200, Output: 34}})
	a := ask{dialect: fake.OpenAI, model: "gpt-x", stream: true}
	got := g.Do(t, a.call())
	text(t, a, got)
	if !strings.Contains(string(lastOf(t, o).Body), `"include_usage":true`) {
		t.Errorf("the provider was not asked for usage: %s", lastOf(t, o).Body)
	}
	if strings.Contains(got.Body, `"prompt_tokens"`) || strings.Contains(got.Body, `"choices":[]`) {
		t.Errorf("the client sees the usage chunk: %s", got.Body)
	}
	if rec := recordOf(t, g, got); rec.InputTokens != 1200 || rec.OutputTokens != 34 {
		t.Errorf("record %+v", rec)
	}
	a.more = `"stream_options":{"include_usage":true}`
	if got = g.Do(t, a.call()); strings.Count(got.Body, `"prompt_tokens":1200`) != 1 {
		t.Errorf("a client that asked does not see it once: %s", got.Body)
	}
}

func TestK50Sizes(t *testing.T) {
	t.Parallel()
	g, o, n := byteGateway(t)
	for model, p := range map[string]*fake.Server{"gpt-x": o, "claude-x": n, "both": o} {
		for _, size := range []int{32_769, 1 << 20, 10 << 20} {
			t.Run(fmt.Sprintf("%s request of %d bytes", model, size), func(t *testing.T) {
				a := ask{dialect: fake.OpenAI, model: model, say: strings.Repeat("x", size), stream: model == "both"}
				if got := g.Do(t, a.call()); got.Status != http.StatusOK {
					t.Fatalf("%d %.300s", got.Status, got.Body)
				}
				if r := lastOf(t, p); len(r.Body) < size {
					t.Errorf("%d bytes reached the provider", len(r.Body))
				}
			})
		}
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s answer of 5 MiB, stream=%v", model, stream), func(t *testing.T) {
				p.Queue(fake.Behaviour{Tokens: 80, TokenSize: 64 << 10})
				a := ask{dialect: fake.OpenAI, model: model, stream: stream}
				got := g.Do(t, a.call())
				if s := text(t, a, got); len(s) != 80*64<<10 {
					t.Errorf("%d bytes of text", len(s))
				}
			})
		}
	}
	t.Run("a request over the limit", func(t *testing.T) {
		a := ask{dialect: fake.OpenAI, model: "gpt-x", say: strings.Repeat("x", 33<<20)}
		mustFail(t, a, g.Do(t, a.call()), http.StatusRequestEntityTooLarge, "request_too_large")
	})
}

func TestK49CompressedErrors(t *testing.T) {
	t.Parallel()
	g, o, n := byteGateway(t)
	for model, p := range map[string]*fake.Server{"gpt-x": o, "claude-x": n, "both": o} {
		for _, enc := range []string{"gzip", "br"} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s stream=%v", model, enc, stream), func(t *testing.T) {
					p.Queue(fake.Behaviour{Status: 400, Encoding: enc, Message: "the moon is in the wrong house"})
					a := ask{dialect: fake.OpenAI, model: model, stream: stream}
					got := g.Do(t, a.call())
					if ce := got.Header.Get("Content-Encoding"); ce != "" {
						t.Errorf("content-encoding %q", ce)
					}
					mustFail(t, a, got, http.StatusBadRequest, "invalid_request")
					if cl := got.Header.Get("Content-Length"); cl != "" && cl != strconv.Itoa(len(got.Body)) {
						t.Errorf("content-length %s of %d bytes", cl, len(got.Body))
					}
					if strings.ContainsFunc(got.Body, func(r rune) bool { return r == '\uFFFD' || r < ' ' }) || strings.Contains(got.Body, `\u00`) {
						t.Errorf("compressed bytes for words: %q", got.Body)
					}
					if ae := lastOf(t, p).Header.Get("Accept-Encoding"); ae != "identity" {
						t.Errorf("accept-encoding %q upstream", ae)
					}
				})
			}
		}
	}
}
