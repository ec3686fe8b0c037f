// Package hashcache is layer L3, the exact-match cache of answers. It decides which requests are cacheable, looks up stored answers and stores new ones. The
// data path serves them.
package hashcache

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/jsonx"
)

// Mode is which requests are cacheable in addition to those with X-Bardo-Cache: force.
type Mode string

// The modes.
const (
	On  Mode = "on"  // those with a temperature of at most maxTemperature
	Off Mode = "off" // none, not even with force
	All Mode = "all" // all generation requests
)

// maxTemperature is the highest temperature at which a stored answer is considered equivalent to a new one.
const maxTemperature = 0.3

const budget = 8 * time.Millisecond

// Name is the layer's name in X-Bardo-Pipeline.
const Name = "l3"

// Layer is the hash cache over a store.
type Layer struct {
	Store *cache.Store
	Mode  Mode          // "" means On
	Pool  bool          // keys of the free plan share answers
	TTL   time.Duration // how long an answer is fresh; with zero, stored answers are only used when all providers fail
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Budgeted  = Layer{}
	_ pipeline.Waiting   = Layer{}
	_ pipeline.Responder = Layer{}
)

// Name is the layer's name in X-Bardo-Pipeline.
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileMinimal, pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles implements pipeline.Layer.
func (Layer) Profiles() []string { return profiles }

// Budget is the expected time of a lookup, mostly for computing the key. A lookup that takes longer is still used: a hit saves more.
func (Layer) Budget() time.Duration { return budget }

// Waits reports whether the request may wait for a store that gateways share.
func (l Layer) Waits(x *pipeline.Exchange) bool { return l.Store.Waits() && l.Applies(x) }

// Applies reports whether the request may be cacheable.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	if l.Mode == Off || x.Request.Op != chat.Generate {
		return false
	}
	return l.Mode == All || x.Header.Has(cache.Header) || repeatable(x)
}

// Request looks up the request. A fresh entry becomes the answer; otherwise the answer will be recorded.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	control, err := cache.ParseControl(x.Header)
	if err != nil {
		return err
	}
	control.NoLookup = control.NoLookup || x.Hints.NoCache
	if !x.MayShare() {
		control.Off = true // clients without a key share one partition (D-05)
	}
	if x.ForEnclave() {
		control.Off = true // an attestation covers only a new answer of the enclave (D-30)
	}
	cacheable := control.Force || l.Mode == All || repeatable(x)
	if control.Off || !cacheable {
		return nil
	}
	r := x.Request
	tenant := x.CacheTenant(l.Pool)
	x.CacheLayer = l.Name()
	x.Cache = l.Store.Ticket(tenant, cache.KeyOf(tenant, r), cache.Format{Dialect: r.Dialect, Stream: r.Stream}, control, l.TTL)
	x.Cache.Current, x.Cache.Market, x.Cache.Private = x.Current, x.Market, x.KeepsNothing()
	if x.Answer = x.Cache.Fresh(ctx); x.Answer == nil && x.Cache.Records() {
		x.Watch(l.Name(), l)
	}
	return nil
}

// Response records the answer.
func (Layer) Response(_ context.Context, x *pipeline.Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error) {
	x.Cache.Record(ev)
	if ev.Kind == chat.End {
		x.Cache.Finish(*x.Served)
	}
	return append(out, *ev), nil
}

// repeatable reports whether the request's temperature, the client's or its profile's, allows a stored answer. Requests for reasoning are not repeatable, nor are
// those with a high effort by their profile. A lower effort of a profile does not count: the same observation of an agent's heartbeat has the same answer.
func repeatable(x *pipeline.Exchange) bool {
	r := x.Request
	t, ok := jsonx.Value{Raw: jsonx.Raw(r.Temperature())}.Float()
	switch {
	case !ok || t > maxTemperature:
		return false
	case r.HasThinking() || r.Profile == nil:
		return !r.Thinking || r.ThinkingOff()
	}
	return !r.HighEffort || r.SetsTemperature() || len(x.Found) > 0 && x.Found[0].Reasoning == noReasoning
}

// noReasoning is policy.Resolution.Reasoning of a model that ignores efforts.
const noReasoning = "none"
