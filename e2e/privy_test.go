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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

const (
	privyApp  = "cm0e2e"
	chatOfOne = `{"model":"gpt-4.1-mini","messages":[{"role":"user","content":"Hello"}]}`
)

// privyLab is a gateway whose operator has an app at Privy, and the server of the app's keys.
type privyLab struct {
	*gateway.Gateway

	provider *fake.Server
	key      *ecdsa.PrivateKey
	fetches  atomic.Int64
	answer   atomic.Pointer[http.HandlerFunc] // in place of the keys
}

func startPrivy(t *testing.T) *privyLab {
	t.Helper()
	l := &privyLab{provider: fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-privy-provider"})}
	var err error
	if l.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	keys := httptest.NewServer(http.HandlerFunc(l.serveKeys))
	t.Cleanup(keys.Close)
	l.Gateway = gateway.Run(t, gateway.Options{
		Providers: []gateway.Provider{{ID: "openai", Fake: l.provider}},
		Config:    fmt.Sprintf("auth: {privy: {app_id: %s, jwks_url: %s/jwks.json}}\n", privyApp, keys.URL),
	})
	return l
}

func (l *privyLab) serveKeys(w http.ResponseWriter, r *http.Request) {
	l.fetches.Add(1)
	if instead := l.answer.Load(); instead != nil {
		(*instead)(w, r)
		return
	}
	point, _ := l.key.PublicKey.Bytes()
	text := base64.RawURLEncoding.EncodeToString
	fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","kid":"k1","use":"sig","alg":"ES256","x":%q,"y":%q}]}`, text(point[1:33]), text(point[33:]))
}

// token is a token of Ada's, with changes in its content and its key id.
func (l *privyLab) token(t *testing.T, keyID string, changes map[string]any) string {
	t.Helper()
	c := jwt.MapClaims{"iss": "privy.io", "aud": privyApp, "sub": "did:privy:ada", "sid": "s", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(c, changes)
	tok := jwt.NewWithClaims(jwt.SigningMethodES256, c)
	tok.Header["kid"] = keyID
	text, err := tok.SignedString(l.key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (l *privyLab) linkAs(t *testing.T, key, token string) gateway.Answer {
	t.Helper()
	return l.Do(t, gateway.Call{Path: "/v1/identity/link", Key: key, Body: fmt.Sprintf(`{"privy_token":%q}`, token)})
}

func (l *privyLab) chatAs(t *testing.T, credential string) gateway.Answer {
	t.Helper()
	return l.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: credential, Body: chatOfOne})
}

// A person who has signed in at Privy is served from the account that linked the person, until the link ends.
func TestX06APrivyUserIsServedFromTheLinkedAccount(t *testing.T) {
	t.Parallel()
	l := startPrivy(t)
	owner := l.CreateKey(t, "--name", "owner", "--balance-usd", "1")
	token := l.token(t, "k1", nil)
	if got := l.chatAs(t, token); got.Status != http.StatusForbidden || !strings.Contains(got.Body, "/v1/identity/link") {
		t.Fatalf("before the link: %d %s", got.Status, got.Body)
	}
	if got := l.linkAs(t, owner.Key, token); got.Status != http.StatusOK {
		t.Fatalf("link: %d %s", got.Status, got.Body)
	}
	for _, credential := range []string{token, "privy_" + token} {
		got := l.chatAs(t, credential)
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Balance") == "" {
			t.Errorf("%.10s…: %d %s, balance %q", credential, got.Status, got.Body, got.Header.Get("X-Bardo-Balance"))
		}
	}
	var who struct {
		Account string
		Links   []struct{ Subject string }
	}
	l.Do(t, gateway.Call{Path: "/v1/identity", Key: token}).JSON(t, &who)
	if who.Account != owner.ID || len(who.Links) != 1 || who.Links[0].Subject != "privy:did:privy:ada" {
		t.Errorf("%+v", who)
	}
	if got := l.linkAs(t, token, token); got.Status != http.StatusForbidden {
		t.Errorf("a linked person changes links: %d %s", got.Status, got.Body)
	}
	if got := l.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/identity/link?subject=privy:did:privy:ada", Key: owner.Key}); got.Status != http.StatusOK {
		t.Fatalf("end of the link: %d %s", got.Status, got.Body)
	}
	if got := l.chatAs(t, token); got.Status != http.StatusForbidden {
		t.Errorf("after the end of the link: %d %s", got.Status, got.Body)
	}
	for _, call := range l.provider.Generations() {
		if strings.Contains(fmt.Sprint(call.Header), token) {
			t.Error("the provider got the token")
		}
	}
}

// The first scheme that applies decides, and a credential that fails does not fall through to another one.
func TestPitfall28APrivyTokenThatFailsDoesNotFallThrough(t *testing.T) {
	t.Parallel()
	l := startPrivy(t)
	owner := l.CreateKey(t, "--name", "owner")
	good := l.token(t, "k1", nil)
	if got := l.linkAs(t, owner.Key, good); got.Status != http.StatusOK {
		t.Fatalf("link: %d %s", got.Status, got.Body)
	}
	expired := l.token(t, "k1", map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})
	broken := owner.Key[:len(owner.Key)-1] + "!"
	for _, c := range []struct {
		name, apiKey, bearer string
		want                 int
	}{
		{"a key, and an expired token", owner.Key, expired, http.StatusOK},
		{"a broken key, and a good token", broken, good, http.StatusUnauthorized},
		{"an expired token", "", expired, http.StatusUnauthorized},
		{"a good token", "", good, http.StatusOK},
	} {
		call := gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: chatOfOne, Header: []string{"Authorization: Bearer " + c.bearer}}
		if c.apiKey != "" {
			call.Header = append(call.Header, "X-Api-Key: "+c.apiKey)
		}
		if got := l.Do(t, call); got.Status != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, got.Status, got.Body, c.want)
		}
	}
}

// Unknown keys do not have the gateway ask Privy more than once a minute, and tokens of known keys are served meanwhile.
func TestPitfall25AFloodOfUnknownKeysIsBounded(t *testing.T) {
	t.Parallel()
	l := startPrivy(t)
	token := l.token(t, "k1", nil)
	if got := l.linkAs(t, l.Key, token); got.Status != http.StatusOK {
		t.Fatalf("link: %d %s", got.Status, got.Body)
	}
	down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	l.answer.Store(&down)
	for i := range 50 {
		if got := l.chatAs(t, l.token(t, fmt.Sprintf("unknown-%d", i), nil)); got.Status != http.StatusUnauthorized {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	if n := l.fetches.Load(); n > 2 { // the second, if this took a minute
		t.Errorf("%d fetches of the keys", n)
	}
	if got := l.chatAs(t, token); got.Status != http.StatusOK {
		t.Errorf("a known key: %d %s", got.Status, got.Body)
	}
}

// An endpoint of keys that is down, or answers something else, is an error of the gateway's, which says so; it lets nobody in.
func TestKeysOfPrivyThatCannotBeFetchedLetNobodyIn(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"down": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"long": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) },
		"html": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startPrivy(t)
			l.answer.Store(&answer)
			if got := l.chatAs(t, l.token(t, "k1", nil)); got.Status != http.StatusServiceUnavailable {
				t.Errorf("%d %s", got.Status, got.Body)
			}
			if n := len(l.provider.Generations()); n != 0 {
				t.Errorf("the provider was called %d times", n)
			}
		})
	}
}
