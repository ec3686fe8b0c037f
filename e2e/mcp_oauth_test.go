package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestB09ClientsLogInByOAuth: a client without a token is told where to log in, and is served with a token of that server by the key that it is mapped to.
func TestB09ClientsLogInByOAuth(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		point, _ := key.PublicKey.Bytes()
		text := base64.RawURLEncoding.EncodeToString
		_, _ = fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","kid":"k","x":%q,"y":%q}]}`, text(point[1:33]), text(point[33:]))
	}))
	t.Cleanup(issuer.Close)
	token := func(changes jwt.MapClaims) string {
		c := jwt.MapClaims{
			"iss": "https://login.example", "aud": "https://gateway.example/mcp", "sub": "bob", "groups": []string{"eng-core"}, "scope": "mcp",
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		}
		maps.Copy(c, changes)
		tok := jwt.NewWithClaims(jwt.SigningMethodES256, c)
		tok.Header["kid"] = "k"
		s, err := tok.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one, two := newMCPServer(t, "one", mcp.StreamableHTTPOptions{}), newMCPServer(t, "two", mcp.StreamableHTTPOptions{})
	providers := []gateway.Provider{{ID: "openai", Fake: fake.Start(t, fake.Config{Dialect: fake.OpenAI})}} // the demo takes any token
	g := gateway.Run(t, gateway.Options{Providers: providers})
	engineers := g.CreateKey(t, "--name", "engineers")
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g = gateway.Run(t, gateway.Options{Home: g.Home, NoKey: true, Providers: providers, Config: fmt.Sprintf(`
listen: {http: "127.0.0.1:0", https: "127.0.0.1:0", admin: "127.0.0.1:0", public_url: "https://gateway.example"}
mcp:
  servers: {one: {url: %q, keys: [engineers]}, two: {url: %q, keys: [others]}}
  oauth: {issuer: "https://login.example", jwks_url: %q, scopes: [mcp], callers: [{claim: groups, values: ["eng-*"], key: %s}]}
`, one.URL, two.URL, issuer.URL+"/jwks.json", engineers.ID)})

	a := g.Do(t, gateway.Call{Path: "/mcp", NoKey: true, Body: mcpInitialize})
	told, err := oauthex.ParseWWWAuthenticate(a.Header.Values("WWW-Authenticate"))
	const where = "https://gateway.example/.well-known/oauth-protected-resource/mcp"
	if err != nil || a.Status != http.StatusUnauthorized || len(told) != 1 || told[0].Scheme != "bearer" || !maps.Equal(told[0].Params, map[string]string{"resource_metadata": where, "scope": "mcp"}) {
		t.Fatalf("%d %v, %+v %v", a.Status, a.Header, told, err)
	}
	for path, resource := range map[string]string{"": "https://gateway.example/mcp", "/one": "https://gateway.example/mcp/one"} {
		m, err := oauthex.GetProtectedResourceMetadata(t.Context(), g.URL+strings.TrimPrefix(where, "https://gateway.example")+path, resource, &http.Client{Timeout: time.Minute})
		if err != nil || !slices.Equal(m.AuthorizationServers, []string{"https://login.example"}) || !slices.Equal(m.ScopesSupported, []string{"mcp"}) {
			t.Errorf("%s: %+v, %v", path, m, err)
		}
	}
	for _, path := range []string{"/mcp", "/mcp/one"} {
		if got := toolNames(t, mcpClient(t, g, path, token(nil), "2025-11-25", nil)); len(got) != 3 || !strings.HasSuffix(got[0], "echo") {
			t.Errorf("%s: the tools are %v", path, got)
		}
	}
	if got := toolNames(t, mcpClient(t, g, "/mcp", engineers.Key, "2025-11-25", nil)); len(got) != 3 {
		t.Errorf("with the key, the tools are %v", got)
	}
	for _, row := range []struct {
		sentence, token string
		status          int
		told            string
	}{
		{"a token for another resource", token(jwt.MapClaims{"aud": "https://other.example"}), http.StatusUnauthorized, `error="invalid_token"`},
		{"a token for one server, at all", token(jwt.MapClaims{"aud": "https://gateway.example/mcp/one"}), http.StatusUnauthorized, `error="invalid_token"`},
		{"an expired token", token(jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()}), http.StatusUnauthorized, `error="invalid_token"`},
		{"a token without the scope", token(jwt.MapClaims{"scope": "openid"}), http.StatusForbidden, `error="insufficient_scope"`},
		{"somebody else's", token(jwt.MapClaims{"groups": []string{"sales"}}), http.StatusForbidden, ""},
		{"an unknown issuer's", token(jwt.MapClaims{"iss": "https://evil.example"}), http.StatusUnauthorized, `error="invalid_token"`},
	} {
		a := g.Do(t, gateway.Call{Path: "/mcp", Key: row.token, Body: mcpPing})
		if a.Status != row.status || row.told == "" && a.Header.Get("WWW-Authenticate") != "" || !strings.Contains(a.Header.Get("WWW-Authenticate"), row.told) {
			t.Errorf("%s: %d %v %s", row.sentence, a.Status, a.Header, a.Body)
		}
	}
	for _, path := range []string{"/v1/models", "/v1/balance"} { // the tokens are for /mcp alone
		if a := g.Do(t, gateway.Call{Path: path, Key: token(nil)}); a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: %d %v", path, a.Status, a.Header)
		}
	}
	for _, s := range []*mcpServer{one, two} {
		if values, _ := s.headers("Authorization"); len(values) > 0 {
			t.Errorf("a server gets %v", values)
		}
	}
	if strings.Contains(g.Log(), token(nil)[:40]) {
		t.Error("the log has a token")
	}
}
