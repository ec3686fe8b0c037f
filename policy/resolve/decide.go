package resolve

import (
	"slices"
	"sync"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Decision is who serves a request.
type Decision struct {
	Order   []policy.Resolution // the first is used, the rest are for when it fails
	Refused []Refusal           // the providers that are not in the order, each with one reason; only of Explain
	Err     error               // a fault when Order is empty
}

// Decide lists the ways to serve what an intent asks for, best first, whatever the health of the providers. It is pure.
//
// A request that says what it needs goes to the first provider that fits, specialists before the others, in two passes: the strict one
// wants everything that is required, the relaxed one names what is missing. One that only names its model goes to the provider that
// scores best. The order may hold several models of one provider, and then one provider several times.
//
// When nobody fits, the error is a fault: of the model's name as Resolve has it, T0HasNoModel, NoPrivateProvider, KeyRestricted, or
// NoProvider.
func (r *Resolver) Decide(in *policy.Intent) Decision { return r.decide(in, false) }

// Explain decides as Decide does, and says why each one stands where it stands. It is for people.
func (r *Resolver) Explain(in *policy.Intent) Decision { return r.decide(in, true) }

func (r *Resolver) decide(in *policy.Intent, aloud bool) Decision {
	d := drafts.Get().(*draft) //nolint:forcetypeassert // the pool holds nothing else
	defer d.release()
	d.r, d.n, d.aloud = r, newNeed(in, r.rules), aloud
	err := d.seat()
	switch {
	case err != nil:
	case d.scored():
		d.byScore()
	default:
		d.byOrder()
	}
	out := Decision{Order: d.resolutions()}
	if aloud {
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

// draft is a decision in the making.
type draft struct {
	r         *Resolver
	n         need
	aloud     bool
	chairs    []chair // by the position of their provider
	standings []standing
	dearest   [strict + 1]float64 // cost among those of a standing, or better; below zero: there are none
	costs     []float64           // logarithms of what a request that leaves its model to the gateway would cost, as standings
	spans     [strict + 1]span
	picks     []pick
	named     []option // of the ways to a named model
}

// standing is how far an option fits.
type standing uint8

const (
	unfit   standing = iota
	relaxed          // with requirements relaxed to preferences
	strict
)

// nobody is dearest before anybody has a standing.
var nobody = [strict + 1]float64{-1, -1, -1}

// pick is one place of the order.
type pick struct {
	c     *chair
	at    *entry
	w     *way // for a model that was named; else nil
	score float64
	why   string
}

// most is how long an order may be.
const most = 16

var drafts = sync.Pool{New: func() any { return new(draft) }}

// release gives the draft's memory to the next one. It keeps nothing of the resolver alive.
func (d *draft) release() {
	clear(d.chairs)
	clear(d.picks)
	clear(d.named)
	*d = draft{chairs: d.chairs[:0], standings: d.standings[:0], costs: d.costs[:0], picks: d.picks[:0], named: d.named[:0]}
	drafts.Put(d)
}

func (d *draft) scored() bool {
	switch d.r.rules.Strategy {
	case Scored:
		return true
	case Ordered:
		return false
	case Auto:
	}
	return !d.n.Hinted()
}

// seat says what each provider is to the request, and how far each of its models fits.
func (d *draft) seat() error {
	for i := range d.r.seats {
		d.chairs = append(d.chairs, d.r.chair(&d.r.seats[i], &d.n))
	}
	if d.n.named {
		if err := d.name(); err != nil {
			return err
		}
	}
	d.bringIn()
	if d.stand(); d.n.tier != 0 && d.dearest[strict] < 0 {
		d.n.tier = 0 // nobody has such an enclave: work goes on as without it (D-12), with all else as it was asked for
		d.n.bound()
		d.stand()
	}
	for ; d.n.room > roomForAll && d.dearest[relaxed] < 0; d.stand() {
		d.n.room-- // nobody else is there
	}
	return nil
}

// stand says how far each model of each provider fits.
func (d *draft) stand() {
	d.standings, d.dearest = d.standings[:0], nobody
	for i := range d.chairs {
		d.standAt(&d.chairs[i])
	}
}

// name leaves each provider its one way to serve the model that the request names.
func (d *draft) name() error {
	for i := range d.chairs {
		d.chairs[i].options = nil
	}
	ways, err := d.r.ways(d.n.Model, d.n.Provider)
	if err != nil {
		return err
	}
	d.named = slices.Grow(d.named, len(ways))
	for i := range ways {
		c := &d.chairs[ways[i].at.seat]
		d.named = append(d.named, ways[i].at.option)
		c.options, c.way, c.must = d.named[i:i+1], &ways[i], 0
	}
	return nil
}

// bringIn lets specialists for other things serve where there is nobody else.
func (d *draft) bringIn() {
	if slices.ContainsFunc(d.chairs, func(c chair) bool { return c.role == generalist }) {
		return
	}
	for i := range d.chairs {
		if d.chairs[i].role == aside {
			d.chairs[i].role = generalist
		}
	}
}

// serves tells whether the chair takes part at all.
func (d *draft) serves(c *chair) bool { return c.role <= specialist || c.role == aside && d.n.named }

func (d *draft) standAt(c *chair) {
	c.from = len(d.standings)
	if !d.serves(c) {
		return
	}
	d.standings = slices.Grow(d.standings, len(c.options))
	if d.n.named || d.n.besides || d.n.room > roomForAll || c.ceiling > 0 || c.must != 0 {
		for i := range c.options {
			d.put(c, &c.options[i], d.n.standing(c, &c.options[i]))
		}
		return
	}
	for i := range c.options {
		d.put(c, &c.options[i], d.n.quickly(&c.options[i]))
	}
}

func (d *draft) put(c *chair, o *option, at standing) {
	d.standings = append(d.standings, at)
	if at == unfit {
		return
	}
	cost := c.cost(o)
	d.dearest[relaxed] = max(d.dearest[relaxed], cost)
	if at == strict {
		d.dearest[strict] = max(d.dearest[strict], cost)
	}
}

// standing is how far an option fits.
func (n *need) standing(c *chair, o *option) standing {
	switch {
	case n.never(c, o) != lacksNothing:
		return unfit
	case n.strict(o) != lacksNothing:
		return relaxed
	}
	return strict
}

// quickly is standing where no model is named and the provider sets no bounds of its own.
func (n *need) quickly(o *option) standing {
	b := &n.always
	if !o.has.has(b.has) || o.latency > b.latency || o.context < unknown && b.input > o.context-min(b.output, o.output) {
		return unfit
	}
	if b = &n.strictly; !o.has.has(b.has) || o.latency > b.latency || b.output > o.output || o.quality < b.quality {
		return relaxed
	}
	return strict
}

// cost is what a typical call costs there.
func (c *chair) cost(o *option) float64 {
	if c.diem {
		return 0
	}
	return o.cost
}

// add puts an option at the end of the order, unless it stands there.
func (d *draft) add(c *chair, at *entry, w *way, score float64, why string) {
	if len(d.picks) == most || slices.ContainsFunc(d.picks, func(p pick) bool { return p.at == at }) {
		return
	}
	d.picks = append(d.picks, pick{c, at, w, score, why})
}

// resolutions are the picks as the caller gets them.
func (d *draft) resolutions() []policy.Resolution {
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
		if d.aloud {
			out[i].Why, out[i].Terms = p.why, d.termsOf(p)
		}
	}
	return out
}

// fault is why nobody serves the request.
func (d *draft) fault() error {
	switch {
	case d.n.zero:
		return fault.Newf(fault.T0HasNoModel, "%s runs on rules: no model without a price can serve it", unthinking)
	case d.n.private || d.n.sealed:
		return fault.Newf(fault.NoPrivateProvider, "no provider keeps this request as private as it has to be")
	case d.allBarred():
		return fault.Newf(fault.KeyRestricted, "the plan of this key includes no provider that could serve this request")
	}
	if u := d.untaken(); u != nil {
		return fault.New(fault.InvalidRequest, u.Error(), u)
	}
	f := fault.Newf(fault.NoProvider, "no provider can serve this request")
	for _, no := range d.refusals() {
		f.Public += "; " + string(no.Provider) + ": " + no.Reason
	}
	return f
}

// Untaken is the cause of the fault where no model that could be asked takes some content of the request.
type Untaken struct {
	Content policy.Feature // what such a model would have: Vision, Audio, Video or Documents
	What    string         // "audio"
}

func (u *Untaken) Error() string { return "no available model takes " + u.What }

// untaken is what of the request's content no model takes that could be asked; nil for none.
func (d *draft) untaken() *Untaken {
	features := [...]policy.Feature{policy.Vision, policy.Audio, policy.Video, policy.Documents}
	for k := range contents {
		c := &contents[k]
		if d.n.content&c.may == 0 {
			continue
		}
		some, takes := false, false
		for i := range d.chairs {
			chair := &d.chairs[i]
			if !d.serves(chair) {
				continue
			}
			for j := range chair.options {
				some, takes = true, takes || chair.options[j].has.has(c.may)
			}
		}
		if some && !takes {
			return &Untaken{Content: features[k], What: c.name}
		}
	}
	return nil
}

// allBarred tells whether every provider that could be asked is one that the caller's plan does not include.
func (d *draft) allBarred() bool {
	could := false
	for i := range d.chairs {
		c := &d.chairs[i]
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
