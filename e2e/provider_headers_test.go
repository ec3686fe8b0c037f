package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// providersHeaders are what providers, and what stands before them, say about their own accounts, limits, payments and hosts; and forged
// ones of the gateway's own.
var providersHeaders = []string{
	"Set-Cookie: __cf_bm=secret; Secure", "Set-Cookie: second=secret", "Openai-Organization: secret-org", "Openai-Project: secret-project",
	"Openai-Processing-Ms: 12", "Anthropic-Organization-Id: secret-org", "X-Ratelimit-Limit-Requests: 123456", "X-Ratelimit-Remaining-Tokens: 123457",
	"Anthropic-Ratelimit-Requests-Remaining: 123458", "Payment-Response: secret", "X-Payment-Response: secret", "Payment-Required: secret",
	"Payment-Signature: secret", "Www-Authenticate: Basic realm=secret", "Authorization: Bearer secret", "X-Api-Key: secret",
	"Server: secret", "Via: 1.1 secret", "Cf-Ray: secret", "Alt-Svc: h3=secret", "Strict-Transport-Security: max-age=1", "Location: http://secret",
	"Access-Control-Allow-Origin: *", "Access-Control-Allow-Credentials: true", "Access-Control-Expose-Headers: secret", "Refresh: 0; url=secret",
	"Link: <http://secret>", "Etag: secret", "Age: 123459", "X-Request-Id: secret", "Request-Id: secret", "X-Envoy-Upstream-Service-Time: 123460",
	"X-Bardo-Cost: 0.123461", "X-Bardo-Cost: 0.123462", "X-Bardo-Balance: 123463", "X-Bardo-Provider: secret", "X-Bardo-Cache: secret", "X-Bardo-Internal-Failure: secret",
	"X-Remaining-Tokens: 123464", "X-Nobody-Knows: secret",
}

// plantedNumber is one of the numbers in providersHeaders: long enough that no random request id contains one.
var plantedNumber = regexp.MustCompile(`1234[56]\d`)

// ownHeaders are those that a gateway's answer may have, besides X-Bardo-*.
var ownHeaders = []string{
	"Cache-Control", "Content-Length", "Content-Type", "Date", "Request-Id", "Retry-After", "Server", "Transfer-Encoding", "X-Accel-Buffering",
	"X-Request-Id", "X-Should-Retry",
}

// ownOnly checks that an answer's headers are all the gateway's own.
func ownOnly(t *testing.T, got gateway.Answer) {
	t.Helper()
	for _, h := range []http.Header{got.Header, got.Trailer} {
		for name, values := range h {
			said := strings.Join(values, " ")
			if strings.Contains(said, "secret") || plantedNumber.MatchString(said) || len(values) > 1 ||
				!slices.Contains(ownHeaders, name) && !strings.HasPrefix(name, "X-Bardo-") {
				t.Errorf("%d: the answer has %s: %q", got.Status, name, values)
			}
		}
	}
}

// TestD59NoHeaderOfAProviderReachesTheClient: cookies, names of accounts, limits, payments and forged headers of the gateway's own are taken
// off every answer and every error, on every path that an answer can take, whoever's key was used.
func TestD59NoHeaderOfAProviderReachesTheClient(t *testing.T) {
	t.Parallel()
	const chat = `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	const chunks = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]}` + "\n\n" +
		`data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"id":"1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}` + "\n\ndata: [DONE]\n\n"
	const byok = "sk-or-of-the-users"
	p, own := fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own"})
	broad := fake.Start(t, fake.Config{Vendor: fake.OpenRouter, Keys: []string{byok}})
	claude := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "own-claude"})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf("providers:\n  openrouter: {api_key: %s, endpoint: %q, byok: true}\n", broad.Key, broad.URL) +
		fmt.Sprintf("  direct: {keys: [{provider: openai, api_key: %s, base_url: %q}, {provider: anthropic, api_key: %s, base_url: %q}]}\n", own.Key, own.URL, claude.Key, claude.URL) +
		fmt.Sprintf("  custom: [{id: p, endpoints: [%q], api_key: %s, models: [{id: m, price: {input: 1, output: 2}}]}]\n", p.URL, p.Key)})
	answers := map[string]fake.Raw{
		"200": {Status: 200, Body: chat}, "400": {Status: 400, Body: `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}}`},
		"429": {Status: 429, Body: `{"error":{"message":"no","type":"rate_limit_error","param":null,"code":null}}`}, "500": {Status: 500, Body: "{}"},
		"204": {Status: 204}, "302": {Status: 302}, "not JSON": {Status: 200, Body: "<html>"},
	}
	for name, raw := range answers {
		for _, stream := range []bool{false, true} {
			raw.Header = append([]string{"Content-Type: application/json"}, providersHeaders...)
			if stream && raw.Status == 200 && raw.Body == chat {
				raw.Header[0], raw.Body = "Content-Type: text/event-stream", chunks
			}
			for _, s := range []*fake.Server{p, own, broad} {
				s.Behave(fake.Behaviour{Raw: &raw})
			}
			for who, c := range map[string]gateway.Call{
				"operator":  ask{dialect: fake.OpenAI, model: "m", stream: stream}.call("TE: trailers"),
				"Anthropic": ask{dialect: fake.Anthropic, model: "m", stream: stream}.call(),
				"direct":    ask{dialect: fake.OpenAI, model: "direct/openai/gpt-4.1", stream: stream}.call(),
				"brought":   ask{dialect: fake.OpenAI, model: "openrouter/openai/gpt-4.1", stream: stream}.call("X-Bardo-Upstream-Key: " + byok),
			} {
				t.Run(fmt.Sprintf("%s/%s/stream=%v", name, who, stream), func(t *testing.T) { checkNoProviderHeader(t, g, c, name) })
			}
		}
	}
	for _, s := range []*fake.Server{own, claude} {
		s.BehaveOn("/files", fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: append([]string{"Content-Type: application/json"}, providersHeaders...), Body: `{"object":"list","data":[]}`}})
		s.BehaveOn("/messages/count_tokens", fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: append([]string{"Content-Type: application/json"}, providersHeaders...), Body: `{"input_tokens":3}`}})
	}
	for _, c := range []gateway.Call{
		{Path: "/v1/files"},
		{Path: "/v1/files", Header: []string{"anthropic-version: 2023-06-01", "anthropic-beta: files-api-2025-04-14"}},
		{Path: "/v1/messages/count_tokens", Header: []string{"anthropic-version: 2023-06-01"}, Body: `{"model":"direct/anthropic/claude-opus-4-6","messages":[{"role":"user","content":"hi"}]}`},
	} {
		t.Run(c.Path, func(t *testing.T) {
			got := g.Do(t, c)
			if got.Status != http.StatusOK {
				t.Errorf("%d %s", got.Status, got.Body)
			}
			ownOnly(t, got)
		})
	}
}

func checkNoProviderHeader(t *testing.T, g *gateway.Gateway, c gateway.Call, name string) {
	t.Helper()
	got := g.Do(t, c)
	if (got.Status == http.StatusOK) != (name == "200") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	ownOnly(t, got)
}

// TestARequestThatEndsInTrailersIsRefused: what stands behind a body whose length was said is the next request to its provider.
func TestARequestThatEndsInTrailersIsRefused(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	for _, stream := range []bool{false, true} {
		a := ask{dialect: fake.OpenAI, model: "m", stream: stream}
		body := a.body()
		got := sayRaw(t, g, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+g.Key+
			"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X-More\r\n\r\n"+
			fmt.Sprintf("%x\r\n%s\r\n0\r\nX-More: POST / HTTP/1.1\r\n\r\n", len(body), body))
		mustFail(t, a, got, http.StatusBadRequest, "invalid_request")
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("the provider was asked %d times", n)
	}
}
