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
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
)

// Row is a key's row in the store.
type Row struct {
	Principal policy.Principal // the key's principal; its Account is the key's id
	Hash      string           // Pepper.Hash of the key
	Revoked   bool

	OldHash  string    // of the replaced secret; "" for none
	OldUntil time.Time // the replaced secret is refused from this time on
}

// takesOld reports whether the replaced secret is still valid.
func (r *Row) takesOld(now time.Time) bool { return r.OldHash != "" && now.Before(r.OldUntil) }

// ended reports whether the replaced secret has expired.
func (r *Row) ended(now time.Time) bool { return r.OldHash != "" && !now.Before(r.OldUntil) }

// Store holds the keys. Safe for concurrent use.
type Store interface {
	// Key returns a key's row by its id; ok is false if there is none.
	Key(ctx context.Context, id string) (row Row, ok bool, err error)
	// Generation is incremented within a second after any process added, changed or revoked a row; a row that is read afterwards shows the change. It
	// is called once per request and must not block.
	Generation() uint64
}

// Options are the limits of APIKeys. The zero value works.
type Options struct {
	CachedProofs int           // limit of cached proofs; zero means 65,536
	Hashers      int           // concurrent bcrypt runs; zero means 2
	ProofTimeout time.Duration // timeout of verifying the first request of a key; zero means 10 seconds
}

// APIKeys verifies bardo_sk_ and bardo_pk_ keys from the x-api-key header or Authorization: Bearer, in this order.
//
// The first request of a key runs bcrypt; afterwards its MAC is cached, and a request costs one HMAC and one lookup. After the store's generation
// changed, a key's row is read again at its next request, and bcrypt runs again only if the hash differs. While the store cannot be read, the last
// row that was read stays in effect. Safe for concurrent use.
type APIKeys struct {
	store         Store
	pepper        *Pepper
	proofs        *lru.Cache[slot, *proof]
	refused       *lru.Cache[claim, struct{}] // refused by bcrypt
	flights       singleflight.Group
	hashers       chan struct{}
	lookupTimeout time.Duration
}

var (
	_ Verifier  = (*APIKeys)(nil)
	_ Immediate = (*APIKeys)(nil)
)

// claim is a key's id and the MAC of the secret that was sent.
type claim struct {
	id  string
	mac mac
}

// slot identifies a cached proof: the replaced secret of a key has its own.
type slot struct {
	id  string
	old bool
}

// proof records that a MAC matches a row, as of a generation of the store. Immutable. A revoked key keeps its proof, so that further use of it is
// refused cheaply.
type proof struct {
	mac        mac
	hash       string // the hash that it matches: the row's, or its old one
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
	proofs, err := lru.New[slot, *proof](o.CachedProofs)
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
	key, err := r.Read.parse(text)
	if err != nil {
		return policy.Principal{}, false, fault.New(fault.InvalidAPIKey, err.Error(), nil)
	}
	proof, err := a.prove(ctx, key, r.Read)
	if err != nil {
		return policy.Principal{}, false, err
	}
	if proof.row.Revoked {
		return policy.Principal{}, false, fault.New(fault.InvalidAPIKey, "this API key was revoked", nil)
	}
	if key.Publishable() != proof.row.Principal.Publishable {
		return policy.Principal{}, false, errInvalid(errKind)
	}
	if err := CheckUse(&proof.row.Principal, r); err != nil {
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
	key, err := r.Read.parse(text)
	if err != nil {
		return true
	}
	known, ok := a.proofs.Peek(slot{id: key.id})
	if !ok || known.generation != a.store.Generation() {
		return false
	}
	if !known.row.takesOld(time.Now()) {
		if m := r.Read.macOf(key, a.pepper); !m.mayMatch(known.row.OldHash) {
			return true
		}
	}
	old, ok := a.proofs.Peek(slot{key.id, true})
	return ok && old.generation == known.generation
}

// prove returns the cached proof of a key if it is of the store's current generation.
func (a *APIKeys) prove(ctx context.Context, key Key, read *Reading) (*proof, error) {
	m, generation, now := read.macOf(key, a.pepper), a.store.Generation(), time.Now()
	known, ok := a.proofs.Get(slot{id: key.id})
	current := ok && known.generation == generation
	if current && known.is(&m) {
		return known, nil
	}
	if current && !known.row.takesOld(now) && !m.mayMatch(known.row.OldHash) {
		return nil, errInvalid(nil)
	}
	old, ok := a.proofs.Get(slot{key.id, true})
	if ok && old.generation == generation && old.row.ended(now) && old.is(&m) {
		return nil, errReplaced(&old.row)
	}
	if ok && old.generation == generation && old.row.takesOld(now) && old.is(&m) {
		return old, nil
	}
	if current && ok && old.generation == generation {
		return nil, errInvalid(nil)
	}
	return a.proveOnce(ctx, claim{strings.Clone(key.id), m})
}

func (p *proof) is(m *mac) bool { return subtle.ConstantTimeCompare(p.mac[:], m[:]) == 1 }

// proveOnce shares one verification between concurrent requests with a key. It is not cancelled with the request that started it; it is limited by
// ProofTimeout.
func (a *APIKeys) proveOnce(ctx context.Context, c claim) (*proof, error) {
	flight := a.flights.DoChan(c.id+string(c.mac[:]), func() (p any, err error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.lookupTimeout)
		defer cancel()
		err = guard.Err(func() (err error) { // a panic here would end the process
			p, err = a.proveFromStore(ctx, c)
			return err
		})()
		return p, err
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
	generation := a.store.Generation() // before the row is read, so that a change in between is seen at the next request
	row, ok, err := a.store.Key(ctx, c.id)
	if known := a.known(c); err != nil && known != nil && (known.hash == known.row.Hash || known.row.takesOld(time.Now())) {
		return known, nil // without the store no key can be revoked in the meantime, either
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "API keys cannot be verified at the moment", fmt.Errorf("key %s: %w", c.id, err))
	}
	if !ok {
		a.proofs.Remove(slot{id: c.id})
		a.proofs.Remove(slot{c.id, true})
		return nil, errInvalid(errUnknown)
	}
	old := false
	err = a.check(ctx, c, row.Hash)
	if isInvalid(err) && row.OldHash != "" { // even after it expired: its holder is told that it was replaced
		old, err = true, a.check(ctx, c, row.OldHash)
		if err != nil && row.ended(time.Now()) {
			err = errInvalid(err) // even where bcrypt is busy: it is refused in any case
		}
	}
	if err != nil {
		return nil, err
	}
	p := &proof{mac: c.mac, hash: row.Hash, row: row, generation: generation}
	if old {
		p.hash = row.OldHash
	}
	a.proofs.Add(slot{c.id, old}, p)
	if old && row.ended(time.Now()) {
		return nil, errReplaced(&row)
	}
	return p, nil
}

// known returns the proof of a claim, of any generation; nil if there is none.
func (a *APIKeys) known(c claim) *proof {
	for _, old := range [...]bool{false, true} {
		if p, ok := a.proofs.Peek(slot{c.id, old}); ok && p.is(&c.mac) {
			return p
		}
	}
	return nil
}

func isInvalid(err error) bool {
	f, ok := errors.AsType[*fault.Fault](err)
	return ok && f.Kind == fault.InvalidAPIKey
}

// check compares the claim with the row's hash. bcrypt runs only if nothing cheaper decides.
func (a *APIKeys) check(ctx context.Context, c claim, hash string) error {
	for _, old := range [...]bool{false, true} {
		if known, ok := a.proofs.Peek(slot{c.id, old}); ok && known.hash == hash {
			if known.is(&c.mac) {
				return nil
			}
			return errInvalid(nil)
		}
	}
	if !c.mac.mayMatch(hash) || a.refused.Contains(claim{c.id + hash, c.mac}) {
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
		a.refused.Add(claim{c.id + hash, c.mac}, struct{}{})
		return errInvalid(nil)
	}
	return nil
}

// Causes of refusals, for the log.
var (
	errUnknown = errors.New("no key has this id")
	errKind    = errors.New("the key's prefix is not that of the key with this id")
)

func errInvalid(cause error) *fault.Fault {
	return fault.New(fault.InvalidAPIKey, "the API key is not valid", cause)
}

// errReplaced is returned only to a client that sent the whole replaced secret: others must not learn that a newer one exists.
func errReplaced(r *Row) *fault.Fault {
	if r.Revoked {
		return errInvalid(nil)
	}
	return fault.New(fault.InvalidAPIKey, "the API key is not valid: its secret was replaced by a rotation, and has not counted since "+r.OldUntil.UTC().Format(time.RFC3339), nil)
}
