// Package hashcache is layer L3: a question that was asked before, to the letter, gets the answer that was given then. It decides
// which requests are fit for that, looks the answer up, and keeps new ones. It does not serve them: that is the data path's part.
package hashcache

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Mode says which requests are fit for the cache besides those whose callers ask for it.
type Mode string

// The modes.
const (
	On  Mode = "on"  // those of a temperature that leaves little to chance
	Off Mode = "off" // none, whatever the caller asks
	All Mode = "all" // all
)

// maxTemperature is the highest one at which two answers are as good as one.
const maxTemperature = 0.3

const budget = 8 * time.Millisecond

// Layer is the hash cache over a store.
type Layer struct {
	Store *cache.Store
	Mode  Mode          // "" means On
	TTL   time.Duration // for how long an answer is fresh; zero means never: then it only stands in for providers that fail
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Budgeted  = Layer{}
	_ pipeline.Responder = Layer{}
)

// Name is the layer's name in X-Bardo-Pipeline.
func (Layer) Name() string { return "l3" }

// Budget is what looking for an answer may take. Most of it goes into the question's key, and a key that is there is used, however long it
// took: a hit saves more.
func (Layer) Budget() time.Duration { return budget }

// Applies reports whether the request may have to do with the cache.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	if l.Mode == Off || x.Request.Op != chat.Generate {
		return false
	}
	return l.Mode == All || x.Header.Has(cache.Header) || repeatable(x.Request)
}

// Request looks the question up. What it finds is the answer; what it does not find will be kept.
func (l Layer) Request(_ context.Context, x *pipeline.Exchange) error {
	control, err := cache.ParseControl(x.Header)
	if err != nil {
		return err
	}
	control.NoLookup = control.NoLookup || x.Hints.NoCache
	if x.Principal.Account == "" && x.Hints.SecurityClass != policy.SecurityStandard {
		control.Off = true // callers without a key share what is stored (D-05)
	}
	if x.Intent.PrivacyTier >= policy.PrivacyTEE {
		control.Off = true // a receipt covers the enclave's own answer (D-30)
	}
	fit := control.Force || l.Mode == All || repeatable(x.Request)
	if control.Off || !fit {
		return nil
	}
	r := x.Request
	tenant := x.Principal.Account // callers without a key are one tenant: ""
	x.Keeper = l.Name()
	x.Cache = l.Store.Ask(tenant, cache.KeyOf(tenant, r), cache.Form{Dialect: r.Dialect, Stream: r.Stream}, control, l.TTL)
	x.Cache.Current = x.Current
	if x.Answer = x.Cache.Fresh(); x.Answer == nil && x.Cache.Records() {
		x.Watch(l.Name(), l)
	}
	return nil
}

// Response keeps the answer.
func (Layer) Response(_ context.Context, x *pipeline.Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error) {
	x.Cache.Record(ev)
	if ev.Kind == chat.End {
		x.Cache.Finish(*x.Served)
	}
	return append(out, *ev), nil
}

// repeatable reports whether a request says by itself that any of its answers will do. Its temperature, the client's own or its
// profile's, counts only where it is sure to take effect: models that think take none, or ignore it.
func repeatable(r *chat.Request) bool {
	if r.Thinking {
		return false
	}
	t, ok := jsonx.Value{Raw: jsonx.Raw(r.Temperature())}.Float()
	return ok && t <= maxTemperature
}
