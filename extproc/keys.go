package extproc

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// Which of a provider's keys an attempt uses. Most providers have one, and nothing here happens.

// NewRing makes the ring of a provider's keys; nil where there is nothing to choose.
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

// takenKey is a key that an attempt of this exchange took.
type takenKey struct {
	provider policy.ProviderID
	ring     *keyring.Ring
	index    int
	failed   bool // its attempt's failure was noted
}

// endpoint is where an attempt goes, with the key that it uses; took is set where that is one of several. The caller holds encodeMu.
func (x *exchange) endpoint(id policy.ProviderID, p *Provider) (at provider.Endpoint, took bool) {
	at = p.Endpoint
	if p.BYOK && x.ownKey.IsSet() {
		at.Key = x.ownKey
		return at, false
	}
	if p.Ring.Len() == 0 {
		return at, false
	}
	var tried []int
	for _, k := range x.keys {
		if k.provider == id {
			tried = append(tried, k.index)
		}
	}
	i := p.Ring.Take(time.Now(), x.Affinity.Key, tried)
	x.keys = append(x.keys, takenKey{provider: id, ring: p.Ring, index: i})
	at.Key = p.Keys[i]
	return at, true
}

// id is the key's fingerprint, "" where nothing was chosen.
func (k takenKey) id() keyring.ID { return k.ring.ID(k.index) }

// dropKey gives back the key that was taken last: its attempt could not be written. The caller holds encodeMu.
func (x *exchange) dropKey() {
	last := len(x.keys) - 1
	x.keys[last].ring.Give(x.keys[last].index)
	x.keys = x.keys[:last]
}

// lastKey is the key that the exchange used last at a provider; its index is -1 if it chose none.
func (x *exchange) lastKey(id policy.ProviderID) takenKey {
	x.encodeMu.Lock()
	defer x.encodeMu.Unlock()
	for _, k := range slices.Backward(x.keys) {
		if k.provider == id {
			return k
		}
	}
	return takenKey{index: -1}
}

// failedKey is the key of the provider's attempt whose failure is noted now. Envoy makes further attempts before this side hears of the
// first: failures are noted in the order of the attempts, and each took one key.
func (x *exchange) failedKey(id policy.ProviderID) takenKey {
	x.encodeMu.Lock()
	defer x.encodeMu.Unlock()
	for i := range x.keys {
		if k := &x.keys[i]; k.provider == id && !k.failed {
			k.failed = true
			return *k
		}
	}
	return takenKey{index: -1}
}

// restKey lets the key of an attempt rest that was refused for it: the provider itself is well while another of its keys is awake.
func (x *exchange) restKey(f *upstream.Failure) (another bool) {
	if f.Kind == upstream.NotEncoded { // it took none
		return false
	}
	k := x.failedKey(f.Provider)
	if f.Kind != upstream.ByStatus {
		return false
	}
	switch f.Status {
	case http.StatusTooManyRequests:
		return k.ring.Rest(k.index, time.Now(), f.RetryAfter)
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return k.ring.Rest(k.index, time.Now(), badKeyRest)
	}
	return false
}

// hasFreshKey reports whether a provider that refused a key has another that is awake and that this exchange has not tried.
func (x *exchange) hasFreshKey(f *upstream.Failure) bool {
	if f.Kind != upstream.ByStatus || f.Status != http.StatusTooManyRequests && f.Status != http.StatusUnauthorized &&
		f.Status != http.StatusPaymentRequired && f.Status != http.StatusForbidden {
		return false
	}
	x.encodeMu.Lock()
	defer x.encodeMu.Unlock()
	var ring *keyring.Ring
	tried := map[int]bool{}
	for _, k := range x.keys {
		if k.provider == f.Provider {
			ring, tried[k.index] = k.ring, true
		}
	}
	return ring.Awake(time.Now()) > 0 && len(tried) < ring.Len()
}

// badKeyRest is how long a key rests that its provider refused; it is the longest rest there is.
const badKeyRest = time.Hour

// affinityHeader tells Envoy which of a provider's equal endpoints knows the conversation.
func (x *exchange) affinityHeader() header.List {
	if x.Affinity.Hash == 0 {
		return nil
	}
	return header.List{{Name: state.HeaderAffinity, Value: strconv.FormatUint(x.Affinity.Hash, 16)}}
}

// giveKeys ends the exchange's use of keys.
func (x *exchange) giveKeys() {
	x.encodeMu.Lock()
	defer x.encodeMu.Unlock()
	for _, k := range x.keys {
		k.ring.Give(k.index)
	}
	x.keys = nil
}
