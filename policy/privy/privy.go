// Package privy authenticates people who have signed in to the operator's app at Privy: their ES256 token is verified with the app's published keys.
// It does not know how these are fetched, nor which account a person is linked to.
package privy

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/jwks"
)

// Prefix is an optional prefix of tokens.
const Prefix = "privy_"

// Limits of a token.
const (
	maxToken    = 8 << 10
	maxSubject  = 128
	leeway      = 5 * time.Second // allowed difference between Privy's clock and this machine's
	subjectForm = "did:privy:"
	tokenStart  = "eyJ" // of every JSON object, in base64
)

// Owners finds the account that a person is linked to. Safe for concurrent use.
type Owners interface {
	// Owner returns the principal of that account; ok is false if there is none. subject is the token's, such as did:privy:….
	Owner(ctx context.Context, subject string) (p policy.Principal, ok bool, err error)
	// Knows reports whether Owner returns without waiting.
	Knows(subject string) bool
}

// Options configure a verifier. All but Refresh, Tokens and Now are required.
type Options struct {
	App     string                                    // the app's id: the audience of its tokens
	Issuer  string                                    // of its tokens
	Fetch   func(ctx context.Context) ([]byte, error) // returns the app's key set (JWKS); bytes beyond jwks.MaxKeySet are not needed
	Owners  Owners
	Refresh time.Duration    // age at which the keys are fetched again; zero means an hour
	Tokens  int              // size of the cache of verified tokens; zero means 16,384
	Now     func() time.Time // nil: time.Now
}

// Verifier verifies tokens. Verified tokens are cached by their hash. Safe for concurrent use.
type Verifier struct {
	o      Options
	keys   *jwks.Set
	parser *jwt.Parser
	tokens *lru.Cache[[sha256.Size]byte, *token]
}

var (
	_ auth.Verifier  = (*Verifier)(nil)
	_ auth.Immediate = (*Verifier)(nil)
)

// token is a verified token. Immutable.
type token struct {
	subject string
	keyID   string
	key     jwks.PublicKey
	expires time.Time
}

// New returns a verifier. It does not fetch keys yet.
func New(o Options) *Verifier {
	if o.Refresh == 0 {
		o.Refresh = time.Hour
	}
	if o.Tokens == 0 {
		o.Tokens = 1 << 14
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	tokens, _ := lru.New[[sha256.Size]byte, *token](o.Tokens) // fails for sizes below 1 only
	return &Verifier{
		o: o, keys: jwks.New(jwks.Options{Algorithms: []string{jwks.ES256}, Fetch: o.Fetch, Refresh: o.Refresh, Now: o.Now}), tokens: tokens,
		parser: jwt.NewParser(jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer(o.Issuer), jwt.WithAudience(o.App), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
			jwt.WithLeeway(leeway), jwt.WithTimeFunc(o.Now), jwt.WithStrictDecoding()),
	}
}

// Verify implements auth.Verifier. It applies to tokens with the prefix, and to those without one that name the issuer.
func (v *Verifier) Verify(ctx context.Context, r auth.Request) (p policy.Principal, ok bool, err error) {
	text, ok := v.find(r)
	if !ok {
		return p, false, nil
	}
	subject, err := v.Subject(ctx, text)
	if err != nil {
		return p, false, err
	}
	p, ok, err = v.o.Owners.Owner(ctx, subject)
	switch {
	case err != nil:
		return policy.Principal{}, false, fault.New(fault.Unavailable, "the account of this Privy user cannot be read at the moment", err)
	case !ok:
		return policy.Principal{}, false, fault.Newf(fault.KeyRestricted, "this Privy user is not linked to an account: link it with a key of the account, by POST /v1/identity/link")
	}
	return p, true, auth.CheckUse(&p, r)
}

// Immediate implements auth.Immediate.
func (v *Verifier) Immediate(r auth.Request) bool {
	text, ok := v.find(r)
	if !ok {
		return true
	}
	t := v.known(sha256.Sum256([]byte(text)))
	return t != nil && v.o.Owners.Knows(t.subject)
}

// find returns the request's token, without its prefix.
func (v *Verifier) find(r auth.Request) (text string, ok bool) {
	if text, ok = auth.Credential(r.Header, Prefix); ok {
		return strings.TrimPrefix(text, Prefix), true
	}
	if text, ok = auth.Credential(r.Header, tokenStart); ok && v.isIssuers(text) {
		return text, true
	}
	return "", false
}

// isIssuers reports whether a token names the issuer. The token is not verified here.
func (v *Verifier) isIssuers(text string) bool {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || len(text) > maxToken {
		return false
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Issuer string `json:"iss"`
	}
	return err == nil && json.Unmarshal(b, &claims) == nil && claims.Issuer == v.o.Issuer
}

// Subject verifies a token and returns its subject. The error is a fault: InvalidAPIKey, or Unavailable if the keys cannot be fetched.
func (v *Verifier) Subject(ctx context.Context, text string) (string, error) {
	text = strings.TrimPrefix(text, Prefix)
	if len(text) > maxToken {
		return "", refused("it is too long", nil)
	}
	sum := sha256.Sum256([]byte(text))
	if t := v.known(sum); t != nil {
		v.keys.RefreshLater()
		return t.subject, nil
	}
	t, err := v.verify(ctx, text)
	if err != nil {
		return "", err
	}
	v.tokens.Add(sum, t)
	return t.subject, nil
}

// known returns a verified token that has not expired and whose key the app still has; nil if there is none.
func (v *Verifier) known(sum [sha256.Size]byte) *token {
	t, ok := v.tokens.Get(sum)
	if !ok {
		return nil
	}
	if key := v.keys.Known(t.keyID); key == nil || !key.Equal(t.key) || !v.o.Now().Before(t.expires) {
		v.tokens.Remove(sum)
		return nil
	}
	return t
}

// verify verifies a token.
func (v *Verifier) verify(ctx context.Context, text string) (*token, error) {
	t := &token{}
	var claims jwt.RegisteredClaims
	var missing error
	_, err := v.parser.ParseWithClaims(text, &claims, func(p *jwt.Token) (any, error) {
		t.key, missing = v.keyOf(ctx, p, t)
		return t.key, missing
	})
	switch {
	case errors.Is(missing, jwks.ErrNoKeys) || ctx.Err() != nil:
		f := fault.New(fault.Unavailable, "the token cannot be verified at the moment: the keys of the Privy app are not available", missing)
		f.RetryAfter = jwks.AfterFailure
		return nil, f
	case err != nil:
		return nil, refused(why(err), err)
	case len(claims.Audience) != 1:
		return nil, refused("it is for several apps", nil)
	case !strings.HasPrefix(claims.Subject, subjectForm) || len(claims.Subject) > maxSubject || !isWord(claims.Subject):
		return nil, refused("it names no user", nil)
	}
	t.subject, t.expires = strings.Clone(claims.Subject), claims.ExpiresAt.Time
	return t, nil
}

// keyOf returns the key that a token names, by its id alone: addresses and keys in a token's header are ignored.
func (v *Verifier) keyOf(ctx context.Context, p *jwt.Token, t *token) (jwks.PublicKey, error) {
	if _, has := p.Header["crit"]; has {
		return nil, errors.New("it has critical extensions")
	}
	id, ok := p.Header["kid"].(string)
	if !ok || id == "" || len(id) > jwks.MaxKeyID {
		return nil, errors.New("it names no key")
	}
	t.keyID = strings.Clone(id)
	return v.keys.Find(ctx, id)
}

// why describes what is wrong with a token.
func why(err error) string {
	for _, e := range []struct {
		is  error
		why string
	}{
		{jwks.ErrUnknownKey, jwks.ErrUnknownKey.Error()},
		{jwt.ErrTokenMalformed, "it is not a token"},
		{jwt.ErrTokenSignatureInvalid, "its signature is not the app's, or not by ES256"},
		{jwt.ErrTokenExpired, "it has expired"},
		{jwt.ErrTokenInvalidAudience, "it is for another app"},
		{jwt.ErrTokenInvalidIssuer, "it is of another issuer"},
		{jwt.ErrTokenUsedBeforeIssued, "it was issued in the future"},
		{jwt.ErrTokenNotValidYet, "it is not valid yet"},
	} {
		if errors.Is(err, e.is) {
			return e.why
		}
	}
	return "it cannot be verified"
}

func refused(why string, cause error) error {
	return fault.New(fault.InvalidAPIKey, fmt.Sprintf("the Privy token is not valid: %s", why), cause)
}

// isWord reports whether a name consists of letters, digits and the punctuation of identifiers.
func isWord(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != ':' && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
