// Package oauth verifies access tokens of an OAuth authorization server: JWTs that it has signed for one resource of this gateway (RFC 9068, RFC 8707). It maps
// the claims of a token to a key of the gateway, whose limits and rules apply. It does not know how the server's keys are fetched, nor HTTP.
package oauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/jwks"
)

// Limits of a token.
const (
	maxToken   = 16 << 10
	maxValues  = 1024 // of one claim
	leeway     = 5 * time.Second
	tokenStart = "eyJ" // of every JSON object, in base64
)

// Caller maps tokens to a key of the gateway.
type Caller struct {
	Claim  string         // "" is "sub"
	Values rule.Names     // of which the claim, a text or a list of texts, has one
	Key    policy.Account // the key's id
}

// Options configure a verifier; all are required.
type Options struct {
	Issuer  string
	Scopes  []string // that a token must have
	Callers []Caller // the first that matches decides
	Fetch   func(ctx context.Context) ([]byte, error)
	Refresh time.Duration // of the keys
	Now     func() time.Time

	// Principal returns the principal of a key; ok is false for an unknown or revoked one.
	Principal func(ctx context.Context, key policy.Account) (p policy.Principal, ok bool, err error)
}

// Verifier verifies tokens. Safe for concurrent use.
type Verifier struct {
	o      Options
	keys   *jwks.Set
	parser *jwt.Parser
}

// New returns a verifier. It does not fetch keys yet.
func New(o Options) *Verifier {
	algorithms := []string{jwks.ES256, jwks.RS256}
	return &Verifier{
		o: o, keys: jwks.New(jwks.Options{Algorithms: algorithms, Fetch: o.Fetch, Refresh: o.Refresh, Now: o.Now}),
		parser: jwt.NewParser(jwt.WithValidMethods(algorithms), jwt.WithIssuer(o.Issuer), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(leeway),
			jwt.WithTimeFunc(o.Now), jwt.WithStrictDecoding()),
	}
}

// ErrScope is the cause of the fault of a token without a required scope.
var ErrScope = errors.New("the token does not have a required scope")

// Verify returns who sent a request to one of the resources, whose names are the audiences of tokens; ok is false if the request has no token of the issuer.
// The error is a fault: InvalidAPIKey, KeyRestricted for a token that no caller matches, or without a scope, or Unavailable.
func (v *Verifier) Verify(ctx context.Context, r auth.Request, resources ...string) (p policy.Principal, ok bool, err error) {
	text, ok := auth.Credential(r.Header, tokenStart)
	if !ok || !v.names(text) {
		return p, false, nil
	}
	claims := jwt.MapClaims{}
	if err := v.parse(ctx, text, claims); err != nil {
		return p, false, err
	}
	if audience, err := claims.GetAudience(); err != nil || !slices.ContainsFunc(audience, func(a string) bool { return slices.Contains(resources, a) }) {
		return p, false, refused("it is for another resource", err)
	}
	given := append(strings.Fields(strings.Join(texts(claims["scope"]), " ")), strings.Fields(strings.Join(texts(claims["scp"]), " "))...)
	for _, s := range v.o.Scopes {
		if !slices.Contains(given, s) {
			return p, false, fault.New(fault.KeyRestricted, fmt.Sprintf("the access token does not have the scope %s", s), ErrScope)
		}
	}
	key := v.keyOf(claims)
	if key == "" {
		return p, false, fault.Newf(fault.KeyRestricted, "the user of this access token may not use this gateway: its operator can add it to mcp.oauth.callers")
	}
	p, ok, err = v.o.Principal(ctx, key)
	switch {
	case err != nil:
		return policy.Principal{}, false, fault.New(fault.Unavailable, "the key of this access token's user cannot be read at the moment", err)
	case !ok:
		return policy.Principal{}, false, fault.Newf(fault.KeyRestricted, "the key of this access token's user does not exist any more")
	}
	return p, true, auth.CheckUse(&p, r)
}

// keyOf returns the key of the first caller that the claims match; "" for none.
func (v *Verifier) keyOf(claims jwt.MapClaims) policy.Account {
	for _, c := range v.o.Callers {
		claim := c.Claim
		if claim == "" {
			claim = "sub"
		}
		if slices.ContainsFunc(texts(claims[claim]), c.Values.Match) {
			return c.Key
		}
	}
	return ""
}

// texts are the texts of a claim that is a text or a list of them.
func texts(claim any) (out []string) {
	switch c := claim.(type) {
	case string:
		return []string{c}
	case []any:
		for _, e := range c[:min(len(c), maxValues)] {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// names reports whether a token names the issuer. The token is not verified here.
func (v *Verifier) names(text string) bool {
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

// parse verifies a token, and reads its claims.
func (v *Verifier) parse(ctx context.Context, text string, claims jwt.MapClaims) error {
	var missing error
	_, err := v.parser.ParseWithClaims(text, claims, func(t *jwt.Token) (any, error) {
		var key jwks.PublicKey
		key, missing = v.signer(ctx, t)
		return key, missing
	})
	switch {
	case errors.Is(missing, jwks.ErrNoKeys) || ctx.Err() != nil:
		f := fault.New(fault.Unavailable, "the access token cannot be verified at the moment: the keys of its issuer are not available", missing)
		f.RetryAfter = jwks.AfterFailure
		return f
	case errors.Is(err, jwt.ErrTokenExpired):
		return refused("it has expired", err)
	case err != nil:
		return refused("it cannot be verified", err)
	}
	return nil
}

// signer returns the key that a token names, by its id alone: addresses and keys in a token's header are ignored.
func (v *Verifier) signer(ctx context.Context, t *jwt.Token) (jwks.PublicKey, error) {
	if _, has := t.Header["crit"]; has {
		return nil, errors.New("it has critical extensions")
	}
	id, ok := t.Header["kid"].(string)
	if !ok || id == "" || len(id) > jwks.MaxKeyID {
		return nil, errors.New("it names no key")
	}
	return v.keys.Find(ctx, strings.Clone(id))
}

func refused(why string, cause error) error {
	return fault.New(fault.InvalidAPIKey, "the access token is not valid: "+why, cause)
}
