package resolve

import "bardo.money/gateway/policy"

// byOrder is the ordered resolver: whoever comes first of those that fit.
func (d *draft) byOrder() {
	ladder, own := ladderOf(d.n.Intent)
	if d.n.named {
		ladder, own = nil, false
	}
	later := own || d.funded()
	if !later {
		d.operatorsChoice()
	}
	d.climb(specialist, ladder)
	d.climb(generalist, ladder)
	if later {
		d.operatorsChoice()
	}
	d.climb(aside, ladder)
	if !d.n.named {
		d.alternatives(ladder != nil)
	}
	for _, at := range [...]role{specialist, generalist, aside} {
		for i := range d.chairs {
			if c := &d.chairs[i]; c.role == at && !c.picked {
				d.take(c, ladder, relaxed)
			}
		}
	}
}

// funded tells whether a wallet's earnings were given to the part of an agent that asks.
func (d *draft) funded() bool {
	for i := range d.chairs {
		if d.chairs[i].ceiling > 0 {
			return true
		}
	}
	return false
}

// operatorsChoice is the model that the operator wants first for the tier, where it may serve the request at all.
func (d *draft) operatorsChoice() {
	if d.n.First == "" || d.n.named {
		return
	}
	ways, err := d.r.ways(d.n.First, "")
	if err != nil {
		return
	}
	for i := range ways {
		c := &d.chairs[ways[i].at.seat]
		if c.role != barred && d.n.never(c, &ways[i].at.option) == lacksNothing {
			d.add(c, ways[i].at, &ways[i], 0, "inference.tiers names it")
		}
	}
}

// climb asks the providers of a role, in their order, for each kind of model in turn, and those that have none for any.
func (d *draft) climb(at role, ladder []rung) {
	for k := range ladder {
		for i := range d.chairs {
			if c := &d.chairs[i]; c.role == at {
				d.pick(c, &ladder[k], strict, nil)
			}
		}
	}
	for i := range d.chairs {
		if c := &d.chairs[i]; c.role == at && !c.picked {
			d.pick(c, &anything, strict, nil)
		}
	}
}

// take picks one model of a provider: of the first kind that it has.
func (d *draft) take(c *chair, ladder []rung, pass standing) {
	for k := range ladder {
		if d.pick(c, &ladder[k], pass, nil) {
			return
		}
	}
	d.pick(c, &anything, pass, nil)
}

// enough is how many ways to serve a request there should be, for when some fail. A ladder says itself where it ends, if it has two rungs.
const (
	enough      = 4
	enoughRungs = 2
)

// alternatives are models of other families, as long as there are too few ways: what one family's host cannot serve, another's may.
func (d *draft) alternatives(ladder bool) {
	enough := enough
	if ladder {
		enough = enoughRungs
	}
	for _, at := range [...]role{specialist, generalist} {
		for i := range d.chairs {
			c := &d.chairs[i]
			if len(d.picks) == 0 || len(d.picks) >= enough || c.role != at {
				continue
			}
			d.pick(c, &anything, strict, d.picks)
		}
	}
}

// pick adds the best model that a provider has for a kind and a pass, if it has one; not one of the families that others have.
func (d *draft) pick(c *chair, k *rung, pass standing, others []pick) bool {
	if !d.serves(c) {
		return false
	}
	best := d.best(c, k, pass, others)
	if best == nil {
		return false
	}
	c.picked = true
	d.add(c, best.at, c.way, 0, d.because(c, k, pass, others != nil))
	return true
}

// best is the best model of a provider for a kind and a pass, nil if there is none. Only models count of which no other costs as little
// and gives as much: those are met in the order of their costs, each giving more than all before.
func (d *draft) best(c *chair, k *rung, pass standing, others []pick) *option {
	g := d.gift(pass)
	same := d.first(c)
	var f front
	standings := d.standings[c.from:][:len(c.options)]
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
		if count++; count%2 == 1 { // the middle of what was met moves on with every second
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
	return f.best(unit(d.n.CostSensitivity), dear*c.cost(&c.options[middle]))
}

// dear is how many times the median of what candidates cost is as dear as can be: beyond it, all are.
const dear = 2

// first is the first choice of the order where only costs are compared: another provider of its model comes before all.
func (d *draft) first(c *chair) *entry {
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

// gift says what part of what is wanted an option gives, 0 to 1: of the features, and in the relaxed pass of the quality, too.
type gift struct {
	wanted set
	each   float64
	floor  policy.Quality
}

func (d *draft) gift(pass standing) (g gift) {
	g.wanted = d.n.prefer
	if pass == relaxed {
		g.wanted, g.floor = g.wanted|d.n.require, d.n.Quality
	}
	parts := g.wanted.count()
	if g.floor > policy.QualityUnsaid {
		parts++
	}
	g.each = 1 / float64(max(parts, 1))
	return g
}

func (g *gift) of(o *option) float64 {
	given := float64((g.wanted & o.has).count())
	if g.floor > policy.QualityUnsaid {
		given += min(float64(o.quality)/float64(g.floor), 1)
	}
	return given * g.each
}

// front are the options of which none costs as little and gives as much as another, in the order of their costs.
type front struct {
	options [32]*option // a gift has fewer values
	costs   [32]float64
	gifts   [32]float64
	n       int
}

// add takes the options in the order of their costs.
func (f *front) add(o *option, cost, given float64) {
	switch {
	case f.n > 0 && given <= f.gifts[f.n-1]:
		return
	case f.n > 0 && cost == f.costs[f.n-1]:
		f.n-- // as cheap, and gives less
	case f.n == len(f.options):
		return
	}
	f.options[f.n], f.costs[f.n], f.gifts[f.n] = o, cost, given
	f.n++
}

// best is the option for which what it costs less what it gives is least, as far as either matters. Costs are taken from 0 to 1, which is
// a cost of most (D-13).
func (f *front) best(sensitivity, most float64) *option {
	var best *option
	var least float64
	for i := range f.n {
		cost := 0.0
		if f.costs[i] > 0 {
			cost = unit(f.costs[i] / most)
		}
		if v := sensitivity*cost - (1-sensitivity)*f.gifts[i]; best == nil || v < least {
			best, least = f.options[i], v
		}
	}
	return best
}

// unit clamps a number to [0, 1]; what is no number is 0.
func unit(f float64) float64 {
	if f > 0 {
		return min(f, 1)
	}
	return 0
}

// because is why a pick stands in the order.
func (d *draft) because(c *chair, k *rung, pass standing, other bool) string {
	switch {
	case !d.aloud:
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
