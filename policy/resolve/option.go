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

// set is a bit set of features, in the order of policy.Features, and of the facts below in the highest bits.
type set uint64

// The facts above the features.
const (
	isFree       set = 1 << (63 - iota) // known to be free
	reasons                             // it reasons
	mayTools                            // tool calling: supported or unknown
	mayVision                           // images: supported or unknown
	mayAudio                            // audio: supported or unknown
	mayVideo                            // video: supported or unknown
	mayDocuments                        // documents: supported or unknown
	maySchema                           // schemas enforced, or tool calling
	ofClaude                            // of a family that ladders use
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

// has reports whether s contains the other set.
func (s set) has(other set) bool { return s&other == other }

// native are the features that only a vendor's own API has.
var native = setOf(policy.VendorFeatures()...)

// providerOptions are a provider and its models, as used for choosing.
type providerOptions struct {
	p       *kind.Provider
	extra   []policy.Feature // features of every model at this provider
	never   set              // features of none
	options []option         // cheapest first
	offers  set              // features of at least one

	cheapest bool // compared by cost only, because the provider has very many models
}

func newProviderOptions(p *kind.Provider) providerOptions {
	t := &p.Traits
	s := providerOptions{p: p, never: setOf(t.Lacks...), extra: slices.Clone(t.Gives), cheapest: t.ComparedByCost}
	if p.Private {
		s.extra = append(s.extra, policy.Privacy, policy.NoLog)
	} else {
		s.never |= hasPrivate // a property of the provider, not of models
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

// sort sorts the options: by cost, then by more features and larger limits, then by newer version in the name.
func (s *providerOptions) sort() {
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

// direct reports whether the provider is a user's own key at a vendor.
func (s *providerOptions) direct() bool { return s.p.Direct && s.p.Vendor }

// features are a model's features at the provider.
func (s *providerOptions) features(stated []policy.Feature) []policy.Feature {
	out := make([]policy.Feature, 0, len(stated)+len(s.extra))
	for _, f := range stated {
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

// option is a model at a provider in a compact form, because hundreds are compared for one request.
type option struct {
	at      *entry
	has     set
	cost    float64 // relative cost of a typical call
	latency time.Duration
	context int64  // maximum if unknown
	output  int64  // maximum if unknown
	family  uint32 // hash
	quality policy.Quality
	rate    rate
}

// typical is the number of input and of output tokens of the call by which options are compared.
const typical = 10_000

func newOption(e *entry, t *kind.Traits) option {
	m := &e.model
	return option{
		at: e, has: setOf(e.resolution.Features...) | facts(m) | takes(m, t), cost: float64(m.Prices.Cost(typical, 0, 0, 0, typical)),
		latency: m.LatencyP50, context: orUnknown(m.Context), output: orUnknown(m.MaxOutput), family: hash(m.Family),
		rate:    rateOf(&e.resolution),
		quality: cmp.Or(m.Quality, policy.QualityMedium), // unknown models also have a medium default price
	}
}

// facts returns the set's bits besides features.
func facts(m *catalog.Model) set {
	s := families[m.Family]
	if m.Prices.Known && m.Prices.Input == 0 && m.Prices.Output == 0 && m.Prices.PerRequest == 0 && m.Prices.Units == nil {
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

// takes returns the content that a model supports at a kind of provider. Unknown models may support any. Models with vision also read documents,
// unless they are known not to.
func takes(m *catalog.Model, t *kind.Traits) (s set) {
	if m.Capabilities == nil {
		return mayVision | mayAudio | mayVideo | mayDocuments
	}
	has := setOf(m.Capabilities...)
	for _, c := range [...]struct{ any, may set }{
		{hasVision, mayVision},
		{setOf(policy.Audio), mayAudio},
		{setOf(policy.Video), mayVideo},
		{hasVision | setOf(policy.Documents), mayDocuments},
	} {
		if has&c.any != 0 {
			s |= c.may
		}
	}
	if t.ReadsDocuments {
		s |= mayDocuments
	}
	return s
}

// unknown is the value of an unknown limit.
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

// plain normalises a model's id for comparison between providers.
func plain(id policy.ModelID) string {
	name := string(id[strings.LastIndexByte(string(id), '/')+1:])
	return strings.ReplaceAll(strings.ToLower(name), ".", "-")
}
