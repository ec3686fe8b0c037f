package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Row is a key's row in the store.
type Row struct {
	Principal policy.Principal // the key's principal; its Account is the key's id
	Hash      string           // Pepper.Hash of the key
	Revoked   bool
}

// Store holds the keys. Safe for concurrent use.
type Store interface {
	// Key returns a key's row by its id; ok is false if there is none.
	Key(ctx context.Context, id string) (row Row, ok bool, err error)
	// Generation is incremented within a second after any process added, changed or revoked a row; a row that is read afterwards shows the
	// change. It is called once per request and must not block.
	Generation() uint64
}

// Options are the limits of APIKeys. The zero value works.
type Options struct {
	CachedProofs int           // limit of cached proofs; zero means 65,536
	Hashers      int           // concurrent bcrypt runs; zero means 2
	ProofTimeout time.Duration // timeout of verifying the first request of a key; zero means 10 seconds
}

// APIKeys verifies bardo_sk_ keys from the x-api-key header or Authorization: Bearer, in this order.
//
// The first request of a key runs bcrypt; afterwards its MAC is cached, and a request costs one HMAC and one lookup. After the store's generation
// changed, a key's row is read again at its next request, and bcrypt runs again only if the hash differs. While the store cannot be read, a key is what it
// was when it was read last. Safe for concurrent use.
type APIKeys struct {
	store         Store
	pepper        *Pepper
	proofs        *lru.Cache[string, *proof]  // by key id
	refused       *lru.Cache[claim, struct{}] // refused by bcrypt
	flights       singleflight.Group
	hashers       chan struct{}
	lookupTimeout time.Duration
}

var (
	_ Verifier  = (*APIKeys)(nil)
	_ Immediate = (*APIKeys)(nil)
)

// claim is a key's id and the MAC of the secret that came with it.
type claim struct {
	id  string
	mac mac
}

// proof records that a MAC matches a row, as of a generation of the store. Immutable. A revoked key keeps its proof, so that further use of it is
// refused cheaply.
type proof struct {
	mac        mac
	row        Row
	generation uint64
}

// NewAPIKeys returns a verifier of the keys in a store.
func NewAPIKeys(store Store, pepper *Pepper, o Options) (*APIKeys, error) {
	if o.CachedProofs == 0 {
		o.CachedProofs = 1 << 16
	}
	if o.Hashers == 0 {
		o.Hashers = 2
	}
	if o.ProofTimeout == 0 {
		o.ProofTimeout = 10 * time.Second
	}
	proofs, err := lru.New[string, *proof](o.CachedProofs)
	if err != nil {
		return nil, fmt.Errorf("API keys: %w", err)
	}
	refused, err := lru.New[claim, struct{}](1024)
	if err != nil {
		return nil, fmt.Errorf("API keys: %w", err)
	}
	return &APIKeys{
		store: store, pepper: pepper, proofs: proofs, refused: refused,
		hashers: make(chan struct{}, o.Hashers), lookupTimeout: o.ProofTimeout,
	}, nil
}

// Verify returns the principal of the key that the request carries; ok is false when it carries none.
func (a *APIKeys) Verify(ctx context.Context, r Request) (p policy.Principal, ok bool, err error) {
	text, ok := Credential(r.Header, brand)
	if !ok {
		return policy.Principal{}, false, nil
	}
	key, err := Parse(text)
	if err != nil {
		return policy.Principal{}, false, fault.New(fault.InvalidAPIKey, err.Error(), nil)
	}
	proof, err := a.prove(ctx, key)
	if err != nil {
		return policy.Principal{}, false, err
	}
	if proof.row.Revoked {
		return policy.Principal{}, false, fault.New(fault.InvalidAPIKey, "this API key was revoked", nil)
	}
	if err := CheckNetworks(proof.row.Principal.Networks, r.Client); err != nil {
		return policy.Principal{}, false, err
	}
	return proof.row.Principal, true, nil
}

// Immediate reports whether the key's proof is cached and current, or there is no key to look up.
func (a *APIKeys) Immediate(r Request) bool {
	text, ok := Credential(r.Header, brand)
	if !ok {
		return true
	}
	key, err := Parse(text)
	if err != nil {
		return true
	}
	known, ok := a.proofs.Peek(key.id)
	return ok && known.generation == a.store.Generation()
}

// prove returns the cached proof of a key if it is of the store's current generation.
func (a *APIKeys) prove(ctx context.Context, key Key) (*proof, error) {
	m := a.pepper.mac(key)
	known, ok := a.proofs.Get(key.id)
	if !ok || known.generation != a.store.Generation() {
		return a.proveOnce(ctx, claim{strings.Clone(key.id), m})
	}
	if !known.is(&m) {
		return nil, errInvalid(nil)
	}
	return known, nil
}

func (p *proof) is(m *mac) bool { return subtle.ConstantTimeCompare(p.mac[:], m[:]) == 1 }

// proveOnce shares one verification between concurrent requests with a key. It does not end with the request that started it, but with
// ProofTimeout.
func (a *APIKeys) proveOnce(ctx context.Context, c claim) (*proof, error) {
	flight := a.flights.DoChan(c.id+string(c.mac[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.lookupTimeout)
		defer cancel()
		return a.proveFromStore(ctx, c)
	})
	select {
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "the request ended before its API key was verified", ctx.Err())
	case done := <-flight:
		p, _ := done.Val.(*proof)
		return p, done.Err
	}
}

// proveFromStore reads the key's row and checks the claim against it.
func (a *APIKeys) proveFromStore(ctx context.Context, c claim) (*proof, error) {
	generation := a.store.Generation() // before the row: a change in between is seen at the next request
	row, ok, err := a.store.Key(ctx, c.id)
	if known, before := a.proofs.Peek(c.id); err != nil && before && known.is(&c.mac) {
		return known, nil // nobody can revoke it meanwhile, either
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "API keys cannot be verified at the moment", fmt.Errorf("key %s: %w", c.id, err))
	}
	if !ok {
		a.proofs.Remove(c.id)
		return nil, errInvalid(errUnknown)
	}
	if err := a.check(ctx, c, row.Hash); err != nil {
		return nil, err
	}
	p := &proof{mac: c.mac, row: row, generation: generation}
	a.proofs.Add(c.id, p)
	return p, nil
}

// check compares the claim with the row's hash; bcrypt only runs if nothing cheaper decides.
func (a *APIKeys) check(ctx context.Context, c claim, hash string) error {
	if known, ok := a.proofs.Peek(c.id); ok && known.row.Hash == hash {
		if known.is(&c.mac) {
			return nil
		}
		return errInvalid(nil)
	}
	if !c.mac.mayMatch(hash) || a.refused.Contains(c) {
		return errInvalid(nil)
	}
	select {
	case a.hashers <- struct{}{}:
		defer func() { <-a.hashers }()
	case <-ctx.Done():
		f := fault.New(fault.Overloaded, "too many API keys are being verified for the first time", ctx.Err())
		f.RetryAfter = time.Second
		return f
	}
	if !c.mac.matches(hash) {
		a.refused.Add(c, struct{}{})
		return errInvalid(nil)
	}
	return nil
}

var errUnknown = errors.New("no key has this id")

func errInvalid(cause error) *fault.Fault {
	return fault.New(fault.InvalidAPIKey, "the API key is not valid", cause)
}
