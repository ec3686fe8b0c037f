package privy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/jwks"
)

const (
	app    = "cm0testapp"
	person = "did:privy:ada"
)

// bench is a verifier of an app's tokens, with one key, and one person who is linked.
type bench struct {
	*Verifier

	key *ecdsa.PrivateKey

	mu      sync.Mutex
	clock   time.Time
	set     map[string]*ecdsa.PrivateKey // that the app publishes
	err     error                        // of fetches
	fetches atomic.Int64
	gate    chan struct{} // fetches wait for it, if it is set

	owners owners
}

type owners struct {
	linked map[string]policy.Principal
	err    error
	knows  bool
}

func (o *owners) Owner(_ context.Context, subject string) (policy.Principal, bool, error) {
	p, ok := o.linked[subject]
	return p, ok, o.err
}

func (o *owners) Knows(string) bool { return o.knows }

func newBench(tb testing.TB) *bench {
	tb.Helper()
	b := &bench{key: newKey(tb), clock: time.Unix(1_700_000_000, 0)}
	b.set = map[string]*ecdsa.PrivateKey{"k1": b.key}
	b.owners.linked = map[string]policy.Principal{person: {Account: "acct", Name: "ada"}}
	b.Verifier = New(Options{
		App: app, Issuer: "privy.io", Fetch: b.fetch, Owners: &b.owners, Now: b.now,
	})
	return b
}

func (b *bench) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clock
}

// wait advances the clock.
func (b *bench) wait(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = b.clock.Add(d)
}

// publish has fetches return other keys, or an error.
func (b *bench) publish(keys map[string]*ecdsa.PrivateKey, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set, b.err = keys, err
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func (b *bench) fetch(ctx context.Context) ([]byte, error) {
	b.fetches.Add(1)
	if b.gate != nil {
		select {
		case <-b.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return published(b.set), b.err
}

// published is a key set as an app publishes it.
func published(keys map[string]*ecdsa.PrivateKey) []byte {
	var set struct {
		Keys []jwks.Key `json:"keys"`
	}
	for id, k := range keys {
		point, _ := k.PublicKey.Bytes()
		text := base64.RawURLEncoding.EncodeToString
		set.Keys = append(set.Keys, jwks.Key{Type: "EC", Curve: "P-256", ID: id, Use: "sig", Algorithm: "ES256", X: text(point[1:33]), Y: text(point[33:])})
	}
	out, _ := json.Marshal(set)
	return out
}

// claims of a token that is valid at the bench's time, with changes.
func (b *bench) claims(changes map[string]any) jwt.MapClaims {
	c := jwt.MapClaims{"iss": "privy.io", "aud": app, "sub": person, "sid": "s1", "iat": b.now().Unix(), "exp": b.now().Add(time.Hour).Unix()}
	maps.Copy(c, changes)
	for name, v := range c {
		if v == nil {
			delete(c, name)
		}
	}
	return c
}

// sign makes a token.
func sign(tb testing.TB, method jwt.SigningMethod, key any, head map[string]any, c jwt.MapClaims) string {
	tb.Helper()
	t := jwt.NewWithClaims(method, c)
	t.Header["kid"] = "k1"
	maps.Copy(t.Header, head)
	for name, v := range t.Header {
		if v == nil {
			delete(t.Header, name)
		}
	}
	text, err := t.SignedString(key)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func (b *bench) good(tb testing.TB) string {
	tb.Helper()
	return sign(tb, jwt.SigningMethodES256, b.key, nil, b.claims(nil))
}

func bearer(text string) auth.Request {
	return auth.Request{Header: header.List{{Name: "authorization", Value: "Bearer " + text}}}
}

func kindOf(err error) fault.Kind {
	f, _ := errors.AsType[*fault.Fault](err)
	if f == nil {
		return ""
	}
	return f.Kind
}

func TestATokenIsAcceptedWithAndWithoutItsPrefix(t *testing.T) {
	b := newBench(t)
	for _, prefix := range []string{"", Prefix} {
		p, ok, err := b.Verify(t.Context(), bearer(prefix+b.good(t)))
		if err != nil || !ok || p.Account != "acct" {
			t.Errorf("prefix %q: %+v, %v, %v", prefix, p, ok, err)
		}
	}
	if n := b.fetches.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
}

// Pitfall 25: alg none, HS256, other apps, and everything else that a token may have wrong.
func TestPitfall25TokensThatAreWrongInOneThing(t *testing.T) {
	b := newBench(t)
	public, err := x509.MarshalPKIXPublicKey(&b.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	es := func(head map[string]any, changes map[string]any) string {
		return sign(t, jwt.SigningMethodES256, b.key, head, b.claims(changes))
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := b.good(t)
	parts := strings.Split(good, ".")
	for name, text := range map[string]string{
		"alg none":                    sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, b.claims(nil)),
		"HS256 with the public key":   sign(t, jwt.SigningMethodHS256, public, nil, b.claims(nil)),
		"ES384":                       sign(t, jwt.SigningMethodES384, p384, nil, b.claims(nil)),
		"another key of the same id":  sign(t, jwt.SigningMethodES256, newKey(t), nil, b.claims(nil)),
		"a key id that is a path":     es(map[string]any{"kid": "../../../dev/null"}, nil),
		"a key id that is SQL":        es(map[string]any{"kid": "' OR 1=1 --"}, nil),
		"a key id that is no text":    es(map[string]any{"kid": 1}, nil),
		"no key id":                   es(map[string]any{"kid": nil}, nil),
		"a long key id":               es(map[string]any{"kid": strings.Repeat("k", 1000)}, nil),
		"an address of keys":          sign(t, jwt.SigningMethodES256, newKey(t), map[string]any{"jku": "http://127.0.0.1:1/keys"}, b.claims(nil)),
		"a key of its own":            sign(t, jwt.SigningMethodES256, newKey(t), map[string]any{"jwk": map[string]any{"kty": "EC"}}, b.claims(nil)),
		"critical extensions":         es(map[string]any{"crit": []string{"exp"}}, nil),
		"another app":                 es(nil, map[string]any{"aud": "cm0other"}),
		"several apps":                es(nil, map[string]any{"aud": []string{app, "cm0other"}}),
		"no app":                      es(nil, map[string]any{"aud": nil}),
		"another issuer":              Prefix + es(nil, map[string]any{"iss": "privy.example"}),
		"no issuer":                   Prefix + es(nil, map[string]any{"iss": nil}),
		"expired":                     es(nil, map[string]any{"exp": b.now().Add(-time.Minute).Unix()}),
		"no expiry":                   es(nil, map[string]any{"exp": nil}),
		"issued in the future":        es(nil, map[string]any{"iat": b.now().Add(time.Minute).Unix()}),
		"not valid yet":               es(nil, map[string]any{"nbf": b.now().Add(time.Minute).Unix()}),
		"no user":                     es(nil, map[string]any{"sub": nil}),
		"a user of something else":    es(nil, map[string]any{"sub": "did:web:ada"}),
		"a user with strange letters": es(nil, map[string]any{"sub": "did:privy:ada\nbob"}),
		"a long user":                 es(nil, map[string]any{"sub": "did:privy:" + strings.Repeat("a", 1000)}),
		"a huge token":                Prefix + strings.Repeat("x", maxToken+1),
		"not a token":                 Prefix + "x",
		"a changed content":           parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"privy.io","aud":"`+app+`","sub":"did:privy:bob","exp":9999999999}`)) + "." + parts[2],
		"a cut signature":             good[:len(good)-2],
		"no signature":                parts[0] + "." + parts[1] + ".",
	} {
		p, ok, err := b.Verify(t.Context(), bearer(text))
		if ok || p.Account != "" || kindOf(err) != fault.InvalidAPIKey {
			t.Errorf("%s: %+v, %v, %v", name, p, ok, err)
		}
		if err != nil && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error quotes the token", name)
		}
	}
	if p, ok, err := b.Verify(t.Context(), bearer(good)); !ok || err != nil || p.Account != "acct" {
		t.Errorf("the good token after all these: %+v, %v, %v", p, ok, err)
	}
}

// TestPitfall25OnlyES256IsVerified: tokens of no algorithm, and of HMAC with the public key in any form as the secret, are refused before a key is looked up. A parser
// that took them would refuse them too: the key is one of ECDSA, whatever the token says.
func TestPitfall25OnlyES256IsVerified(t *testing.T) {
	b := newBench(t)
	for name, text := range b.confused(t) {
		_, err := b.Subject(t.Context(), text)
		if kindOf(err) != fault.InvalidAPIKey || !strings.Contains(err.Error(), "not by ES256") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.fetches.Load(); n != 0 {
		t.Errorf("the keys were fetched %d times", n)
	}
	b.parser = jwt.NewParser(jwt.WithTimeFunc(b.now)) // takes every algorithm
	for name, text := range b.confused(t) {
		if subject, err := b.Subject(t.Context(), text); kindOf(err) != fault.InvalidAPIKey || subject != "" {
			t.Errorf("%s, by a parser that takes it: %s, %v", name, subject, err)
		}
	}
	if subject, err := b.Subject(t.Context(), b.good(t)); subject != person || err != nil {
		t.Errorf("the good token: %s, %v", subject, err)
	}
}

// confused are tokens of other algorithms, for the same content as the good one.
func (b *bench) confused(t *testing.T) map[string]string {
	t.Helper()
	point, err := b.key.PublicKey.Bytes()
	der, errDER := x509.MarshalPKIXPublicKey(&b.key.PublicKey)
	if err := errors.Join(err, errDER); err != nil {
		t.Fatal(err)
	}
	set := published(b.set)
	one, _ := strings.CutPrefix(string(set), `{"keys":[`)
	tokens := map[string]string{"none": sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, b.claims(nil))}
	for form, secret := range map[string][]byte{
		"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "a point": point, "coordinates": point[1:], "x": point[1:33],
		"the key set": set, "its key": []byte(strings.TrimSuffix(one, "]}")), "x in base64": []byte(base64.RawURLEncoding.EncodeToString(point[1:33])), "nothing": {},
	} {
		for _, m := range []jwt.SigningMethod{jwt.SigningMethodHS256, jwt.SigningMethodHS384, jwt.SigningMethodHS512} {
			tokens[m.Alg()+" with "+form] = sign(t, m, secret, nil, b.claims(nil))
		}
	}
	return tokens
}

func TestOtherCredentialsAreLeftToOthers(t *testing.T) {
	b := newBench(t)
	foreign := sign(t, jwt.SigningMethodES256, b.key, nil, b.claims(map[string]any{"iss": "https://accounts.example"}))
	for _, text := range []string{"", "sk-proj-1", "bardo_sk_x", "eyJ", "eyJ.a.b", foreign} {
		if _, ok, err := b.Verify(t.Context(), bearer(text)); ok || err != nil {
			t.Errorf("%q: %v, %v", text, ok, err)
		}
		if !b.Immediate(bearer(text)) {
			t.Errorf("%q would be waited for", text)
		}
	}
	if b.fetches.Load() != 0 {
		t.Error("keys were fetched for them")
	}
}

func TestWhoIsNotLinkedIsTold(t *testing.T) {
	b := newBench(t)
	stranger := sign(t, jwt.SigningMethodES256, b.key, nil, b.claims(map[string]any{"sub": "did:privy:eve"}))
	if _, ok, err := b.Verify(t.Context(), bearer(stranger)); ok || kindOf(err) != fault.KeyRestricted {
		t.Errorf("%v, %v", ok, err)
	}
	b.owners.linked[person] = policy.Principal{Account: "acct", Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	if _, _, err := b.Verify(t.Context(), bearer(b.good(t))); kindOf(err) != fault.KeyRestricted {
		t.Errorf("from another network: %v", err)
	}
	b.owners.err = errors.New("disk")
	if _, ok, err := b.Verify(t.Context(), bearer(b.good(t))); ok || kindOf(err) != fault.Unavailable {
		t.Errorf("%v, %v", ok, err)
	}
}

// A token is verified once; its expiry, and its key's removal, still apply.
func TestAKnownTokenIsFoundByItsHash(t *testing.T) {
	b := newBench(t)
	text := b.good(t)
	if b.Immediate(bearer(text)) {
		t.Error("a new token is not verified at once")
	}
	if _, err := b.Subject(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	b.owners.knows = true
	if !b.Immediate(bearer(text)) {
		t.Error("a known token is waited for")
	}
	b.wait(time.Hour)
	if _, err := b.Subject(t.Context(), text); err != nil {
		t.Errorf("within the leeway: %v", err)
	}
	b.wait(leeway)
	if _, err := b.Subject(t.Context(), text); kindOf(err) != fault.InvalidAPIKey {
		t.Errorf("an expired token: %v", err)
	}
}

func TestATokenEndsWithItsKey(t *testing.T) {
	b := newBench(t)
	text := sign(t, jwt.SigningMethodES256, b.key, nil, b.claims(map[string]any{"exp": b.now().Add(48 * time.Hour).Unix()}))
	if _, err := b.Subject(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	next := newKey(t)
	b.publish(map[string]*ecdsa.PrivateKey{"k2": next}, nil)
	b.wait(2 * time.Minute)
	rotated := sign(t, jwt.SigningMethodES256, next, map[string]any{"kid": "k2"}, b.claims(nil))
	if _, err := b.Subject(t.Context(), rotated); err != nil {
		t.Fatalf("a token of the new key: %v", err)
	}
	if _, err := b.Subject(t.Context(), text); kindOf(err) != fault.InvalidAPIKey {
		t.Errorf("a token of a key that the app has withdrawn: %v", err)
	}
}

// Pitfall 25: a flood of unknown key ids makes the gateway fetch once a minute.
func TestPitfall25UnknownKeysHaveTheSetFetchedOnceAMinute(t *testing.T) {
	b := newBench(t)
	flood := func() {
		for _, id := range []string{"a", "b", "c", "d"} {
			if _, err := b.Subject(t.Context(), sign(t, jwt.SigningMethodES256, b.key, map[string]any{"kid": id}, b.claims(nil))); kindOf(err) != fault.InvalidAPIKey {
				t.Errorf("key id %s: %v", id, err)
			}
		}
	}
	flood()
	flood()
	if n := b.fetches.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
	b.wait(jwks.AfterSuccess)
	flood()
	if n := b.fetches.Load(); n != 2 {
		t.Errorf("%d fetches a minute later, want 2", n)
	}
}

func TestKeysThatCannotBeFetched(t *testing.T) {
	b := newBench(t)
	b.publish(b.set, errors.New("connection refused"))
	for range 3 {
		if _, err := b.Subject(t.Context(), b.good(t)); kindOf(err) != fault.Unavailable {
			t.Errorf("without keys: %v", err)
		}
	}
	if n := b.fetches.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
	b.publish(b.set, nil)
	b.wait(jwks.AfterFailure)
	if _, err := b.Subject(t.Context(), b.good(t)); err != nil {
		t.Errorf("when they can be fetched again: %v", err)
	}
	b.publish(b.set, errors.New("down"))
	b.wait(jwks.MaxAge - time.Minute)
	if _, err := b.Subject(t.Context(), b.good(t)); err != nil {
		t.Errorf("keys that are known serve while new ones cannot be fetched: %v", err)
	}
	b.wait(2 * time.Minute)
	if _, err := b.Subject(t.Context(), b.good(t)); kindOf(err) != fault.Unavailable {
		t.Errorf("keys that are a day old: %v", err)
	}
}

// Known keys are refreshed in the background: no request waits for a slow endpoint.
func TestASlowEndpointHoldsUpNobodyWhoseKeyIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		if _, err := b.Subject(t.Context(), b.good(t)); err != nil {
			t.Fatal(err)
		}
		b.wait(2 * time.Hour)
		b.gate = make(chan struct{})
		for range 3 { // none of them may wait: the gate is closed
			if _, err := b.Subject(t.Context(), b.good(t)); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n := b.fetches.Load(); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}
		close(b.gate)
		synctest.Wait()
	})
}

func TestASlowEndpointIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.gate = make(chan struct{})
		started := time.Now()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := b.Subject(t.Context(), b.good(t)); kindOf(err) != fault.Unavailable {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(started); took != jwks.FetchTime {
			t.Errorf("%s, want %s", took, jwks.FetchTime)
		}
		if n := b.fetches.Load(); n != 1 {
			t.Errorf("%d fetches, want 1", n)
		}
	})
}

func TestKeySetsThatAreRefused(t *testing.T) {
	key := newKey(t)
	good := published(map[string]*ecdsa.PrivateKey{"a": key})
	many := map[string]*ecdsa.PrivateKey{}
	for i := range jwks.MaxKeys + 1 {
		many[strings.Repeat("k", i+1)] = key
	}
	for name, set := range map[string]string{
		"nothing":            "",
		"no JSON":            "<html>",
		"no keys":            `{"keys":[]}`,
		"a key of RSA":       `{"keys":[{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"}]}`,
		"a secret":           `{"keys":[{"kty":"oct","kid":"a","k":"AQAB"}]}`,
		"for encryption":     strings.Replace(string(good), `"sig"`, `"enc"`, 1),
		"another curve":      strings.Replace(string(good), "P-256", "P-384", 1),
		"another algorithm":  strings.Replace(string(good), "ES256", "ES384", 1),
		"no id":              strings.Replace(string(good), `"kid":"a"`, `"kid":""`, 1),
		"no point":           `{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}`,
		"a short coordinate": `{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"AA","y":"AA"}]}`,
		"one id twice":       strings.Replace(string(good), `[`, `[`+strings.TrimSuffix(strings.TrimPrefix(string(good), `{"keys":[`), `]}`)+`,`, 1),
		"many keys":          string(published(many)),
		"a long set":         string(good) + strings.Repeat(" ", jwks.MaxKeySet),
	} {
		if keys, err := jwks.Parse([]byte(set), []string{jwks.ES256}); err == nil {
			t.Errorf("%s: %v", name, keys)
		}
	}
	if keys, err := jwks.Parse(good, []string{jwks.ES256}); err != nil || !keys["a"].Equal(&key.PublicKey) {
		t.Errorf("%v, %v", keys, err)
	}
}

// Unsigned tokens are never accepted, and nothing panics.
func FuzzToken(f *testing.F) {
	b := newBench(f)
	good := b.good(f)
	f.Add(good)
	f.Add(Prefix + good[:40])
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJwcml2eS5pbyJ9.")
	f.Fuzz(func(t *testing.T, text string) {
		_, ok, err := b.Verify(context.Background(), bearer(text))
		if ok && err == nil && !strings.Contains(text, good) {
			t.Errorf("%q is accepted", text)
		}
	})
}

func FuzzKeySet(f *testing.F) {
	f.Add(published(map[string]*ecdsa.PrivateKey{"a": newKey(f)}))
	f.Add([]byte(`{"keys":[{"kty":"EC"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if keys, err := jwks.Parse(b, []string{jwks.ES256}); err == nil && (len(keys) == 0 || len(keys) > jwks.MaxKeys) {
			t.Errorf("%d keys", len(keys))
		}
	})
}
