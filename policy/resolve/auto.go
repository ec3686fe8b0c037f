package resolve

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/policy"
)

// Parameters of choosing a model for auto without hints (D-80).
const (
	// thinkingRoom is the smallest max_tokens with which a model that reasons first also gets to an answer.
	thinkingRoom = 1024
	// tieBand is the difference in score below which candidates count as equal: the order of providers decides among them.
	tieBand = 0.03
	// enoughChoices is the number of candidates to aim for, as fallbacks.
	enoughChoices = 4
	// warmShare is the assumed share of a conversation's earlier tokens that is in its provider's prompt cache.
	warmShare = 0.9
)

// isAuto reports whether the gateway chooses the model by the inferred needs of the request.
func (n *need) isAuto() bool { return !n.named && !n.excludesFamily && !n.Hinted() }

// chooseAuto is the scorer for auto: the best sufficient model of each provider, by score, then others until there are enough. The model that
// serves the conversation stays first as long as it is sufficient.
func (d *ranking) chooseAuto() {
	d.price()
	d.keepConversation()
	kept := len(d.picks)
	d.scoreAt(strict)
	rankTied(d.picks[kept:])
	strictly := len(d.picks)
	if !d.severalProviders() { // the next best of another provider precedes further models of the same one
		d.scoreAt(relaxed)
		rankTied(d.picks[strictly:])
	}
	d.fill(strict)
	strictly = len(d.picks)
	d.scoreAt(relaxed)
	rankTied(d.picks[strictly:])
	d.fill(relaxed)
}

func (d *ranking) severalProviders() bool {
	return slices.ContainsFunc(d.picks, func(p pick) bool { return p.c != d.picks[0].c })
}

// keepConversation puts the conversation's model first, if it fits strictly. The provider's warm cache is part of its expected cost, so that its
// score reflects the saving.
func (d *ranking) keepConversation() {
	if d.n.ServedBy.Model == "" {
		return
	}
	m := d.measure(strict)
	for i := range d.candidates {
		c := &d.candidates[i]
		if c.p.ID != d.n.ServedBy.Provider || !d.serves(c) {
			continue
		}
		for j := range c.options {
			o := &c.options[j]
			if o.at.resolution.Model == d.n.ServedBy.Model && d.fits[c.from+j] == strict {
				c.picked = true
				d.add(c, o.at, c.way, m.score(c, j), "the conversation is there")
				return
			}
		}
	}
}

// rankTied sorts by score; of those within tieBand of the best remaining one, the first in the configured order comes first. Candidates are in
// that order.
func rankTied(picks []pick) {
	slices.SortStableFunc(picks, func(a, b pick) int { return cmp.Compare(b.score, a.score) })
	for i := range picks {
		first := i
		for j := i + 1; j < len(picks) && picks[j].score >= picks[i].score*(1-tieBand); j++ {
			if picks[j].at.provider < picks[first].at.provider {
				first = j
			}
		}
		p := picks[first]
		copy(picks[i+1:first+1], picks[i:first])
		picks[i] = p
	}
}

// fill adds the models with the best scores until there are enoughChoices, of other families first.
func (d *ranking) fill(pass fit) {
	m := d.measure(pass)
	for _, others := range [...]bool{true, false} {
		for len(d.picks) < enoughChoices {
			c, o, score := d.nextBest(&m, pass, others)
			if o == nil {
				break
			}
			c.picked = true
			d.add(c, o.at, c.way, score, d.reason(c, &byItsScore, pass, true))
		}
	}
}

// nextBest returns the option with the highest score that is not in the order yet.
func (d *ranking) nextBest(m *measure, pass fit, others bool) (at *candidate, best *option, highest float64) {
	for i := range d.candidates {
		c := &d.candidates[i]
		if !d.serves(c) {
			continue
		}
		for j := range c.options {
			o := &c.options[j]
			if d.fits[c.from+j] < pass || d.isPicked(o) || others && has(d.picks, o) {
				continue
			}
			if s := m.score(c, j); best == nil || s > highest {
				at, best, highest = c, o, s
			}
		}
	}
	return at, best, highest
}

func (d *ranking) isPicked(o *option) bool {
	return slices.ContainsFunc(d.picks, func(p pick) bool { return p.at == o.at })
}

// span is the range of the request's expected costs over the candidates of a pass, as logarithms.
type span struct{ from, to float64 }

// price computes the expected cost of the request at each option that may serve it, and the ranges for both passes.
func (d *ranking) price() {
	d.spans = [...]span{relaxed: {math.Inf(1), math.Inf(-1)}, strict: {math.Inf(1), math.Inf(-1)}}
	d.costs = slices.Grow(d.costs[:0], len(d.fits))[:len(d.fits)]
	for i := range d.candidates {
		c := &d.candidates[i]
		standings := d.fits[c.from:]
		if !d.serves(c) {
			continue
		}
		for j := range c.options {
			if standings[j] == unfit {
				continue
			}
			l := math.Log(d.n.expected(c, &c.options[j])) // minus infinity for free models
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

// cheapness is the position of a cost (its logarithm) in the range: 1 for the cheapest candidate and for free ones, 0 for the most expensive.
func (s span) cheapness(l float64) float64 {
	if s.to <= s.from || math.IsInf(l, -1) {
		return 1
	}
	return unit((s.to - l) / (s.to - s.from))
}

// rate is an option's token prices in picodollars and its reasoning behaviour, for a quick estimate of a request's cost.
type rate struct {
	input, cached, output, request float64
	long                           bool // long prompts have other prices
	thinks                         thinks
}

// thinks is when a model reasons before it answers.
type thinks uint8

const (
	thinksNever thinks = iota
	thinksOnRequest
	thinksByDefault
	thinksAlways
)

func rateOf(to *policy.Resolution) rate {
	p := &to.Prices
	return rate{
		input: float64(p.Input), cached: float64(p.CachedInput), output: float64(p.Output), request: float64(p.PerRequest),
		long: len(p.Above) > 0, thinks: thinksOf(to),
	}
}

// expected returns the expected cost of the request at an option: input, part of which may be in a warm cache, the usual output of the task, and
// reasoning.
func (n *need) expected(c *candidate, o *option) float64 {
	if c.diem {
		return 0
	}
	r, input, cached := o.rate, max(n.InputTokens, 0), int64(0)
	if n.ServedBy.Tokens > 0 {
		cached = min(n.warmAt(&o.at.resolution), input)
	}
	if r.long {
		at := o.at.resolution.Prices.At(input)
		r.input, r.cached, r.output = float64(at.Input), float64(at.CachedInput), float64(at.Output)
	}
	output := min(n.outputAt(r.thinks), o.output)
	return r.request + r.input*float64(input-cached) + r.cached*float64(cached) + r.output*float64(output)
}

// warmAt returns the number of input tokens that are probably in a provider's prompt cache.
func (n *need) warmAt(to *policy.Resolution) int64 {
	if to.Provider != n.ServedBy.Provider || to.Model != n.ServedBy.Model || to.Prices.CachedInput <= 0 || n.ServedBy.Tokens < int64(to.MinCache) {
		return 0
	}
	return int64(float64(n.ServedBy.Tokens) * warmShare)
}

// outputAt returns the expected number of output tokens, including reasoning.
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

// wouldThink reports whether a model would reason about the request. For difficult tasks all models that can do.
func (n *need) wouldThink(t thinks) bool {
	switch t {
	case thinksAlways:
		return true
	case thinksByDefault:
		return n.Effort != policy.EffortNone
	case thinksOnRequest:
		return n.Effort > policy.EffortNone || n.Effort == policy.EffortUnset && n.Quality >= policy.QualityHigh
	case thinksNever:
	}
	return false
}

// thinking is the usual number of reasoning tokens, by the quality class that the request needs.
var thinking = [...]int64{
	policy.QualityUnset: 500, policy.QualityMinimum: 50, policy.QualityLow: 100, policy.QualityMedium: 400, policy.QualityHigh: 1200,
	policy.QualityMaximum: 4000,
}

func thinksOf(to *policy.Resolution) thinks {
	order := (to.Control == policy.ControlEffort || to.Control == policy.ControlLevel) && len(to.Efforts) > 0
	switch {
	case to.Reasoning == "none":
		return thinksNever
	case to.Thinks == policy.ThinksAlways || to.Control == policy.ControlAlways:
		return thinksAlways
	case order && !slices.Contains(to.Efforts, "none") && !slices.Contains(to.Efforts, "minimal"):
		return thinksAlways
	case to.Thinks == policy.ThinksByDefault || order && !slices.Contains(to.Efforts, "none"):
		return thinksByDefault
	}
	return thinksOnRequest
}

// room is which models do not fit a request with a small max_tokens.
type room uint8

const (
	roomForAll      room = iota
	noneForThinkers      // excludes models that always reason
	noneForThoughts      // also excludes models that reason by default
)

// roomOf returns the room for reasoning in an auto request.
func (n *need) roomOf() room {
	switch {
	case !n.isAuto() || n.OutputTokens <= 0 || n.OutputTokens >= thinkingRoom:
		return roomForAll
	case n.Effort == policy.EffortUnset:
		return noneForThoughts
	}
	return noneForThinkers
}

// tooLittle reports whether a model would use up max_tokens with reasoning.
func (r room) tooLittle(t thinks) bool {
	return r >= noneForThinkers && t == thinksAlways || r == noneForThoughts && t == thinksByDefault
}

// byVersion compares normalised model names part by part, with numbers by value: 3-1-pro is newer than 3-pro.
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
