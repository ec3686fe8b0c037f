package catalog

import (
	"encoding/json"
	"slices"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// bardoEntry is an entry of another gateway's /v1/models. Prices are USD per million tokens, before the spread of the caller.
type bardoEntry struct {
	ID           string
	Context      tokenCount
	MaxOutput    tokenCount `json:"max_output"`
	Family       string
	Quality      string
	Capabilities stringList
	Latency      tokenCount `json:"latency_p50_ms"`
	MinCache     tokenCount `json:"min_cache"`
	SpreadPct    int        `json:"spread_pct"` // of the caller, on prices
	Price        bardoPrice
	Reasoning    struct {
		Control policy.ReasoningControl
		Efforts stringList
		Display bool
	}
}

// bardoPrice is the price of a model.
type bardoPrice struct {
	policy.PriceList

	Known bool
	pct   int // the spread
}

// UnmarshalJSON accepts any value; one that is no table of prices counts as absent.
func (p *bardoPrice) UnmarshalJSON(b []byte) error {
	type plain bardoPrice
	var parsed plain
	if json.Unmarshal(b, &parsed) == nil {
		*p = bardoPrice(parsed)
	}
	return nil
}

// bardoModel reads an entry. The other gateway writes calls of tools for each model, and describes how its reasoning is controlled.
func bardoModel(raw json.RawMessage) (modelfile.Model, bool) {
	var e bardoEntry
	if json.Unmarshal(raw, &e) != nil {
		return modelfile.Model{}, false
	}
	e.Price.pct = e.SpreadPct
	m := modelfile.Model{
		ID: e.ID, Family: e.Family, Context: first(e.Context), MaxOutput: first(e.MaxOutput), MinCache: int(e.MinCache),
		LatencyP50MS: min(int(e.Latency), maxLatency), ToolFormat: native, Price: e.Price.price(),
	}
	if _, ok := policy.ParseQuality(e.Quality); ok {
		m.Quality = e.Quality
	}
	if c := e.Reasoning.Control; c != "" {
		m.Thinking = &modelfile.Thinking{Control: c, Efforts: efforts(e.Reasoning.Efforts), Display: new(e.Reasoning.Display)}
	}
	if e.Capabilities != nil {
		var claims []claim
		for _, name := range e.Capabilities {
			f, ok := policy.ParseFeature(name)
			claims = append(claims, claim{f, ok && !slices.Contains(unverified, f)})
		}
		m.Capabilities = features(claims...)
	}
	return m, true
}

// unverified are the features that another gateway's list is not believed about: this gateway cannot see that its providers have them.
var unverified = []policy.Feature{policy.Privacy, policy.NoLog, policy.TEEAttested, policy.EndToEndEncryption, policy.DirectPassthrough}

// maxSpreadPct is the highest spread that is read: a price with more is not.
const maxSpreadPct = 1000

// price returns what the caller pays; nil if it is unknown.
func (p *bardoPrice) price() *modelfile.Price {
	if !p.Known || p.pct < 0 || p.pct > maxSpreadPct {
		return nil
	}
	rates := p.rates(&p.Rates)
	out := modelfile.Price{
		Input: rates.Input, Output: rates.Output, CachedInput: rates.CachedInput, CacheWrite: rates.CacheWrite, CacheWrite1h: rates.CacheWrite1h,
		PerRequest: p.perItem(p.PerRequest), PerSearch: p.perItem(p.PerSearch), Above: p.above(p.Above),
	}
	for name, tier := range p.ServiceTiers {
		if out.ServiceTiers == nil {
			out.ServiceTiers = map[string]modelfile.TierPrice{}
		}
		r := p.rates(&tier.Rates)
		out.ServiceTiers[name] = modelfile.TierPrice{
			Input: r.Input, Output: r.Output, CachedInput: r.CachedInput, CacheWrite: r.CacheWrite, CacheWrite1h: r.CacheWrite1h, Above: p.above(tier.Above),
		}
	}
	if u := p.UnitList; u != nil {
		out.ImageInput, out.AudioInput, out.Characters = p.optional(u.ImageInput), p.optional(u.AudioInput), p.optional(u.Characters)
		out.PerHour, out.PerImage, out.PerMegapixel = p.perItem(u.PerHour.Pico()), p.perItem(u.PerImage), p.perItem(u.PerMegapixel)
		for name, cost := range u.Images {
			if out.Images == nil {
				out.Images = map[string]policy.Micro{}
			}
			out.Images[name] = cost.Charge(p.pct)
		}
	}
	return &out
}

// rates returns token prices with the spread.
func (p *bardoPrice) rates(r *policy.Rates) modelfile.LongPrice {
	return modelfile.LongPrice{
		Input: p.paid(r.Input), Output: p.paid(r.Output), CachedInput: p.paid(r.CachedInput), CacheWrite: p.paid(r.CacheWrite), CacheWrite1h: p.paid(r.CacheWrite1h),
	}
}

func (p *bardoPrice) above(list []policy.AboveList) (out []modelfile.LongPrice) {
	for i := range list {
		r := p.rates(&list[i].Rates)
		r.Tokens = int(list[i].Tokens)
		out = append(out, r)
	}
	return out
}

// paid returns a price per million tokens with the spread, rounded up.
func (p *bardoPrice) paid(m policy.Micro) *policy.Price {
	return new(policy.Price(m.Pico().Charge(p.pct)))
}

// optional is paid for a price that is 0 if there is none.
func (p *bardoPrice) optional(m policy.Micro) *policy.Price {
	if m == 0 {
		return nil
	}
	return p.paid(m)
}

// perItem returns a price of one item with the spread, rounded up; nil for 0.
func (p *bardoPrice) perItem(c policy.Pico) *policy.Micro {
	if c == 0 {
		return nil
	}
	return new(c.Charge(p.pct))
}
