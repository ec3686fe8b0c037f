package auth

import (
	"context"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// sessionPrefix is the prefix of session keys.
const sessionPrefix = "bardo_ss_"

// Sessions finds the principal of a session's key. Safe for concurrent use.
type Sessions interface {
	// Principal returns the principal of a key; ok is false for a key of another kind. The error is a fault for a key that is no longer valid.
	Principal(ctx context.Context, key string) (p policy.Principal, ok bool, err error)
}

// SessionKeys verifies the keys of sessions, from the headers of API keys. Safe for concurrent use.
type SessionKeys struct{ Sessions Sessions }

var (
	_ Verifier  = SessionKeys{}
	_ Immediate = SessionKeys{}
)

// Verify implements Verifier.
func (k SessionKeys) Verify(ctx context.Context, r Request) (p policy.Principal, ok bool, err error) {
	text, ok := Credential(r.Header, sessionPrefix)
	if !ok {
		return p, false, nil
	}
	p, _, err = k.Sessions.Principal(ctx, text)
	if err != nil {
		return policy.Principal{}, false, fault.From(err)
	}
	if err := CheckUse(&p, r); err != nil {
		return policy.Principal{}, false, err
	}
	return p, true, nil
}

// Immediate implements Immediate: sessions are read from their store.
func (SessionKeys) Immediate(r Request) bool {
	_, ok := Credential(r.Header, sessionPrefix)
	return !ok
}
