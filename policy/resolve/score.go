package resolve

import (
	"cmp"
	"math"
	"slices"
	"time"

	"bardo.money/gateway/policy"
)

// byScore is the backend scorer: the best model of each provider; those that have all required features come first, then by score.
func (d *ranking) byScore() {
	if d.n.isAuto() {
		d.chooseAuto()
		return
	}
	d.scoreAt(strict)
	strictly := len(d.picks)
	d.rank(d.picks)
	d.scoreAt(relaxed)
	d.rank(d.picks[strictly:])
}

// scoreAt adds the best model of each provider that has none yet.
func (d *ranking) scoreAt(pass fit) {
	m := d.measure(pass)
	for i := range d.candidates {
		c := &d.candidates[i]
		if c.picked || !d.serves(c) {
			continue
		}
		var best *option
		var highest float64
		for i := range c.options {
			if d.fits[c.from+i] < pass {
				continue
			}
			if s := m.score(c, i); best == nil || s > highest {
				best, highest = &c.options[i], s
			}
		}
		if best == nil {
			continue
		}
		c.picked = true
		d.add(c, best.at, c.way, highest, d.reason(c, &byItsScore, pass, false))
	}
}

var byItsScore = modelTier{why: "by its score"}

// rank sorts by score. Equal scores are in the order of the backends (D-10), then in the configured order.
func (d *ranking) rank(picks []pick) {
	slices.SortStableFunc(picks, func(a, b pick) int {
		if c := cmp.Compare(b.score, a.score); c != 0 {
			return c
		}
		return cmp.Compare(backend(a.c), backend(b.c))
	})
}

// lastRank is the rank of users' own keys among equal scores: after all others.
const lastRank = math.MaxInt

// backend returns a provider's rank among equal scores.
func backend(c *candidate) int {
	if c.direct() {
		return lastRank
	}
	return c.p.Traits.Rank
}

// weights are the weights of cost, quality, latency and features. They sum to 1.
type weights struct{ cost, quality, latency, features float64 }

// weightsAt returns the weights for a cost sensitivity of 0 to 1: a higher one increases the weight of cost and decreases the others.
func weightsAt(cs float64) weights {
	w := weights{cost: 0.25 + 0.35*cs, quality: 0.40 - 0.20*cs, latency: 0.15, features: 0.20 - 0.10*cs}
	total := w.cost + w.quality + w.latency + w.features
	return weights{w.cost / total, w.quality / total, w.latency / total, w.features / total}
}

// measure is the scale on which the options of one pass are scored.
type measure struct {
	weights
	maxCost float64 // highest cost; 0 if all are free
	bound   time.Duration
	wanted  set
	needed  policy.Quality // higher quality does not raise the score
	span    span
	costs   []float64 // logarithms, by the index of standings; nil unless the request is auto
}

func (d *ranking) measure(pass fit) measure {
	m := measure{weightsAt(unit(d.n.CostSensitivity)), d.maxCost[pass], d.n.MaxLatency, d.n.require | d.n.prefer, policy.QualityMaximum, span{}, nil}
	if d.n.isAuto() {
		m.needed, m.span, m.costs = cmp.Or(d.n.Quality, policy.QualityMaximum), d.spans[pass], d.costs
	}
	return m
}

// score returns the score of a provider's option, 0 to 1.
func (m *measure) score(c *candidate, at int) float64 {
	t := m.terms(c, at)
	return t.cost*m.cost + t.quality*m.quality + t.latency*m.latency + t.features*m.features
}

// terms returns the terms of the score: each is 0 to 1 (D-14). For auto, cost is the position in the range of the request's expected costs at the
// candidates (D-80); otherwise it is relative to the most expensive candidate.
func (m *measure) terms(c *candidate, at int) weights {
	o := &c.options[at]
	t := weights{1, unit(float64(o.quality) / float64(m.needed)), latencyScore(o.latency, m.bound), m.covered(o)}
	switch {
	case m.costs != nil:
		t.cost = m.span.cheapness(m.costs[c.from+at])
	case m.maxCost > 0:
		t.cost = unit(1 - c.cost(o)/m.maxCost)
	}
	return t
}

// latencyScore returns the share of the latency bound that a model leaves unused, 0 to 1; 1 without a bound, and 0.5 for an unknown latency.
func latencyScore(latency, bound time.Duration) float64 {
	switch {
	case bound <= 0:
		return 1
	case latency <= 0:
		return 0.5
	}
	return unit(1 - float64(latency)/float64(bound))
}

// covered returns the share of the wanted features that an option has, 0 to 1.
func (m *measure) covered(o *option) float64 {
	if m.wanted == 0 {
		return 1
	}
	return float64((m.wanted & o.has).count()) / float64(m.wanted.count())
}

// termsOf returns the terms of a pick's score, nil if it was not scored.
func (d *ranking) termsOf(p *pick) *policy.Terms {
	at := slices.IndexFunc(p.c.options, func(o option) bool { return o.at == p.at })
	if p.score <= 0 || at < 0 {
		return nil
	}
	m := d.measure(d.fits[p.c.from+at])
	v := m.terms(p.c, at)
	t := &policy.Terms{
		Cost: policy.Term{Value: v.cost, Weight: m.cost}, Quality: policy.Term{Value: v.quality, Weight: m.quality},
		Latency: policy.Term{Value: v.latency, Weight: m.latency}, Features: policy.Term{Value: v.features, Weight: m.features},
	}
	if m.costs != nil {
		t.Expected = policy.Pico(d.n.expected(p.c, &p.c.options[at]))
	}
	return t
}
