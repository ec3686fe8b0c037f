package resolve

import (
	"cmp"
	"slices"

	"bardo.money/gateway/policy"
)

// SideNeeds is what a call needs that the gateway makes beside a request: how long it is, and how good its model must be.
type SideNeeds struct {
	Input, Output int64          // tokens
	First         string         // the model that the operator wants first, as Intent.First
	Quality       policy.Quality // the floor
}

// Side lists who could serve a call that the gateway makes beside a request, such as a summary of its history: the operator's choice first, then the
// cheapest for a call of that length. Everything that restricts the request restricts the call, too: its security class and privacy tier, whom its
// caller's plan leaves out, the provider that it names, every feature that it requires, and what first, its first candidate, has of privacy. Nothing is
// relaxed: the list is empty where nobody fits.
func (r *Resolver) Side(in *policy.Intent, first *policy.Resolution, s *SideNeeds) []policy.Resolution {
	d := rankings.Get().(*ranking) //nolint:forcetypeassert // the pool has only these
	defer d.release()
	need := r.sideNeed(in, s)
	d.r, d.n = r, newNeed(&need, r.rules)
	if d.evaluate() != nil || d.n.enclave != d.n.tier {
		return nil
	}
	chosen := d.operatorsEntry()
	var out []policy.Resolution
	for i := range d.candidates {
		c := &d.candidates[i]
		for j := range c.options {
			o := &c.options[j]
			if c.role == aside || !d.serves(c) || d.standings[c.from+j] < strict || Weaker(in, first, &o.at.resolution) {
				continue
			}
			to := o.at.resolution
			if c.diem {
				worth := to.Prices
				to.Staked, to.Prices = &worth, policy.Prices{Known: true}
			}
			out = append(out, to)
		}
	}
	sortByCost(out, chosen, s)
	return out[:min(len(out), most)]
}

// sideNeed is the intent of a call beside a request: the request's own, but for the model and for what its own answer needs.
func (r *Resolver) sideNeed(in *policy.Intent, s *SideNeeds) policy.Intent {
	out := *in
	out.Model, out.Besides, out.First, out.Kept = "", "", s.First, policy.Kept{}
	if out.Provider == "" {
		out.Provider, _, _ = r.pinned(in.Model, "")
	}
	out.Quality, out.MaxLatency, out.CostSensitivity, out.Effort = s.Quality, 0, 1, policy.EffortUnset
	out.Schema, out.Tools, out.Images, out.Audio, out.Video, out.Documents = false, false, false, false, false, false
	out.InputTokens, out.OutputTokens, out.Expected = s.Input, s.Output, s.Output
	return out
}

// operatorsEntry is the model that the operator wants first, at its provider; nil if none is named.
func (d *ranking) operatorsEntry() *entry {
	if d.n.First == "" {
		return nil
	}
	ways, err := d.r.ways(d.n.First, "")
	if err != nil || len(ways) == 0 {
		return nil
	}
	return ways[0].at
}

// sortByCost puts the chosen model first, and the others by what the call costs there at most.
func sortByCost(list []policy.Resolution, chosen *entry, s *SideNeeds) {
	is := func(to *policy.Resolution) int {
		if chosen != nil && to.Provider == chosen.resolution.Provider && to.Model == chosen.resolution.Model {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b policy.Resolution) int {
		return cmp.Or(is(&a)-is(&b), cmp.Compare(worstAt(&a, s.Input, s.Output, 1), worstAt(&b, s.Input, s.Output, 1)))
	})
}
