package resolve

import (
	"slices"
	"sync"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Decision is the candidates for a request.
type Decision struct {
	Order   []policy.Resolution // the first is used, the others are fallbacks
	Refused []Refusal           // providers that are not in the order, each with one reason; only from Explain
	Err     error               // a fault if Order is empty

	Unfunded policy.ProviderID // its wallet would pay for the request, and cannot afford any; "" for none
}

// Decide lists the candidates for an intent, best first, without regard to health. It is pure.
//
// A request with hints is resolved to the first provider that fits, specialists first, in two passes: the strict pass needs every required
// feature, the relaxed pass lists what is missing as degraded. A request that only names a model is scored. A provider may appear several
// times with different models.
//
// If there is no candidate, the error is a fault: of the model's name as in Resolve, T0HasNoModel, NoPrivateProvider, KeyRestricted, or
// NoProvider.
func (r *Resolver) Decide(in *policy.Intent) Decision { return r.decide(in, false) }

// Explain is Decide with reasons for the operator: why each candidate has its position, and why others have none.
func (r *Resolver) Explain(in *policy.Intent) Decision { return r.decide(in, true) }

func (r *Resolver) decide(in *policy.Intent, explain bool) Decision {
	d := rankings.Get().(*ranking) //nolint:forcetypeassert // the pool has only these
	defer d.release()
	d.r, d.n, d.explain = r, newNeed(in, r.rules), explain
	err := d.evaluate()
	switch {
	case err != nil:
	case d.scored():
		d.byScore()
	default:
		d.byOrder()
	}
	out := Decision{Order: d.resolutions(), Unfunded: d.unfunded()}
	if explain {
		out.Refused = d.refusals()
	}
	if len(out.Order) == 0 {
		out.Err = err
		if err == nil {
			out.Err = d.fault()
		}
	}
	return out
}

// ranking is the state of one decision.
type ranking struct {
	r          *Resolver
	n          need
	explain    bool
	candidates []candidate // by the position of their provider
	fits       []fit
	maxCost    [strict + 1]float64 // highest cost of the options with this fit or better; negative if there are none
	costs      []float64           // for auto: logarithms of the expected costs, by option
	spans      [strict + 1]span
	picks      []pick
	named      []option // options of a named model
}

// fit is how well an option fits the request.
type fit uint8

const (
	unfit   fit = iota
	relaxed     // only with required features relaxed to preferences
	strict
)

// noCosts is the initial value of ranking.maxCost.
var noCosts = [strict + 1]float64{-1, -1, -1}

// pick is one candidate in the order.
type pick struct {
	c     *candidate
	at    *entry
	w     *way // for a named model; else nil
	score float64
	why   string
}

// most is the maximum length of an order.
const most = 16

var rankings = sync.Pool{New: func() any { return new(ranking) }}

// release returns the ranking to the pool, without references to the resolver.
func (d *ranking) release() {
	clear(d.candidates)
	clear(d.picks)
	clear(d.named)
	*d = ranking{candidates: d.candidates[:0], fits: d.fits[:0], costs: d.costs[:0], picks: d.picks[:0], named: d.named[:0]}
	rankings.Put(d)
}

func (d *ranking) scored() bool {
	switch d.r.rules.Strategy {
	case Scored:
		return true
	case Ordered:
		return false
	case Auto:
	}
	return !d.n.Hinted()
}

// evaluate determines each provider's role for the request, and how well each of its models fits.
func (d *ranking) evaluate() error {
	for i := range d.r.options {
		d.candidates = append(d.candidates, d.r.newCandidate(&d.r.options[i], &d.n))
	}
	if d.n.named {
		if err := d.keepNamed(); err != nil {
			return err
		}
	}
	d.admitSpecialists()
	if d.rateOptions(); d.n.tier != 0 && d.maxCost[strict] < 0 {
		d.n.tier = 0 // no provider has an enclave: continue without it (D-12), with all other requirements
		d.n.bound()
		d.rateOptions()
	}
	for ; d.n.room > roomForAll && d.maxCost[relaxed] < 0; d.rateOptions() {
		d.n.room-- // no other model is left
	}
	return nil
}

// rateOptions determines how well each model of each provider fits.
func (d *ranking) rateOptions() {
	d.fits, d.maxCost = d.fits[:0], noCosts
	for i := range d.candidates {
		d.fitOptions(&d.candidates[i])
	}
}

// keepNamed reduces each provider to its offer of the named model.
func (d *ranking) keepNamed() error {
	for i := range d.candidates {
		d.candidates[i].options = nil
	}
	ways, err := d.r.ways(d.n.Model, d.n.Provider)
	if err != nil {
		return err
	}
	d.named = slices.Grow(d.named, len(ways))
	for i := range ways {
		c := &d.candidates[ways[i].at.provider]
		d.named = append(d.named, ways[i].at.option)
		c.options, c.way, c.must = d.named[i:i+1], &ways[i], 0
	}
	return nil
}

// admitSpecialists lets specialists for other tasks serve if there is no other provider.
func (d *ranking) admitSpecialists() {
	if slices.ContainsFunc(d.candidates, func(c candidate) bool { return c.servesAnything() }) {
		return
	}
	for i := range d.candidates {
		if d.candidates[i].role == lastResort {
			d.candidates[i].role = generalist
		}
	}
}

// serves reports whether the candidate takes part.
func (d *ranking) serves(c *candidate) bool {
	return c.role <= specialist || c.role == lastResort && d.n.named
}

func (d *ranking) fitOptions(c *candidate) {
	c.from = len(d.fits)
	if !d.serves(c) {
		return
	}
	d.fits = slices.Grow(d.fits, len(c.options))
	if d.n.named || d.n.excludesFamily || d.n.room > roomForAll || c.ceiling > 0 || c.must != 0 {
		for i := range c.options {
			d.put(c, &c.options[i], d.n.fit(c, &c.options[i]))
		}
		return
	}
	for i := range c.options {
		d.put(c, &c.options[i], d.n.quickFit(&c.options[i]))
	}
}

func (d *ranking) put(c *candidate, o *option, at fit) {
	d.fits = append(d.fits, at)
	if at == unfit {
		return
	}
	cost := c.cost(o)
	d.maxCost[relaxed] = max(d.maxCost[relaxed], cost)
	if at == strict {
		d.maxCost[strict] = max(d.maxCost[strict], cost)
	}
}

// fit returns how well an option fits the request.
func (n *need) fit(c *candidate, o *option) fit {
	switch {
	case n.excluded(c, o) != lacksNothing:
		return unfit
	case n.strictLack(o) != lacksNothing:
		return relaxed
	}
	return strict
}

// quickFit is fit for the common case: no named model, and no limits of the provider.
func (n *need) quickFit(o *option) fit {
	b := &n.always
	if !o.has.has(b.has) || o.latency > b.latency || o.context < unknown && b.input > o.context-min(b.output, o.output) {
		return unfit
	}
	if b = &n.strictly; !o.has.has(b.has) || o.latency > b.latency || b.output > o.output || o.quality < b.quality {
		return relaxed
	}
	return strict
}

// cost returns the cost of a typical call at the option.
func (c *candidate) cost(o *option) float64 {
	if c.diem {
		return 0
	}
	return o.cost
}

// add appends an option to the order, unless it is in it.
func (d *ranking) add(c *candidate, at *entry, w *way, score float64, why string) {
	if len(d.picks) == most || slices.ContainsFunc(d.picks, func(p pick) bool { return p.at == at }) {
		return
	}
	d.picks = append(d.picks, pick{c, at, w, score, why})
}

// resolutions converts the picks to resolutions.
func (d *ranking) resolutions() []policy.Resolution {
	if len(d.picks) == 0 {
		return nil
	}
	out := make([]policy.Resolution, len(d.picks))
	total := 0
	for i := range d.picks {
		total += d.n.lacking(d.picks[i].at.option.has)
	}
	missing := make([]string, 0, total)
	for i := range d.picks {
		p := &d.picks[i]
		out[i] = p.at.resolution
		if p.w != nil {
			out[i] = p.w.resolution()
		}
		from := len(missing)
		if missing = d.n.degraded(missing, p.at.option.has); len(missing) > from {
			out[i].Degraded = missing[from:len(missing):len(missing)]
		}
		out[i].Score = p.score
		if p.c.diem {
			worth := out[i].Prices
			out[i].Staked, out[i].Prices = &worth, policy.Prices{Known: true}
		}
		if d.explain {
			out[i].Why, out[i].Terms = p.why, d.termsOf(p)
		}
	}
	return out
}

// fault returns why there is no candidate.
func (d *ranking) fault() error {
	switch {
	case d.n.zero:
		return fault.Newf(fault.T0HasNoModel, "%s is served only by a model that costs nothing, and there is none: decide it by rules, or list a model with prices of 0", rulesOnly)
	case d.n.private || d.n.sealed:
		return d.withRefusals(fault.Newf(fault.NoPrivateProvider, "no provider meets the privacy requirement of this request%s", d.privateRemedy()))
	case d.allBarred():
		f := fault.Newf(fault.KeyRestricted, "the plan of this key includes no provider that could serve this request")
		f.Plain = true
		return f
	}
	if u := d.unsupportedContent(); u != nil {
		return fault.New(fault.InvalidRequest, u.Error(), u)
	}
	return d.withRefusals(fault.Newf(fault.NoProvider, "no provider can serve this request"))
}

// withRefusals adds to a fault why each provider does not serve the request.
func (d *ranking) withRefusals(f *fault.Fault) *fault.Fault {
	for _, no := range d.refusals() {
		f.Public += "; " + string(no.Provider) + ": " + no.Reason
	}
	return f
}

// privateRemedy returns what an operator can do if no provider is private at all; "" if one is.
func (d *ranking) privateRemedy() string {
	if slices.ContainsFunc(d.candidates, func(c candidate) bool { return c.p.Private }) {
		return ""
	}
	return ": the operator can configure Venice, or a custom provider with private: true"
}

// UnsupportedContentError is the cause of a fault because no available model supports some content of the request.
type UnsupportedContentError struct {
	Content policy.Feature // the missing feature: Vision, Audio, Video or Documents
	What    string         // "audio"
}

func (e *UnsupportedContentError) Error() string { return "no available model takes " + e.What }

// unsupportedContent returns content of the request that no available model supports; nil if there is none.
func (d *ranking) unsupportedContent() *UnsupportedContentError {
	features := [...]policy.Feature{policy.Vision, policy.Audio, policy.Video, policy.Documents}
	for k := range contents {
		c := &contents[k]
		if d.n.content&c.may == 0 {
			continue
		}
		some, takes := false, false
		for i := range d.candidates {
			provider := &d.candidates[i]
			if !d.serves(provider) {
				continue
			}
			for j := range provider.options {
				some, takes = true, takes || provider.options[j].has.has(c.may)
			}
		}
		if some && !takes {
			return &UnsupportedContentError{Content: features[k], What: c.name}
		}
	}
	return nil
}

// allBarred reports whether the client's plan excludes every provider that could serve the request.
func (d *ranking) allBarred() bool {
	could := false
	for i := range d.candidates {
		c := &d.candidates[i]
		if len(c.options) == 0 {
			continue
		}
		could = true
		if !d.n.Bars(c.p.ID) {
			return false
		}
	}
	return could
}
