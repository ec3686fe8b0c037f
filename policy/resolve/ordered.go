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
	var best *option
	var least float64
	w := d.weigher(c, pass)
	standings := d.standings[c.from:][:len(c.options)]
	for i := range c.options {
		o := &c.options[i]
		if standings[i] < pass || !o.has.has(k.has) || others != nil && has(others, o) {
			continue
		}
		if v := w.weigh(o); best == nil || v < least {
			best, least = o, v
		}
	}
	if best == nil {
		return false
	}
	c.picked = true
	d.add(c, best.at, c.way, 0, d.because(c, k, pass, others != nil))
	return true
}

func has(picks []pick, o *option) bool {
	for i := range picks {
		if picks[i].at.option.family == o.family {
			return true
		}
	}
	return false
}

// weigher weighs the options of one provider in one pass: what an option costs less what it gives, as far as either matters. The least
// is the best (D-13). Costs are compared with the dearest candidate's, features with all that are wanted, and in the relaxed pass the
// quality with the one that is wanted.
type weigher struct {
	wanted  set
	cost    float64 // for each unit of cost
	feature float64 // for each feature
	quality float64 // for all of the quality that is wanted
	floor   policy.Quality
	same    *entry // the first choice, where only costs are compared: another provider of its model comes before all
}

func (d *draft) weigher(c *chair, pass standing) (w weigher) {
	cs := unit(d.n.CostSensitivity)
	if c.cheapest {
		cs = 1
		if len(d.picks) > 0 {
			w.same = d.picks[0].at
		}
	}
	if dearest := d.dearest[pass]; dearest > 0 && !c.diem {
		w.cost = cs / dearest
	}
	w.wanted = d.n.prefer
	parts := w.wanted.count()
	if pass == relaxed {
		w.wanted |= d.n.require
		parts = w.wanted.count()
		if w.floor = d.n.Quality; w.floor > policy.QualityUnsaid {
			parts++
		}
	}
	if parts > 0 {
		w.feature = (1 - cs) / float64(parts)
		w.quality = w.feature
	}
	return w
}

func (w *weigher) weigh(o *option) float64 {
	if w.same != nil && o.family == w.same.option.family && o.at.name == w.same.name {
		return -1
	}
	v := o.cost*w.cost - float64((w.wanted&o.has).count())*w.feature
	if w.floor > policy.QualityUnsaid {
		v -= min(float64(o.quality)/float64(w.floor), 1) * w.quality
	}
	return v
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
