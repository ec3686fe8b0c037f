package privy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
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
	maxKeys      = 32
	maxKeyID     = 128
	fetchTime    = 3 * time.Second
	afterSuccess = time.Minute     // until an unknown key id causes another fetch
	afterFailure = 5 * time.Second // until the fetch is retried
	maxAge       = 24 * time.Hour  // age after which a set that cannot be refreshed is not used any more
)

var (
	errUnknownKey = errors.New("the token is signed with a key that the app does not have")
	errNoKeys     = errors.New("the app's keys cannot be fetched")
)

// keySet holds an app's public keys. Waiting is bounded: a known key never waits, and unknown ones share one fetch a minute. Safe for concurrent use.
type keySet struct {
	fetch   func(ctx context.Context) ([]byte, error)
	refresh time.Duration
	now     func() time.Time

	current    atomic.Pointer[fetched]
	flights    singleflight.Group
	refreshing atomic.Bool

	mu     sync.Mutex
	next   time.Time // no fetch before
	failed bool      // the last fetch failed
}

// fetched are the keys of one fetch. Immutable.
type fetched struct {
	keys map[string]*ecdsa.PublicKey
	at   time.Time
}

// known returns a key that is cached and not too old; nil if there is none.
func (k *keySet) known(id string) *ecdsa.PublicKey {
	set := k.current.Load()
	if set == nil || k.now().Sub(set.at) >= maxAge {
		return nil
	}
	return set.keys[id]
}

// find returns the key of an id. The error is errUnknownKey, errNoKeys or the context's.
func (k *keySet) find(ctx context.Context, id string) (*ecdsa.PublicKey, error) {
	if key := k.known(id); key != nil {
		k.refreshLater()
		return key, nil
	}
	flight := k.flights.DoChan("", func() (any, error) { return nil, k.fetchIfDue(ctx) })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case done := <-flight:
		if key := k.known(id); key != nil {
			return key, nil
		}
		if done.Err != nil {
			return nil, fmt.Errorf("%w: %w", errNoKeys, done.Err)
		}
	}
	return nil, errUnknownKey
}

// refreshLater fetches a set that is older than refresh again, in the background.
func (k *keySet) refreshLater() {
	if k.now().Sub(k.current.Load().at) < k.refresh || !k.refreshing.CompareAndSwap(false, true) {
		return
	}
	guard.Go(func() {
		defer k.refreshing.Store(false)
		_, _, _ = k.flights.Do("", func() (any, error) { return nil, k.fetchIfDue(context.Background()) })
	})
}

// errTriedBefore replaces the failure of a fetch that is too recent to be repeated.
var errTriedBefore = errors.New("the last fetch failed a moment ago")

// fetchIfDue fetches the set, unless the last fetch was too recent.
func (k *keySet) fetchIfDue(ctx context.Context) error {
	if due, failed := k.due(); !due {
		if failed {
			return errTriedBefore
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	b, err := k.fetch(ctx)
	var keys map[string]*ecdsa.PublicKey
	if err == nil {
		keys, err = parseKeys(b)
	}
	k.ended(err)
	if err == nil {
		k.current.Store(&fetched{keys, k.now()})
	}
	return err
}

func (k *keySet) due() (due, failed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.now().Before(k.next), k.failed
}

func (k *keySet) ended(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wait := afterSuccess
	if k.failed = err != nil; k.failed {
		wait = afterFailure
	}
	k.next = k.now().Add(wait)
}

// jsonKey is a key of a set (RFC 7517).
type jsonKey struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	X         string `json:"x"`
	Y         string `json:"y"`
}

// parseKeys reads the ES256 keys of a key set. Others are skipped.
func parseKeys(b []byte) (map[string]*ecdsa.PublicKey, error) {
	if len(b) > MaxKeySet {
		return nil, errors.New("the key set is too long")
	}
	var set struct {
		Keys []jsonKey `json:"keys"`
	}
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, errors.New("the key set is not JSON of the expected form")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has more than %d keys", maxKeys)
	}
	keys := map[string]*ecdsa.PublicKey{}
	for i := range set.Keys {
		j := &set.Keys[i]
		key := j.public()
		if key == nil {
			continue
		}
		if keys[j.ID] != nil {
			return nil, errors.New("the key set has two keys of one id")
		}
		keys[j.ID] = key
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key for ES256")
	}
	return keys, nil
}

// public returns the key, nil if it is not an ES256 key.
func (j *jsonKey) public() *ecdsa.PublicKey {
	const size = 32
	if j.Type != "EC" || j.Curve != "P-256" || j.ID == "" || len(j.ID) > maxKeyID || j.Use != "" && j.Use != "sig" || j.Algorithm != "" && j.Algorithm != "ES256" {
		return nil
	}
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
