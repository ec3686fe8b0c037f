package cognition

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// TokenLife is how long a token of the stream is valid.
const TokenLife = 5 * time.Minute

// maxToken bounds a token, in bytes.
const maxToken = 512

// tokenLabel separates the key of tokens from other uses of the secret.
const tokenLabel = "venice-stream-token/1"

// Tokens issues and checks the stream's tokens. Browsers cannot send headers with an event stream, so a short-lived token in the address replaces the
// key. Safe for concurrent use.
type Tokens struct {
	Secret func() []byte
}

// Token names the account whose stream may be followed, and the expiry.
type Token struct {
	Account policy.Account `json:"a"`
	Expires int64          `json:"e"` // Unix time in seconds; 0: never, of a development token
	Local   bool           `json:"l"` // a development token: only valid on this machine
}

// Issue returns a signed token.
func (t *Tokens) Issue(of Token) string {
	payload, err := json.Marshal(of)
	if err != nil { // it always marshals
		return ""
	}
	text := base64.RawURLEncoding.EncodeToString(payload)
	return text + "." + base64.RawURLEncoding.EncodeToString(t.sum(text))
}

func (t *Tokens) sum(text string) []byte {
	key := hmac.New(sha256.New, t.Secret())
	key.Write([]byte(tokenLabel))
	m := hmac.New(sha256.New, key.Sum(nil))
	m.Write([]byte(text))
	return m.Sum(nil)
}

// Check verifies a token. loopback reports whether the caller is on this machine. The error is a fault.
func (t *Tokens) Check(text string, loopback bool, now time.Time) (Token, error) {
	payload, signed, ok := strings.Cut(text, ".")
	if !ok || len(text) > maxToken || !hmac.Equal([]byte(signed), []byte(base64.RawURLEncoding.EncodeToString(t.sum(payload)))) { // exactly as issued, in no other spelling
		return Token{}, fault.Newf(fault.InvalidAPIKey, "the token was not issued by this gateway")
	}
	var of Token
	b, err := base64.RawURLEncoding.DecodeString(payload)
	if err == nil {
		err = json.Unmarshal(b, &of)
	}
	if err != nil {
		return Token{}, fault.New(fault.InvalidAPIKey, "the token cannot be read", err)
	}
	switch {
	case of.Local && !loopback:
		return Token{}, fault.Newf(fault.InvalidAPIKey, "a development token is valid on the gateway's machine alone")
	case !of.Local && now.Unix() >= of.Expires:
		return Token{}, fault.Newf(fault.InvalidAPIKey, "the token has expired: POST /venice/stream-token issues another")
	}
	return of, nil
}
