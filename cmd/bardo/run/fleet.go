package run

import (
	"slices"
	"time"

	"bardo.money/gateway/xds/state"
)

// leaveTime is how long the clusters of a provider that was removed, or that moved, stay: requests that began before that may still name them.
const leaveTime = 5 * time.Minute

// fleet is the providers that Envoys know. Not safe for concurrent use.
type fleet struct {
	serving []state.Provider
	left    []departedProvider
}

// clone is a copy that later changes of f leave alone.
func (f *fleet) clone() fleet {
	return fleet{serving: slices.Clone(f.serving), left: slices.Clone(f.left)}
}

type departedProvider struct {
	state.Provider
	at time.Time
}

// set makes now those that serve, and returns them with those that left a short while ago.
func (f *fleet) set(now []state.Provider, at time.Time) []state.Provider {
	among := func(all []state.Provider) func(state.Provider) bool {
		return func(p state.Provider) bool {
			return slices.ContainsFunc(all, func(q state.Provider) bool { return q.ID == p.ID })
		}
	}
	serves := among(now)
	for _, p := range f.serving {
		if !serves(p) {
			p.Disabled = true
			f.left = append(f.left, departedProvider{p, at})
		}
	}
	f.left = slices.DeleteFunc(f.left, func(l departedProvider) bool { return serves(l.Provider) || at.Sub(l.at) >= leaveTime })
	f.serving = now
	all := slices.Clone(now)
	for _, l := range f.left {
		all = append(all, l.Provider)
	}
	return all
}
