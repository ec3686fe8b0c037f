// Package auth authenticates requests by the credentials in their headers. It does not know paths, so that no spelling of a path changes a
// decision, nor HTTP servers or the key store.
package auth

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Request is the input of a verifier.
type Request struct {
	Header header.List
	Client netip.Addr // the client's address; the zero value is outside every network

	Method, Path string // only for proofs that cover them; the path is normalised, with the query

	Read *Reading // nil: the key is parsed at each use of the request
}

// Reading caches a request's parsed key and MAC, for a second verification. The zero value is ready, for one request. Not safe for concurrent use.
type Reading struct {
	key    Key
	err    error
	mac    mac
	parsed bool
	hashed bool
}

// parse is Parse, once per request. text is the request's key.
func (r *Reading) parse(text string) (Key, error) {
	if r == nil {
		return Parse(text)
	}
	if !r.parsed || r.key.text != text {
		*r = Reading{parsed: true}
		if r.key, r.err = Parse(text); r.err != nil {
			r.key.text = text
		}
	}
	return r.key, r.err
}

// macOf returns the MAC of the key's secret, computed once per request.
func (r *Reading) macOf(k Key, p *Pepper) mac {
	if r == nil || r.key != k {
		return p.mac(k)
	}
	if !r.hashed {
		r.mac, r.hashed = p.mac(k), true
	}
	return r.mac
}

// Verifier is one authentication scheme.
type Verifier interface {
	// Verify returns the principal of a request; ok is false if this scheme does not apply. An invalid credential is a fault of kind InvalidAPIKey,
	// one that must not be used from this address KeyRestricted, and an unavailable store Unavailable. Safe for concurrent use.
	Verify(ctx context.Context, r Request) (p policy.Principal, ok bool, err error)
}

// Chain tries verifiers in order. The first one that applies decides: a failed credential is not tried with another scheme. Safe for concurrent
// use.
type Chain []Verifier

var _ Verifier = Chain(nil)

// Verify returns the decision of the first verifier that applies; ok is false when none does.
func (c Chain) Verify(ctx context.Context, r Request) (p policy.Principal, ok bool, err error) {
	for _, v := range c {
		if p, ok, err = v.Verify(ctx, r); ok || err != nil {
			return p, ok, err
		}
	}
	return policy.Principal{}, false, nil
}

// Immediate is implemented by verifiers that can report in advance whether Verify returns without waiting for a store or a hash. Safe for concurrent
// use.
type Immediate interface {
	Immediate(r Request) bool
}

var _ Immediate = Chain(nil)

// Immediate reports whether all verifiers are immediate.
func (c Chain) Immediate(r Request) bool {
	for _, v := range c {
		if i, ok := v.(Immediate); !ok || !i.Immediate(r) {
			return false
		}
	}
	return true
}

// Missing returns the fault for a request to which no scheme applied. Its message distinguishes an unknown credential from none.
func Missing(h header.List) *fault.Fault {
	for _, name := range header.GatewayKeys() {
		if h.Get(name) != "" {
			return fault.New(fault.InvalidAPIKey, "this is not a key of this gateway: its keys begin with "+keyPrefix, nil)
		}
	}
	return fault.New(fault.InvalidAPIKey, "no API key was sent: use the x-api-key header or Authorization: Bearer", nil)
}

// placeholderKey is a placeholder key: clients that pay per request send it, because their library requires a key.
const placeholderKey = "x402"

// IsKey reports whether a request carries a key of this gateway. The key then identifies the request's account.
func IsKey(h header.List) bool {
	if _, ok := Credential(h, keyPrefix); ok {
		return true
	}
	_, ok := Credential(h, publicStart)
	return ok
}

// Sent reports whether a request carries a credential of any kind.
func Sent(h header.List) bool {
	if h.Has(header.Delegation) {
		return true
	}
	for _, name := range header.GatewayKeys() {
		if s := bearer(h.Get(name)); s != "" && s != placeholderKey {
			return true
		}
	}
	return false
}

// MayGenerate returns a fault for read-only principals.
func MayGenerate(p policy.Principal) error {
	if p.ReadOnly {
		return fault.New(fault.KeyRestricted, "this key is read-only: it can read models, balance and usage, but not generate", nil)
	}
	return nil
}

// Credential returns the first credential that starts with prefix, without "Bearer".
func Credential(h header.List, prefix string) (string, bool) {
	for _, name := range header.GatewayKeys() {
		s := bearer(h.Get(name))
		if strings.HasPrefix(s, prefix) {
			return s, true
		}
	}
	return "", false
}

// bearer trims white space and the scheme's name, whose case does not matter, from a header's value.
func bearer(s string) string {
	const scheme = "bearer "
	s = strings.TrimSpace(s)
	if len(s) >= len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) {
		s = strings.TrimSpace(s[len(scheme):])
	}
	return s
}

// CheckUse refuses an expired key, and one used from an address or a web page that it is not restricted to.
func CheckUse(p *policy.Principal, r Request) error {
	if p.Scope.Expired(time.Now()) {
		return fault.Newf(fault.InvalidAPIKey, "this API key expired at %s", p.Scope.Expires.UTC().Format(time.RFC3339))
	}
	if err := checkNetworks(p.Networks, r.Client); err != nil {
		return err
	}
	if !p.Scope.AllowsOrigin(r.Header.Get("origin")) {
		return fault.New(fault.KeyRestricted, "this key can only be used by web pages of the origins that it is for", nil)
	}
	return nil
}

// checkNetworks refuses addresses outside a key's networks.
func checkNetworks(networks []netip.Prefix, client netip.Addr) error {
	if len(networks) == 0 {
		return nil
	}
	client = client.Unmap().WithZone("")
	for _, n := range networks {
		if n.Contains(client) {
			return nil
		}
	}
	return fault.New(fault.KeyRestricted, "this key cannot be used from this address", nil)
}
