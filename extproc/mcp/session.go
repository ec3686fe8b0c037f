package mcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"

	"bardo.money/gateway/policy"
)

// A session's id is a random number and its MAC with the account: only the account that it was made for can use it, and every gateway with the same secret
// knows it, also after a restart. The gateway stores no sessions, only those that it has opened at servers.

// nonce is the random number of a session; the zero value is no session.
type nonce [16]byte

// macSize is the size of the MAC in a session's id, in bytes.
const macSize = 16

// newSession returns the id of a new session of an account.
func (g *Gateway) newSession(a policy.Account) string {
	var n nonce
	_, _ = rand.Read(n[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(append(n[:], g.mac(a, n)...))
}

// session returns the random number of a session's id; ok is false if the id is not of a session of this account, or the session has ended.
func (g *Gateway) session(a policy.Account, id string) (n nonce, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(b) != len(n)+macSize {
		return n, false
	}
	if copy(n[:], b); !hmac.Equal(b[len(n):], g.mac(a, n)) || g.ended.Contains(n) {
		return nonce{}, false
	}
	return n, true
}

func (g *Gateway) mac(a policy.Account, n nonce) []byte {
	h := hmac.New(sha256.New, g.Secret())
	h.Write([]byte("mcp session\x00" + string(a) + "\x00"))
	h.Write(n[:])
	return h.Sum(nil)[:macSize]
}
