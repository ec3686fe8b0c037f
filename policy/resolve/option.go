package resolve

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// set is a set of features: a bit each, in the order of the closed set. Above them stand more facts that options are asked for.
type set uint64

// The facts above the features.
const (
	isFree    set = 1 << (63 - iota) // it costs nothing, and that is known
	reasons                          // it reasons
	mayTools                         // it calls tools, or nobody knows
	maySee                           // it takes images, or nobody knows
	mayHear                          // sound
	mayWatch                         // moving pictures
	mayRead                          // documents
	maySchema                        // it enforces a schema, or calls tools
	ofClaude                         // its family is one that ladders name
	ofGPT
	ofQwen
)

var families = map[string]set{"claude": ofClaude, "gpt": ofGPT, "qwen": ofQwen}

var bitOf = func() map[policy.Feature]set {
	all := policy.Features()
	m := make(map[policy.Feature]set, len(all))
	for i, f := range all {
		m[f] = 1 << i
	}
	return m
}()

func setOf(features ...policy.Feature) (s set) {
	for _, f := range features {
		s |= bitOf[f]
	}
	return s
}

func (s set) count() int { return bits.OnesCount64(uint64(s)) }

// has tells whether all of the other set are in s.
func (s set) has(other set) bool { return s&other == other }

// native are the features that only a vendor's own API has.
var native = setOf(policy.VendorFeatures()...)

// seat is a provider, as choosing sees it.
type seat struct {
	p       *kind.Provider
	extra   []policy.Feature // what every model has there
	never   set              // what none has
	options []option         // cheapest first
	offers  set              // what any of them has

	cheapest bool // of so many models that only their cost is compared
}

func newSeat(p *kind.Provider) seat {
	t := &p.Traits
	s := seat{p: p, never: setOf(t.Lacks...), extra: slices.Clone(t.Gives), cheapest: t.ComparedByCost}
	if p.Private {
		s.extra = append(s.extra, policy.Privacy, policy.NoLog)
	} else {
		s.never |= hasPrivate // it is the provider's promise, not the model's
	}
	if s.direct() {
		s.extra = append(s.extra, policy.NativeAPI, policy.DirectPassthrough)
		s.extra = append(s.extra, t.OwnKey...)
		if !p.ContextEngineering {
			s.extra = append(s.extra, policy.NoContextEngineering)
		}
	}
	return s
}

// sort puts the options in their order once all are there: by cost, and of those that cost the same, the ones that can more and take more
// come first, then those whose names say that they are newer.
func (s *seat) sort() {
	slices.SortStableFunc(s.options, func(a, b option) int {
		return cmp.Or(
			cmp.Compare(a.cost, b.cost), cmp.Compare(b.quality, a.quality), cmp.Compare(b.has.count(), a.has.count()),
			cmp.Compare(b.context, a.context), byVersion(b.at.name, a.at.name),
		)
	})
	for i := range s.options {
		s.offers |= s.options[i].has
	}
}

// direct tells whether the provider is a user's own key at a vendor. A model on the operator's own machine is nobody's bill.
func (s *seat) direct() bool { return s.p.Direct && s.p.Vendor }

// features are what a model has at the provider, by what the catalog says of it.
func (s *seat) features(said []policy.Feature) []policy.Feature {
	out := make([]policy.Feature, 0, len(said)+len(s.extra))
	for _, f := range said {
		if s.never&bitOf[f] == 0 {
			out = append(out, f)
		}
	}
	for _, f := range s.extra {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// option is a model at a provider: what choosing looks at, in few words, since hundreds are looked at for one request.
type option struct {
	at      *entry
	has     set
	cost    float64 // of a typical call, in no unit
	latency time.Duration
	context int64  // the most where it is unknown
	output  int64  // the most where it is unknown
	family  uint32 // its hash
	quality policy.Quality
	rate    rate
}

// typical is a call that options are compared by, in tokens each way.
const typical = 10_000

func newOption(e *entry, t *kind.Traits) option {
	m := &e.model
	return option{
		at: e, has: setOf(e.resolution.Features...) | facts(m) | takes(m, t), cost: float64(m.Prices.Cost(typical, 0, 0, 0, typical)),
		latency: m.LatencyP50, context: orUnknown(m.Context), output: orUnknown(m.MaxOutput), family: hash(m.Family),
		rate:    rateOf(&e.resolution),
		quality: cmp.Or(m.Quality, policy.QualityMedium), // what nothing is known of has a middling price, too
	}
}

// facts are what is known of a model besides its features.
func facts(m *catalog.Model) set {
	s := families[m.Family]
	if m.Prices.Known && m.Prices.Input == 0 && m.Prices.Output == 0 && m.Prices.PerRequest == 0 {
		s |= isFree
	}
	if m.Reasoning != "none" {
		s |= reasons
	}
	has, known := setOf(m.Capabilities...), m.Capabilities != nil
	if !known || has.has(hasTools) {
		s |= mayTools
	}
	if has&(hasSchema|hasTools) != 0 {
		s |= maySchema
	}
	return s
}

// takes is what content a model takes at a kind of provider, as far as is known: one of which nobody says what it can do may take any.
// Models that see read documents as well, or are not known not to.
func takes(m *catalog.Model, t *kind.Traits) (s set) {
	if m.Capabilities == nil {
		return maySee | mayHear | mayWatch | mayRead
	}
	has := setOf(m.Capabilities...)
	for _, c := range [...]struct{ any, may set }{
		{hasVision, maySee},
		{setOf(policy.Audio), mayHear},
		{setOf(policy.Video), mayWatch},
		{hasVision | setOf(policy.Documents), mayRead},
	} {
		if has&c.any != 0 {
			s |= c.may
		}
	}
	if t.ReadsDocuments {
		s |= mayRead
	}
	return s
}

// unknown is a limit that nobody knows: nothing is beyond it.
const unknown = math.MaxInt64

func orUnknown(limit int) int64 {
	if limit <= 0 {
		return unknown
	}
	return int64(limit)
}

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return h.Sum32()
}

// plain is a model's id as it can be compared with another provider's.
func plain(id policy.ModelID) string {
	name := string(id[strings.LastIndexByte(string(id), '/')+1:])
	return strings.ReplaceAll(strings.ToLower(name), ".", "-")
}
