package resolve

import (
	"cmp"
	"slices"

	"bardo.money/gateway/policy"
)

// SideNeeds are the needs of a side call, which the gateway makes for a request: its length and its minimum quality.
type SideNeeds struct {
	Input, Output int64          // tokens
	First         string         // the operator's preferred model, as Intent.First
	Quality       policy.Quality // minimum quality
}

// SideCandidates lists the candidates for a side call, such as summarizing a request's history: the operator's choice first, then by the cost of a call of that
// length. All constraints of the request apply: its security class and privacy tier, the caller's plan, the provider that it names, every required
// feature, and the privacy of first, its first candidate. Nothing is relaxed: the list is empty if no model fits.
func (r *Resolver) SideCandidates(in *policy.Intent, first *policy.Resolution, s *SideNeeds) []policy.Resolution {
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
			if c.role == lastResort || !d.serves(c) || d.fits[c.from+j] < strict || Weaker(in, first, &o.at.resolution) {
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

// sideNeed returns the intent of a side call: the request's own, except for the model and the needs of its own answer.
func (r *Resolver) sideNeed(in *policy.Intent, s *SideNeeds) policy.Intent {
	out := *in
	out.Model, out.ExcludedFamily, out.First, out.ServedBy = "", "", s.First, policy.ServedBy{}
	if out.Provider == "" {
		out.Provider, _, _ = r.pinned(in.Model, "")
	}
	out.Quality, out.MaxLatency, out.CostSensitivity, out.Effort = s.Quality, 0, 1, policy.EffortUnset
	out.Schema, out.Tools, out.Images, out.Audio, out.Video, out.Documents = false, false, false, false, false, false
	out.InputTokens, out.OutputTokens, out.Expected = s.Input, s.Output, s.Output
	return out
}

// operatorsEntry returns the operator's preferred model, at its provider; nil if none is named.
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

// sortByCost puts the chosen model first, and sorts the others by the highest cost of the call.
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
