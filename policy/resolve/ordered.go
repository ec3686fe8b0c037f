package resolve

import "bardo.money/gateway/policy"

// byOrder is the ordered resolver: the first provider that fits.
func (d *ranking) byOrder() {
	ladder, own := ladderOf(d.n.Intent)
	if d.n.named {
		ladder, own = nil, false
	}
	later := own || d.funded()
	if !later {
		d.operatorsChoice()
	}
	d.byLadder(specialist, ladder)
	d.byLadder(generalist, ladder)
	if later {
		d.operatorsChoice()
	}
	d.byLadder(lastResort, ladder)
	if !d.n.named {
		d.alternatives(ladder != nil)
	}
	for _, at := range [...]role{specialist, generalist, lastResort} {
		for i := range d.candidates {
			if c := &d.candidates[i]; c.role == at && !c.picked {
				d.take(c, ladder, relaxed)
			}
		}
	}
}

// funded reports whether a wallet's earnings pay for the request's subsystem.
func (d *ranking) funded() bool {
	for i := range d.candidates {
		if d.candidates[i].ceiling > 0 {
			return true
		}
	}
	return false
}

// operatorsChoice puts the operator's model for the tier first, if it may serve the request.
func (d *ranking) operatorsChoice() {
	if d.n.First == "" || d.n.named {
		return
	}
	ways, err := d.r.ways(d.n.First, "")
	if err != nil {
		return
	}
	for i := range ways {
		c := &d.candidates[ways[i].at.provider]
		if c.role != barred && d.n.excluded(c, &ways[i].at.option) == lacksNothing {
			d.add(c, ways[i].at, &ways[i], 0, "inference.tiers names it")
		}
	}
}

// byLadder searches the providers of a role, in order, for each model tier in turn; then those without any for any model.
func (d *ranking) byLadder(at role, ladder []modelTier) {
	for k := range ladder {
		for i := range d.candidates {
			if c := &d.candidates[i]; c.role == at {
				d.pick(c, &ladder[k], strict, nil)
			}
		}
	}
	for i := range d.candidates {
		if c := &d.candidates[i]; c.role == at && !c.picked {
			d.pick(c, &anything, strict, nil)
		}
	}
}

// take picks one model of a provider: the first tier of the ladder that it has.
func (d *ranking) take(c *candidate, ladder []modelTier, pass fit) {
	for k := range ladder {
		if d.pick(c, &ladder[k], pass, nil) {
			return
		}
	}
	d.pick(c, &anything, pass, nil)
}

// enough is the number of candidates to aim for, as fallbacks. A ladder with at least two tiers ends without further ones.
const (
	enough      = 4
	enoughTiers = 2
)

// alternatives adds models of other families while there are too few candidates, in case a whole family is down.
func (d *ranking) alternatives(ladder bool) {
	enough := enough
	if ladder {
		enough = enoughTiers
	}
	for _, at := range [...]role{specialist, generalist} {
		for i := range d.candidates {
			c := &d.candidates[i]
			if len(d.picks) == 0 || len(d.picks) >= enough || c.role != at {
				continue
			}
			d.pick(c, &anything, strict, d.picks)
		}
	}
}

// pick adds a provider's best model of a tier for a pass, if there is one, excluding the families of others.
func (d *ranking) pick(c *candidate, k *modelTier, pass fit, others []pick) bool {
	if !d.serves(c) {
		return false
	}
	best := d.best(c, k, pass, others)
	if best == nil {
		return false
	}
	c.picked = true
	d.add(c, best.at, c.way, 0, d.reason(c, k, pass, others != nil))
	return true
}

// best is a provider's best model of a tier for a pass, nil if there is none. Only the Pareto front of cost and coverage is considered: options
// in the order of cost, each with more coverage than all before.
func (d *ranking) best(c *candidate, k *modelTier, pass fit, others []pick) *option {
	g := d.coverage(pass)
	same := d.first(c)
	var f front
	standings := d.fits[c.from:][:len(c.options)]
	fits := func(i int) bool {
		o := &c.options[i]
		return standings[i] >= pass && o.has.has(k.has) && (others == nil || !has(others, o))
	}
	middle, count := -1, 0
	for i := range c.options {
		if !fits(i) {
			continue
		}
		o := &c.options[i]
		if same != nil && o.family == same.option.family && o.at.name == same.name {
			return o
		}
		f.add(o, c.cost(o), g.of(o))
		if count++; count%2 == 1 { // the median advances with every second option
			for middle++; !fits(middle); middle++ {
			}
		}
	}
	switch {
	case count == 0:
		return nil
	case c.cheapest:
		return f.options[0]
	}
	return f.best(unit(d.n.CostSensitivity), maxCostFactor*c.cost(&c.options[middle]))
}

// maxCostFactor times the median cost is the highest cost on the scale; higher costs count as equal to it.
const maxCostFactor = 2

// first returns the first candidate of the order if only costs are compared: another provider of its model precedes all.
func (d *ranking) first(c *candidate) *entry {
	if !c.cheapest || len(d.picks) == 0 {
		return nil
	}
	return d.picks[0].at
}

func has(picks []pick, o *option) bool {
	for i := range picks {
		if picks[i].at.option.family == o.family {
			return true
		}
	}
	return false
}

// coverage computes the share of the requested features that an option has, 0 to 1, in the relaxed pass also of the quality.
type coverage struct {
	wanted set
	weight float64
	floor  policy.Quality
}

func (d *ranking) coverage(pass fit) (g coverage) {
	g.wanted = d.n.prefer
	if pass == relaxed {
		g.wanted, g.floor = g.wanted|d.n.require, d.n.Quality
	}
	parts := g.wanted.count()
	if g.floor > policy.QualityUnset {
		parts++
	}
	g.weight = 1 / float64(max(parts, 1))
	return g
}

func (g *coverage) of(o *option) float64 {
	given := float64((g.wanted & o.has).count())
	if g.floor > policy.QualityUnset {
		given += min(float64(o.quality)/float64(g.floor), 1)
	}
	return given * g.weight
}

// front is the Pareto front of options by cost and coverage, in the order of cost.
type front struct {
	options   [32]*option // coverage has fewer values
	costs     [32]float64
	coverages [32]float64
	n         int
}

// add adds an option; options must be added in the order of cost.
func (f *front) add(o *option, cost, given float64) {
	switch {
	case f.n > 0 && given <= f.coverages[f.n-1]:
		return
	case f.n > 0 && cost == f.costs[f.n-1]:
		f.n-- // equally cheap with less coverage
	case f.n == len(f.options):
		return
	}
	f.options[f.n], f.costs[f.n], f.coverages[f.n] = o, cost, given
	f.n++
}

// best minimises sensitivity × cost − coverage. Costs are scaled to 0 to 1, where 1 is a cost of most (D-13).
func (f *front) best(sensitivity, most float64) *option {
	var best *option
	var lowest float64
	for i := range f.n {
		cost := 0.0
		if f.costs[i] > 0 {
			cost = unit(f.costs[i] / most)
		}
		if v := sensitivity*cost - (1-sensitivity)*f.coverages[i]; best == nil || v < lowest {
			best, lowest = f.options[i], v
		}
	}
	return best
}

// unit clamps a number to [0, 1]; NaN is 0.
func unit(f float64) float64 {
	if f > 0 {
		return min(f, 1)
	}
	return 0
}

// reason returns the reason for a pick's position.
func (d *ranking) reason(c *candidate, k *modelTier, pass fit, other bool) string {
	switch {
	case !d.explain:
		return ""
	case d.n.named:
		return d.whyNamed(c)
	}
	why := k.why
	switch {
	case other:
		why = "another family, in case the others fail"
	case pass == relaxed:
		why = "requirements are relaxed to preferences"
	case c.role == specialist:
		return c.why
	}
	return why
}
