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

// authorizationServer is a server's key set, and what signs tokens for bob of the group eng-core, with changed claims.
func authorizationServer(t *testing.T) (url string, token func(changes jwt.MapClaims) string) {
	t.Helper()
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
	return issuer.URL, func(changes jwt.MapClaims) string {
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
}

// TestB09ClientsLogInByOAuth: a client without a token is told where to log in, and is served with a token of that server by the key that it is mapped to.
func TestB09ClientsLogInByOAuth(t *testing.T) {
	t.Parallel()
	issuer, token := authorizationServer(t)
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
`, one.URL, two.URL, issuer+"/jwks.json", engineers.ID)})

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

// TestB09AReloadChangesOAuth: clients can log in, at another authorization server, for another key, or not at all, as the configuration in force says.
func TestB09AReloadChangesOAuth(t *testing.T) {
	t.Parallel()
	issuer, token := authorizationServer(t)
	other, otherToken := authorizationServer(t)
	one := newMCPServer(t, "one", mcp.StreamableHTTPOptions{})
	o := gateway.Options{Providers: []gateway.Provider{{ID: "openai", Fake: fake.Start(t, fake.Config{Dialect: fake.OpenAI})}}}
	g := gateway.Run(t, o)
	engineers, sales := g.CreateKey(t, "--name", "engineers"), g.CreateKey(t, "--name", "sales")
	configure := func(jwks, group, key string) {
		o.Config = fmt.Sprintf("mcp:\n  servers: {one: {url: %q, keys: [engineers]}}\n", one.URL)
		if jwks != "" {
			o.Config += fmt.Sprintf("  oauth: {issuer: \"https://login.example\", jwks_url: %q, callers: [{claim: groups, values: [%q], key: %s}]}\n", jwks+"/jwks.json", group, key)
		}
		o.Config += "listen: {http: \"127.0.0.1:0\", https: \"127.0.0.1:0\", admin: \"127.0.0.1:0\", public_url: \"https://gateway.example\"}\n"
		reload(t, g, o)
	}
	for _, row := range []struct {
		sentence          string
		jwks, group, key  string
		status, byAnother int // of requests with the tokens of the two servers
		body              string
	}{
		{"without login", "", "", "", http.StatusUnauthorized, http.StatusUnauthorized, ""},
		{"with login", issuer, "eng-*", engineers.ID, http.StatusOK, http.StatusUnauthorized, "one__echo"},
		{"of another group", issuer, "sales", engineers.ID, http.StatusForbidden, http.StatusUnauthorized, ""},
		{"for another key", issuer, "eng-*", sales.ID, http.StatusOK, http.StatusUnauthorized, `"tools":[]`},
		{"at another server", other, "eng-*", engineers.ID, http.StatusUnauthorized, http.StatusOK, ""},
		{"without login again", "", "", "", http.StatusUnauthorized, http.StatusUnauthorized, ""},
	} {
		configure(row.jwks, row.group, row.key)
		eventually(t, row.sentence, func() bool { // a data path of its own takes it a moment later
			a := rpc(t, g, token(nil), "", mcpTools)
			b := rpc(t, g, otherToken(nil), "", mcpTools)
			return a.Status == row.status && strings.Contains(a.Body, row.body) && b.Status == row.byAnother
		})
		a := g.Do(t, gateway.Call{Path: "/mcp", NoKey: true, Body: mcpPing})
		if told := a.Header.Get("WWW-Authenticate") != ""; a.Status != http.StatusUnauthorized || told != (row.jwks != "") {
			t.Errorf("%s, a client without a token: %d %v", row.sentence, a.Status, a.Header)
		}
	}
	if strings.Contains(g.Log(), "at the next start") {
		t.Error("a part waits for the next start")
	}
}
