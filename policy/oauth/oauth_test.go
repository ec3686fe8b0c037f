package oauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/jwks"
)

const resource = "https://gw.example/mcp"

var (
	ec, _    = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	other, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	big2k, _ = rsa.GenerateKey(rand.Reader, 2048)
)

func keySet() []byte {
	text := base64.RawURLEncoding.EncodeToString
	point, _ := ec.PublicKey.Bytes()
	b, _ := json.Marshal(map[string]any{"keys": []jwks.Key{
		{Type: "EC", Curve: "P-256", ID: "e", X: text(point[1:33]), Y: text(point[33:])},
		{Type: "RSA", ID: "r", Use: "sig", Algorithm: "RS256", N: text(big2k.N.Bytes()), E: text(big.NewInt(int64(big2k.E)).Bytes())},
	}})
	return b
}

func newVerifier(fetched error) *Verifier {
	return New(Options{
		Issuer: "https://login.example", Scopes: []string{"mcp"}, Refresh: time.Hour, Now: time.Now,
		Callers: []Caller{{Values: rule.Names{"alice"}, Key: "key_a"}, {Claim: "groups", Values: rule.Names{"eng-*"}, Key: "key_e"}, {Values: rule.Names{"gone"}, Key: "key_gone"}},
		Fetch:   func(context.Context) ([]byte, error) { return keySet(), fetched },
		Principal: func(_ context.Context, key policy.Account) (policy.Principal, bool, error) {
			return policy.Principal{Account: key}, key != "key_gone", nil
		},
	})
}

// token is a valid token with changes of its claims; a nil removes one.
func token(t testing.TB, changes map[string]any) string {
	t.Helper()
	return signed(t, jwt.SigningMethodES256, "e", ec, changes)
}

func signed(t testing.TB, by jwt.SigningMethod, id string, key any, changes map[string]any) string {
	t.Helper()
	c := jwt.MapClaims{"iss": "https://login.example", "aud": resource, "sub": "alice", "scope": "openid mcp", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	tok := jwt.NewWithClaims(by, c)
	tok.Header["kid"] = id
	s, err := tok.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func bearer(token string) auth.Request {
	return auth.Request{Header: header.List{{Name: "authorization", Value: "Bearer " + token}}}
}

func TestTokensAreMappedToKeys(t *testing.T) {
	t.Parallel()
	v := newVerifier(nil)
	for _, row := range []struct {
		sentence string
		token    string
		key      policy.Account
		kind     fault.Kind
	}{
		{"by its subject", token(t, nil), "key_a", ""},
		{"by RS256", signed(t, jwt.SigningMethodRS256, "r", big2k, nil), "key_a", ""},
		{"by a group", token(t, map[string]any{"sub": "bob", "groups": []string{"x", "eng-core"}}), "key_e", ""},
		{"several audiences", token(t, map[string]any{"aud": []string{"x", resource}}), "key_a", ""},
		{"scopes in a list", token(t, map[string]any{"scope": nil, "scp": []string{"mcp"}}), "key_a", ""},
		{"nobody", token(t, map[string]any{"sub": "bob"}), "", fault.KeyRestricted},
		{"a revoked key", token(t, map[string]any{"sub": "gone"}), "", fault.KeyRestricted},
		{"without a scope", token(t, map[string]any{"scope": "mcpx"}), "", fault.KeyRestricted},
		{"another resource", token(t, map[string]any{"aud": "https://gw.example/"}), "", fault.InvalidAPIKey},
		{"no audience", token(t, map[string]any{"aud": nil}), "", fault.InvalidAPIKey},
		{"expired", token(t, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), "", fault.InvalidAPIKey},
		{"without an end", token(t, map[string]any{"exp": nil}), "", fault.InvalidAPIKey},
		{"of the future", token(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "", fault.InvalidAPIKey},
		{"another key", signed(t, jwt.SigningMethodES256, "e", other, nil), "", fault.InvalidAPIKey},
		{"another key's id", signed(t, jwt.SigningMethodES256, "r", ec, nil), "", fault.InvalidAPIKey},
		{"an unknown key's id", signed(t, jwt.SigningMethodES256, "x", ec, nil), "", fault.InvalidAPIKey},
		{"unsigned", signed(t, jwt.SigningMethodNone, "e", jwt.UnsafeAllowNoneSignatureType, nil), "", fault.InvalidAPIKey},
		{"by a public key as a secret", signed(t, jwt.SigningMethodHS256, "r", big2k.N.Bytes(), nil), "", fault.InvalidAPIKey},
	} {
		p, ok, err := v.Verify(t.Context(), bearer(row.token), resource)
		var f *fault.Fault
		if errors.As(err, &f) != (row.kind != "") || f != nil && f.Kind != row.kind || ok != (row.kind == "") || p.Account != row.key {
			t.Errorf("%s: %+v %v %v", row.sentence, p, ok, err)
		}
	}
	if _, _, err := v.Verify(t.Context(), bearer(token(t, map[string]any{"scope": nil})), resource); !errors.Is(err, ErrScope) {
		t.Errorf("%v", err)
	}
	for _, foreign := range []string{"bardo_sk_x", token(t, map[string]any{"iss": "https://other.example"}), "eyJ", strings.Repeat("eyJ.", 3)} {
		if _, ok, err := v.Verify(t.Context(), bearer(foreign), resource); ok || err != nil {
			t.Errorf("%.20s: %v %v", foreign, ok, err)
		}
	}
	var f *fault.Fault
	if _, _, err := newVerifier(errors.New("down")).Verify(t.Context(), bearer(token(t, nil)), resource); !errors.As(err, &f) || f.Kind != fault.Unavailable {
		t.Errorf("%v", err)
	}
}

// FuzzVerify: no token is accepted but those that were issued, and nothing panics.
func FuzzVerify(f *testing.F) {
	v, good := newVerifier(nil), token(f, nil)
	f.Add(good)
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUifQ.")
	f.Fuzz(func(t *testing.T, text string) {
		if _, ok, err := v.Verify(context.Background(), bearer(text), resource); ok && err == nil && !strings.Contains(text, good) {
			t.Errorf("%q is accepted", text)
		}
	})
}
