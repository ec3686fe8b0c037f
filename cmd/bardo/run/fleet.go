package run

import (
	"slices"
	"time"

	"bardo.money/gateway/xds/state"
)

// leaveTime is how long the clusters of a provider that was removed, or that moved, stay at least: requests that began before that may still name them. They
// stay for as long as such a request may take, since Envoy ends the calls of a module with their cluster.
const leaveTime = 5 * time.Minute

// fleet is the providers that Envoys know. Not safe for concurrent use.
type fleet struct {
	serving []state.Provider
	left    []departedProvider
	longest time.Duration // that a request may take, or might under an earlier configuration
}

// clone is a copy that later changes of f leave alone.
func (f *fleet) clone() fleet {
	return fleet{serving: slices.Clone(f.serving), left: slices.Clone(f.left), longest: f.longest}
}

type departedProvider struct {
	state.Provider
	until time.Time
}

// set makes now those that serve, and returns them with those that left a short while ago. A request to them takes total at most.
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
			f.left = append(f.left, departedProvider{p, at.Add(max(leaveTime, f.longest))})
		}
	}
	f.left = slices.DeleteFunc(f.left, func(l departedProvider) bool { return serves(l.Provider) || !at.Before(l.until) })
	f.serving, f.longest = now, max(f.longest, total)
	all := slices.Clone(now)
	for _, l := range f.left {
		all = append(all, l.Provider)
	}
	return all
}
