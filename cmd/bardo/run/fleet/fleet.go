// Package fleet computes what Envoys are told of a configuration: its providers, ordered by health, with the clusters of those that were removed recently.
package fleet

import (
	"fmt"
	"slices"
	"time"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/xds/health"
	"bardo.money/gateway/xds/state"
)

// removalDelay is the minimum time that the clusters of a removed or moved provider are kept, since requests in flight may still name them. They are kept for
// as long as such a request may take, because Envoy ends a module's calls when their cluster is removed.
const removalDelay = 5 * time.Minute

// Fleet is the providers that Envoys have clusters for. Not safe for concurrent use.
type Fleet struct {
	serving []state.Provider
	removed []removedProvider
	longest time.Duration // the longest time that a request may take, in this or an earlier configuration
}

// Clone returns an independent copy.
func (f *Fleet) Clone() Fleet {
	return Fleet{serving: slices.Clone(f.serving), removed: slices.Clone(f.removed), longest: f.longest}
}

type removedProvider struct {
	state.Provider
	until time.Time
}

// set sets the providers in use, and returns them together with those removed recently. total bounds a request's duration.
func (f *Fleet) set(now []state.Provider, at time.Time, total time.Duration) []state.Provider {
	among := func(all []state.Provider) func(state.Provider) bool {
		return func(p state.Provider) bool {
			return slices.ContainsFunc(all, func(q state.Provider) bool { return q.ID == p.ID })
		}
	}
	serves := among(now)
	for _, p := range f.serving {
		if !serves(p) {
			p.Disabled = true
			f.removed = append(f.removed, removedProvider{p, at.Add(max(removalDelay, f.longest))})
		}
	}
	f.removed = slices.DeleteFunc(f.removed, func(l removedProvider) bool { return serves(l.Provider) || !at.Before(l.until) })
	f.serving, f.longest = now, max(f.longest, total)
	all := slices.Clone(now)
	for _, l := range f.removed {
		all = append(all, l.Provider)
	}
	return all
}

// State is the state of a configuration at the time now, without its certificate and the settings local to an Envoy. It also records the providers in use.
func (f *Fleet) State(cfg *config.Config, tracker *health.Tracker, now time.Time) (state.State, error) {
	st := state.State{
		MaxBodyBytes: uint64(cfg.Limits.MaxBodyBytes), //nolint:gosec // validated as positive
		CORSOrigins:  cfg.Listen.CORSOrigins,
		CAPath:       cfg.Providers.CAFile,
		AccessLog:    cfg.Telemetry.LogLevel == "debug",
		Timeouts:     envoyTimeouts(cfg),
	}
	enabled := cfg.Enabled()
	for _, id := range tracker.Order(now, settings.ProviderIDs(cfg)) {
		st.Order = append(st.Order, settings.ClusterID(cfg, enabled[slices.IndexFunc(enabled, func(p config.Provider) bool { return p.ID == id })]))
	}
	for _, p := range enabled {
		sp := state.Provider{ID: settings.ClusterID(cfg, p), Realtime: p.HasRealtime(), Disabled: tracker.Disabled(p.ID)}
		if sp.Demo = p.Kind == config.KindDemo; !sp.Demo {
			sp.Connect, sp.CAPath, sp.Proxy = cfg.Routing.Timeouts.Connect, cfg.Providers.CAFile, cfg.ProxyOf(&p)
		}
		for _, u := range p.Endpoints {
			e, err := state.ParseEndpoint(u.String())
			if err != nil {
				return st, fmt.Errorf("provider %s: %w", p.ID, err)
			}
			sp.Endpoints = append(sp.Endpoints, e)
		}
		st.Providers = append(st.Providers, sp)
	}
	for _, c := range settings.HookClusters(cfg) {
		e, err := state.ParseEndpoint(c.URL.String())
		if err != nil {
			return st, fmt.Errorf("hook %s: %w", c.ID, err)
		}
		st.Providers = append(st.Providers, state.Provider{ID: c.ID, Disabled: true, Endpoints: []state.Endpoint{e}}) // no request is routed there
	}
	st.Providers = f.set(st.Providers, now, cfg.Routing.Timeouts.Total)
	return st, nil
}

// uploadMargin is how much later than the sidecar Envoy times out an upload, so that the sidecar answers, in the client's format.
const uploadMargin = 30 * time.Second

func envoyTimeouts(cfg *config.Config) state.Timeouts {
	t := state.Timeouts{Connect: cfg.Routing.Timeouts.Connect, Upload: cfg.Limits.BodyTotal + uploadMargin}
	if wait := cfg.Limits.BodyIdle + uploadMargin; wait > state.ClientIdle {
		t.Client = wait
	}
	return t
}
