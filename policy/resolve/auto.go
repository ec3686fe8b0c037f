package resolve

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/policy"
)

// The rules by which a model is chosen for a request that leaves it to the gateway and says nothing of its needs (D-80).
const (
	// thinkingRoom is the least max_tokens in which a model that thinks first also comes to an answer.
	thinkingRoom = 1024
	// tied is how much less than the best score is as good as it: the order of providers decides there.
	tied = 0.03
	// enoughChoices is how many candidates there should be, for when some fail.
	enoughChoices = 4
	// warmShare is the part of a conversation's earlier tokens that its provider's cache is taken to hold.
	warmShare = 0.9
)

// leftToUs tells whether the gateway chooses the model by what the request itself seems to need.
func (n *need) leftToUs() bool { return !n.named && !n.besides && !n.Hinted() }

// choose is the scorer for a request that leaves its model to the gateway: of each provider the best model that is good enough, by score,
// and behind them others until there are enough. The model that serves a conversation stays first as long as it is good enough.
func (d *draft) choose() {
	d.price()
	d.stay()
	kept := len(d.picks)
	d.scoreAt(strict)
	rankTied(d.picks[kept:])
	strictly := len(d.picks)
	if !d.severalProviders() { // another provider's next best comes before more models of the same one
		d.scoreAt(relaxed)
		rankTied(d.picks[strictly:])
	}
	d.fill(strict)
	strictly = len(d.picks)
	d.scoreAt(relaxed)
	rankTied(d.picks[strictly:])
	d.fill(relaxed)
}

func (d *draft) severalProviders() bool {
	return slices.ContainsFunc(d.picks, func(p pick) bool { return p.c != d.picks[0].c })
}

// stay puts the model first that serves the conversation, if nothing strict speaks against it. Its provider's warm cache counts in its
// price, so its score says what it saves.
func (d *draft) stay() {
	if d.n.Kept.Model == "" {
		return
	}
	m := d.measure(strict)
	for i := range d.chairs {
		c := &d.chairs[i]
		if c.p.ID != d.n.Kept.Provider || !d.serves(c) {
			continue
		}
		for j := range c.options {
			o := &c.options[j]
			if o.at.resolution.Model == d.n.Kept.Model && d.standings[c.from+j] == strict {
				c.picked = true
				d.add(c, o.at, c.way, m.score(c, j), "the conversation is there")
				return
			}
		}
	}
}

// rankTied sorts by score; of those whose scores are within a small band of the best that is left, the first of the configured order
// comes first. Chairs stand in that order.
func rankTied(picks []pick) {
	slices.SortStableFunc(picks, func(a, b pick) int { return cmp.Compare(b.score, a.score) })
	for i := range picks {
		first := i
		for j := i + 1; j < len(picks) && picks[j].score >= picks[i].score*(1-tied); j++ {
			if picks[j].at.seat < picks[first].at.seat {
				first = j
			}
		}
		p := picks[first]
		copy(picks[i+1:first+1], picks[i:first])
		picks[i] = p
	}
}

// fill adds the models that score best until there are so many candidates: of other families first.
func (d *draft) fill(pass standing) {
	m := d.measure(pass)
	for _, others := range [...]bool{true, false} {
		for len(d.picks) < enoughChoices {
			c, o, score := d.nextBest(&m, pass, others)
			if o == nil {
				break
			}
			c.picked = true
			d.add(c, o.at, c.way, score, d.because(c, &byItsScore, pass, true))
		}
	}
}

// nextBest is the option with the highest score that is not in the order.
func (d *draft) nextBest(m *measure, pass standing, others bool) (at *chair, best *option, highest float64) {
	for i := range d.chairs {
		c := &d.chairs[i]
		if !d.serves(c) {
			continue
		}
		for j := range c.options {
			o := &c.options[j]
			if d.standings[c.from+j] < pass || d.stands(o) || others && has(d.picks, o) {
				continue
			}
			if s := m.score(c, j); best == nil || s > highest {
				at, best, highest = c, o, s
			}
		}
	}
	return at, best, highest
}

func (d *draft) stands(o *option) bool {
	return slices.ContainsFunc(d.picks, func(p pick) bool { return p.at == o.at })
}

// span is the range of what the request would probably cost at the candidates of a pass, as logarithms.
type span struct{ from, to float64 }

// price notes what the request would probably cost at each option that may serve it, and the ranges for both passes.
func (d *draft) price() {
	d.spans = [...]span{relaxed: {math.Inf(1), math.Inf(-1)}, strict: {math.Inf(1), math.Inf(-1)}}
	d.costs = slices.Grow(d.costs[:0], len(d.standings))[:len(d.standings)]
	for i := range d.chairs {
		c := &d.chairs[i]
		standings := d.standings[c.from:]
		if !d.serves(c) {
			continue
		}
		for j := range c.options {
			if standings[j] == unfit {
				continue
			}
			l := math.Log(d.n.expected(c, &c.options[j])) // minus infinity for what costs nothing
			d.costs[c.from+j] = l
			if math.IsInf(l, -1) {
				continue
			}
			for pass := relaxed; pass <= standings[j]; pass++ {
				d.spans[pass].from, d.spans[pass].to = min(d.spans[pass].from, l), max(d.spans[pass].to, l)
			}
		}
	}
}

// cheapness is where in the range of the candidates' costs one stands, by its logarithm: 1 for the cheapest and for what costs nothing.
func (s span) cheapness(l float64) float64 {
	if s.to <= s.from || math.IsInf(l, -1) {
		return 1
	}
	return unit((s.to - l) / (s.to - s.from))
}

// rate is what tokens cost at an option, in picodollars, and whether it thinks: what is needed to estimate a request's cost in few steps.
type rate struct {
	input, cached, output, request float64
	long                           bool // other prices hold for long prompts
	thinks                         thinks
}

// thinks is when a model thinks before it answers.
type thinks uint8

const (
	thinksNever thinks = iota
	thinksIfTold
	thinksUnlessTold
	thinksAlways
)

func rateOf(to *policy.Resolution) rate {
	p := &to.Prices
	return rate{
		input: float64(p.Input), cached: float64(p.CachedInput), output: float64(p.Output), request: float64(p.PerRequest),
		long: len(p.Above) > 0, thinks: thinksOf(to),
	}
}

// expected is what the request will probably cost at an option: its input, of which the conversation's part may be warm there, the output
// that its task usually has, and the thoughts of a model that thinks.
func (n *need) expected(c *chair, o *option) float64 {
	if c.diem {
		return 0
	}
	r, input, cached := o.rate, max(n.InputTokens, 0), int64(0)
	if n.Kept.Tokens > 0 {
		cached = min(n.warmAt(&o.at.resolution), input)
	}
	if r.long {
		at := o.at.resolution.Prices.At(input)
		r.input, r.cached, r.output = float64(at.Input), float64(at.CachedInput), float64(at.Output)
	}
	output := min(n.outputAt(r.thinks), o.output)
	return r.request + r.input*float64(input-cached) + r.cached*float64(cached) + r.output*float64(output)
}

// warmAt are the input tokens that a provider's cache probably holds of the conversation.
func (n *need) warmAt(to *policy.Resolution) int64 {
	if to.Provider != n.Kept.Provider || to.Model != n.Kept.Model || to.Prices.CachedInput <= 0 || n.Kept.Tokens < int64(to.MinCache) {
		return 0
	}
	return int64(float64(n.Kept.Tokens) * warmShare)
}

// outputAt are the output tokens that a request probably has: of its answer, and of thoughts.
func (n *need) outputAt(t thinks) int64 {
	output := max(n.Expected, 1)
	if n.wouldThink(t) {
		output = policy.AddTokens(output, thinking[n.Quality])
	}
	if n.OutputTokens > 0 {
		output = min(output, n.OutputTokens)
	}
	return output
}

// wouldThink tells whether a model would think about the request. What is difficult is thought about by all that can.
func (n *need) wouldThink(t thinks) bool {
	switch t {
	case thinksAlways:
		return true
	case thinksUnlessTold:
		return n.Effort != policy.EffortNone
	case thinksIfTold:
		return n.Effort > policy.EffortNone || n.Effort == policy.EffortUnsaid && n.Quality >= policy.QualityHigh
	case thinksNever:
	}
	return false
}

// thinking are the tokens that models usually think about a request, by the class of quality that it needs.
var thinking = [...]int64{
	policy.QualityUnsaid: 500, policy.QualityMinimum: 50, policy.QualityLow: 100, policy.QualityMedium: 400, policy.QualityHigh: 1200,
	policy.QualityMaximum: 4000,
}

func thinksOf(to *policy.Resolution) thinks {
	byWord := (to.Control == policy.ControlEffort || to.Control == policy.ControlLevel) && len(to.Efforts) > 0
	switch {
	case to.Reasoning == "none":
		return thinksNever
	case to.Thinks == policy.ThinksAlways || to.Control == policy.ControlAlways:
		return thinksAlways
	case byWord && !slices.Contains(to.Efforts, "none") && !slices.Contains(to.Efforts, "minimal"):
		return thinksAlways
	case to.Thinks == policy.ThinksUnlessTold || byWord && !slices.Contains(to.Efforts, "none"):
		return thinksUnlessTold
	}
	return thinksIfTold
}

// room says which models a short answer has no room for.
type room uint8

const (
	roomForAll      room = iota
	noneForThinkers      // not for those that always think
	noneForThoughts      // nor for those that think unless they are told not to, which nobody tells them
)

// roomOf is the room for thoughts in a request that leaves its model to the gateway.
func (n *need) roomOf() room {
	switch {
	case !n.leftToUs() || n.OutputTokens <= 0 || n.OutputTokens >= thinkingRoom:
		return roomForAll
	case n.Effort == policy.EffortUnsaid:
		return noneForThoughts
	}
	return noneForThinkers
}

// tooLittle tells whether a model would use up the answer's tokens for its thoughts.
func (r room) tooLittle(t thinks) bool {
	return r >= noneForThinkers && t == thinksAlways || r == noneForThoughts && t == thinksUnlessTold
}

// byVersion compares the names of models in one spelling part by part, numbers as such: 3-1-pro is newer than 3-pro.
func byVersion(a, b string) int {
	for a != b {
		x, restA, _ := strings.Cut(a, "-")
		y, restB, _ := strings.Cut(b, "-")
		n, errA := strconv.Atoi(x)
		m, errB := strconv.Atoi(y)
		if c := cmp.Or(cmp.Compare(oneIf(errA == nil), oneIf(errB == nil)), cmp.Compare(n, m), cmp.Compare(x, y)); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return 0
}
