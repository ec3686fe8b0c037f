package run

import (
	"slices"
	"time"

	"bardo.money/gateway/xds/state"
)

// removalDelay is the minimum time that the clusters of a removed or moved provider are kept, since requests in flight may still name them. They are kept for
// as long as such a request may take, because Envoy ends a module's calls when their cluster is removed.
const removalDelay = 5 * time.Minute

// fleet is the providers that Envoys have clusters for. Not safe for concurrent use.
type fleet struct {
	serving []state.Provider
	removed []removedProvider
	longest time.Duration // the longest time that a request may take, in this or an earlier configuration
}

// clone returns an independent copy.
func (f *fleet) clone() fleet {
	return fleet{serving: slices.Clone(f.serving), removed: slices.Clone(f.removed), longest: f.longest}
}

type removedProvider struct {
	state.Provider
	until time.Time
}

// set sets the providers in use, and returns them together with those removed recently. total bounds a request's duration.
func (f *fleet) set(now []state.Provider, at time.Time, total time.Duration) []state.Provider {
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
