// Package jwks has the public keys that an issuer of tokens publishes (RFC 7517), for signatures by ES256 and RS256. It does not know how they are fetched, nor
// tokens.
package jwks

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"bardo.money/gateway/internal/guard"
)

// MaxKeySet limits a key set, in bytes.
const MaxKeySet = 64 << 10

// Limits of a key set, and of how often it is fetched.
const (
	MaxKeys      = 32
	MaxKeyID     = 128             // bytes
	AfterFailure = 5 * time.Second // until the fetch is retried

	FetchTime    = 3 * time.Second
	AfterSuccess = time.Minute    // until an unknown key id causes another fetch
	MaxAge       = 24 * time.Hour // age after which a set that cannot be refreshed is not used any more
)

// The errors of Find.
var (
	ErrUnknownKey = errors.New("the token is signed with a key that its issuer does not have")
	ErrNoKeys     = errors.New("the issuer's keys cannot be fetched")
)

// The algorithms of signatures.
const (
	ES256 = "ES256"
	RS256 = "RS256"
)

// PublicKey is a public key: *ecdsa.PublicKey or *rsa.PublicKey.
type PublicKey interface{ Equal(x crypto.PublicKey) bool }

// Options configure a set; all are required.
type Options struct {
	Algorithms []string                                  // whose keys are used
	Fetch      func(ctx context.Context) ([]byte, error) // returns the key set; bytes beyond MaxKeySet are not needed
	Refresh    time.Duration                             // age at which the keys are fetched again
	Now        func() time.Time
}

// Set holds an issuer's public keys. Waiting is bounded: a known key never waits, and unknown ones share one fetch a minute. Safe for concurrent use.
type Set struct {
	o Options

	current    atomic.Pointer[fetched]
	flights    singleflight.Group
	refreshing atomic.Bool

	mu     sync.Mutex
	next   time.Time // no fetch before
	failed bool      // the last fetch failed
}

// New returns a set. It does not fetch keys yet.
func New(o Options) *Set { return &Set{o: o} }

// fetched are the keys of one fetch. Immutable.
type fetched struct {
	keys map[string]PublicKey
	at   time.Time
}

// Known returns a key that is cached and not too old; nil if there is none.
func (k *Set) Known(id string) PublicKey {
	set := k.current.Load()
	if set == nil || k.o.Now().Sub(set.at) >= MaxAge {
		return nil
	}
	return set.keys[id]
}

// Find returns the key of an id. The error is ErrUnknownKey, ErrNoKeys or the context's.
func (k *Set) Find(ctx context.Context, id string) (PublicKey, error) {
	if key := k.Known(id); key != nil {
		k.RefreshLater()
		return key, nil
	}
	flight := k.flights.DoChan("", k.fetch(ctx))
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case done := <-flight:
		if key := k.Known(id); key != nil {
			return key, nil
		}
		if done.Err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoKeys, done.Err)
		}
	}
	return nil, ErrUnknownKey
}

// RefreshLater fetches a set that is older than Options.Refresh again, in the background.
func (k *Set) RefreshLater() {
	if k.o.Now().Sub(k.current.Load().at) < k.o.Refresh || !k.refreshing.CompareAndSwap(false, true) {
		return
	}
	guard.Go(func() {
		defer k.refreshing.Store(false)
		_, _, _ = k.flights.Do("", k.fetch(context.Background()))
	})
}

// errTriedBefore replaces the failure of a fetch that is too recent to be repeated.
var errTriedBefore = errors.New("the last fetch failed a moment ago")

// fetch is fetchIfDue for k.flights, which would end the process after a panic.
func (k *Set) fetch(ctx context.Context) func() (any, error) {
	return func() (any, error) { return nil, guard.Err(func() error { return k.fetchIfDue(ctx) })() }
}

// fetchIfDue fetches the set, unless the last fetch was too recent.
func (k *Set) fetchIfDue(ctx context.Context) error {
	if due, failed := k.due(); !due {
		if failed {
			return errTriedBefore
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FetchTime)
	defer cancel()
	b, err := k.o.Fetch(ctx)
	var keys map[string]PublicKey
	if err == nil {
		keys, err = Parse(b, k.o.Algorithms)
	}
	k.ended(err)
	if err == nil {
		k.current.Store(&fetched{keys, k.o.Now()})
	}
	return err
}

func (k *Set) due() (due, failed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.o.Now().Before(k.next), k.failed
}

func (k *Set) ended(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wait := AfterSuccess
	if k.failed = err != nil; k.failed {
		wait = AfterFailure
	}
	k.next = k.o.Now().Add(wait)
}

// Key is a key of a set (RFC 7517).
type Key struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	X         string `json:"x"`
	Y         string `json:"y"`
	N         string `json:"n,omitempty"`
	E         string `json:"e,omitempty"`
}

// Parse reads the keys of a key set for some algorithms. Others are skipped.
func Parse(b []byte, algorithms []string) (map[string]PublicKey, error) {
	if len(b) > MaxKeySet {
		return nil, errors.New("the key set is too long")
	}
	var set struct {
		Keys []Key `json:"keys"`
	}
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, errors.New("the key set is not JSON of the expected form")
	}
	if len(set.Keys) > MaxKeys {
		return nil, fmt.Errorf("the key set has more than %d keys", MaxKeys)
	}
	keys := map[string]PublicKey{}
	for i := range set.Keys {
		j := &set.Keys[i]
		alg, key := j.public()
		if key == nil || !slices.Contains(algorithms, alg) {
			continue
		}
		if keys[j.ID] != nil {
			return nil, errors.New("the key set has two keys of one id")
		}
		keys[j.ID] = key
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key that can be used")
	}
	return keys, nil
}

// public returns the key and the algorithm that it is for; nil for one that is not for signatures by ES256 or RS256.
func (j *Key) public() (alg string, key PublicKey) {
	if j.ID == "" || len(j.ID) > MaxKeyID || j.Use != "" && j.Use != "sig" {
		return "", nil
	}
	switch {
	case j.Type == "EC" && j.Curve == "P-256" && (j.Algorithm == "" || j.Algorithm == ES256):
		if key := j.ec(); key != nil {
			return ES256, key
		}
	case j.Type == "RSA" && (j.Algorithm == "" || j.Algorithm == RS256):
		if key := j.rsa(); key != nil {
			return RS256, key
		}
	}
	return "", nil
}

// ec returns the point; nil if it is not on the curve.
func (j *Key) ec() *ecdsa.PublicKey {
	const size = 32
	x, errX := base64.RawURLEncoding.DecodeString(j.X)
	y, errY := base64.RawURLEncoding.DecodeString(j.Y)
	if errX != nil || errY != nil || len(x) != size || len(y) != size {
		return nil
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
	if err != nil {
		return nil
	}
	return key
}

// Sizes of RSA keys, in bits.
const minRSA, maxRSA = 2048, 8192

// rsa returns the key; nil if it is malformed, or too short or long.
func (j *Key) rsa() *rsa.PublicKey {
	n, errN := base64.RawURLEncoding.DecodeString(j.N)
	e, errE := base64.RawURLEncoding.DecodeString(j.E)
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	if errN != nil || errE != nil || modulus.BitLen() < minRSA || modulus.BitLen() > maxRSA || exponent.BitLen() > 31 || exponent.Int64() < 3 || exponent.Bit(0) == 0 {
		return nil
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}
}
