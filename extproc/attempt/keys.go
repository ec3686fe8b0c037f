package attempt

import (
	"net/http"
	"slices"
	"time"

	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

// Selection of a provider's key for an attempt. Most providers have one key and no ring; TakenKey is empty then.

// NewRing returns the ring of a provider's keys; nil for fewer than two.
func NewRing(keys []provider.Secret) *keyring.Ring {
	if len(keys) < 2 {
		return nil
	}
	ids := make([]keyring.ID, len(keys))
	for i, k := range keys {
		ids[i] = keyring.Fingerprint(k.Reveal())
	}
	return keyring.New(ids)
}

// TakenKey is a key that an attempt of the request took.
type TakenKey struct {
	provider policy.ProviderID
	ring     *keyring.Ring
	index    int  // -1: none was chosen
	failed   bool // its attempt's failure was recorded
	released bool // it no longer counts as in use
}

// ID returns the key's fingerprint; "" if none was chosen.
func (k TakenKey) ID() keyring.ID { return k.ring.ID(k.index) }

// endpointFor returns the provider's endpoint with the key of this attempt; took: the key was acquired from a ring. The caller holds w.mu.
func (w *Writer) endpointFor(v *request.View, id policy.ProviderID, p *runtime.Provider) (at provider.Endpoint, acquired bool) {
	at = p.Endpoint
	if v.OwnKey.IsSet() && v.OwnKey.Provider == id {
		at.Key = v.OwnKey.Key
		return at, false
	}
	if p.Ring.Len() == 0 {
		return at, false
	}
	var used []int
	for _, k := range w.keys {
		if k.provider == id {
			used = append(used, k.index)
		}
	}
	i := p.Ring.Acquire(time.Now(), v.Affinity.Key, used)
	w.keys = append(w.keys, TakenKey{provider: id, ring: p.Ring, index: i})
	at.Key = p.Keys[i]
	return at, true
}

// Endpoint returns a provider's endpoint with an acquired key, for a call that Write does not encode.
func (w *Writer) Endpoint(v *request.View, id policy.ProviderID) provider.Endpoint {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := v.Config.Provider(id)
	at, _ := w.endpointFor(v, id, p)
	return at
}

// dropKey releases the key that was taken last, because its attempt could not be encoded. The caller holds w.mu.
func (w *Writer) dropKey() {
	last := len(w.keys) - 1
	w.keys[last].ring.Release(w.keys[last].index)
	w.keys = w.keys[:last]
}

// releaseKeys releases the keys in use, each once. The caller holds w.mu.
func (w *Writer) releaseKeys() {
	for i := range w.keys {
		if k := &w.keys[i]; !k.released {
			k.released = true
			k.ring.Release(k.index)
		}
	}
}

// LastKey returns the key that the request used last at a provider.
func (w *Writer) LastKey(id policy.ProviderID) TakenKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range slices.Backward(w.keys) {
		if k.provider == id {
			return k
		}
	}
	return TakenKey{index: -1}
}

// failedKey returns the key of the provider's attempt whose failure is being recorded. Envoy may make further attempts before the first failure is
// known here: failures are recorded in the order of the attempts, and each attempt took one key.
func (w *Writer) failedKey(id policy.ProviderID) TakenKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.keys {
		if k := &w.keys[i]; k.provider == id && !k.failed {
			k.failed = true
			return *k
		}
	}
	return TakenKey{index: -1}
}

// badKeyCooldown is the cooldown of a key that its provider refused. The ring limits it to its own maximum, 5 minutes.
const badKeyCooldown = time.Hour

// CoolDownKey starts the cooldown of the key of a refused attempt (401, 402, 403, 429). It reports whether another of the provider's keys is
// available: then the failure does not count against the provider's health.
func (w *Writer) CoolDownKey(f *upstream.Failure) (another bool) {
	if f.Kind == upstream.NotEncoded { // it took no key
		return false
	}
	k := w.failedKey(f.Provider)
	if f.Kind != upstream.ByStatus {
		return false
	}
	switch f.Status {
	case http.StatusTooManyRequests:
		return k.ring.Cooldown(k.index, time.Now(), f.RetryAfter)
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return k.ring.Cooldown(k.index, time.Now(), badKeyCooldown)
	}
	return false
}

// HasFreshKey reports whether a provider that refused a key has another available one that this request has not used.
func (w *Writer) HasFreshKey(f *upstream.Failure) bool {
	if f.Kind != upstream.ByStatus || f.Status != http.StatusTooManyRequests && f.Status != http.StatusUnauthorized &&
		f.Status != http.StatusPaymentRequired && f.Status != http.StatusForbidden {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var ring *keyring.Ring
	used := map[int]bool{}
	for _, k := range w.keys {
		if k.provider == f.Provider {
			ring, used[k.index] = k.ring, true
		}
	}
	return ring.Available(time.Now()) > 0 && len(used) < ring.Len()
}
