package catalog

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// merge returns base with every field that over states replaced.
func merge(base, over modelfile.Model) modelfile.Model {
	m := over
	m.UpstreamID = cmp.Or(over.UpstreamID, base.UpstreamID)
	m.Family = cmp.Or(over.Family, base.Family)
	m.Context = cmp.Or(over.Context, base.Context)
	m.MaxOutput = cmp.Or(over.MaxOutput, base.MaxOutput)
	m.Price = mergePrice(base.Price, over.Price)
	m.Quality = cmp.Or(over.Quality, base.Quality)
	m.Reasoning = cmp.Or(over.Reasoning, base.Reasoning)
	m.ImplicitOpen = cmp.Or(over.ImplicitOpen, base.ImplicitOpen)
	m.FixedSampling = cmp.Or(over.FixedSampling, base.FixedSampling)
	m.SchemaAlone = cmp.Or(over.SchemaAlone, base.SchemaAlone)
	m.ResponsesOnly = cmp.Or(over.ResponsesOnly, base.ResponsesOnly)
	m.NamedOnly = cmp.Or(over.NamedOnly, base.NamedOnly)
	m.ToolFormat = cmp.Or(over.ToolFormat, base.ToolFormat)
	m.LatencyP50MS = cmp.Or(over.LatencyP50MS, base.LatencyP50MS)
	m.Vendor = cmp.Or(over.Vendor, base.Vendor)
	m.Strengths = mergeStrengths(base.Strengths, over.Strengths)
	m.Thinking = mergeThinking(base.Thinking, over.Thinking)
	m.MinCache = cmp.Or(over.MinCache, base.MinCache)
	if over.Capabilities == nil {
		m.Capabilities = base.Capabilities
	}
	if over.Lacks == nil {
		m.Lacks = base.Lacks
	}
	if over.Aliases == nil {
		m.Aliases = base.Aliases
	}
	return m
}

func mergePrice(base, over *modelfile.Price) *modelfile.Price {
	if base == nil || over == nil {
		return cmp.Or(over, base)
	}
	return &modelfile.Price{
		Input:        cmp.Or(over.Input, base.Input),
		Output:       cmp.Or(over.Output, base.Output),
		CachedInput:  cmp.Or(over.CachedInput, base.CachedInput),
		CacheWrite:   cmp.Or(over.CacheWrite, base.CacheWrite),
		CacheWrite1h: cmp.Or(over.CacheWrite1h, base.CacheWrite1h),
		PerRequest:   cmp.Or(over.PerRequest, base.PerRequest),
		PerSearch:    cmp.Or(over.PerSearch, base.PerSearch),
		Above:        mergeList(base.Above, over.Above),
		Hours:        mergeList(base.Hours, over.Hours),
		ServiceTiers: mergeTiers(base.ServiceTiers, over.ServiceTiers),
		ImageInput:   cmp.Or(over.ImageInput, base.ImageInput),
		AudioInput:   cmp.Or(over.AudioInput, base.AudioInput),
		AudioOutput:  cmp.Or(over.AudioOutput, base.AudioOutput),
		CachedAudio:  cmp.Or(over.CachedAudio, base.CachedAudio),
		CachedImage:  cmp.Or(over.CachedImage, base.CachedImage),
		Characters:   cmp.Or(over.Characters, base.Characters),
		PerHour:      cmp.Or(over.PerHour, base.PerHour),
		MinSeconds:   cmp.Or(over.MinSeconds, base.MinSeconds),
		PerImage:     cmp.Or(over.PerImage, base.PerImage),
		Images:       mergeImages(base.Images, over.Images),
		PerMegapixel: cmp.Or(over.PerMegapixel, base.PerMegapixel),
		Steps:        cmp.Or(over.Steps, base.Steps),
		Source:       cmp.Or(over.Source, base.Source),
		Updated:      later(over.Updated, base.Updated),
	}
}

// mergeList returns the later list, if it is set.
func mergeList[T any](base, over []T) []T {
	if over == nil {
		return base
	}
	return over
}

// mergeTiers returns base with the tiers in over replaced or added.
func mergeTiers(base, over map[string]modelfile.TierPrice) map[string]modelfile.TierPrice {
	if len(over) == 0 {
		return base
	}
	m := maps.Clone(over)
	for name, tier := range base {
		if _, ok := m[name]; !ok {
			m[name] = tier
		}
	}
	return m
}

// mergeImages returns the later table, if it is set: sizes of the other table do not apply beside it.
func mergeImages(base, over map[string]policy.Micro) map[string]policy.Micro {
	if over == nil {
		return base
	}
	return over
}

// later returns over if it is set, else base.
func later(over, base time.Time) time.Time {
	if over.IsZero() {
		return base
	}
	return over
}

func mergeThinking(base, over *modelfile.Thinking) *modelfile.Thinking {
	if base == nil || over == nil {
		return cmp.Or(over, base)
	}
	if over.Control != "" && over.Control != base.Control {
		return over // efforts belong to a control
	}
	t := *over
	t.Control = base.Control
	t.Default, t.Display = cmp.Or(over.Default, base.Default), cmp.Or(over.Display, base.Display)
	if over.Efforts == nil {
		t.Efforts = base.Efforts
	}
	return &t
}

// complete fills the unset fields of a model at a provider; "" is any provider.
func (c *Catalog) complete(p policy.ProviderID, m modelfile.Model) Model {
	family, vendor := c.familyAndVendor(&m)
	cache := c.CacheTerms(p, family)
	source, updated := pricing(m.Price)
	list, hours, until := c.pricesNow(m.Price, cache)
	list.Origin = &policy.PriceOrigin{Source: string(source), Updated: updated, Hours: hours}
	return Model{
		ID:           policy.ModelID(m.ID),
		Upstream:     cmp.Or(m.UpstreamID, m.ID),
		Family:       family,
		Vendor:       vendor,
		Prices:       list,
		Context:      m.Context,
		MaxOutput:    m.MaxOutput,
		Capabilities: without(m.Capabilities, m.Lacks),
		Lacks:        m.Lacks,
		Quality:      quality(&m),
		Strengths:    m.Strengths,
		Thinking:     thinking(&m),
		MinCache:     cmp.Or(m.MinCache, cache.MinTokens),
		Reasoning:    cmp.Or(m.Reasoning, "auto"),
		ImplicitOpen: m.ImplicitOpen != nil && *m.ImplicitOpen,

		NoSignatures:  c.noSignatures(&m),
		FixedSampling: m.FixedSampling != nil && *m.FixedSampling,
		SchemaAlone:   m.SchemaAlone != nil && *m.SchemaAlone,
		ResponsesOnly: m.ResponsesOnly != nil && *m.ResponsesOnly,
		NamedOnly:     m.NamedOnly != nil && *m.NamedOnly,

		ToolFormat: toolFormat(m.ToolFormat),
		LatencyP50: time.Duration(m.LatencyP50MS) * time.Millisecond,

		PriceSource: source, PriceUpdated: updated, PriceUntil: until,
	}
}

// familyAndVendor returns the family of a model, and its vendor, "" if it has none.
func (c *Catalog) familyAndVendor(m *modelfile.Model) (family string, vendor policy.ProviderID) {
	family, vendor = m.Family, c.vendorOfFamily(m.Family)
	if family == "" {
		family, vendor = c.familyOf(m.ID), c.VendorOf(m.ID)
	}
	if m.Vendor != "" {
		vendor = policy.ProviderID(m.Vendor)
	}
	if vendor == noVendor {
		vendor = ""
	}
	return family, vendor
}

// nonVendorPrice returns a model's price at a provider that is not its vendor, without the vendor's own items: service tiers, web searches, hours, images
// and sound.
func (c *Catalog) nonVendorPrice(p policy.ProviderID, m *modelfile.Model) *modelfile.Price {
	if _, vendor := c.familyAndVendor(m); m.Price == nil || vendor == p {
		return m.Price
	}
	price := *m.Price
	price.ServiceTiers, price.PerSearch, price.Hours = nil, nil, nil
	price.AudioOutput, price.CachedAudio, price.CachedImage = nil, nil, nil
	price.ImageInput, price.AudioInput, price.Characters, price.PerHour, price.PerImage, price.Images, price.PerMegapixel = nil, nil, nil, nil, nil, nil, nil
	return &price
}

// noVendor is the vendor in an entry whose model has none.
const noVendor = "none"

// thinking returns how a model's reasoning is controlled; one known to have no reasoning has no control.
func thinking(m *modelfile.Model) Thinking {
	if m.Thinking == nil {
		m.Thinking = &modelfile.Thinking{}
	}
	t := Thinking{
		Control: m.Thinking.Control, Efforts: m.Thinking.Efforts, Default: m.Thinking.Default,
		Display: m.Thinking.Display != nil && *m.Thinking.Display,
	}
	if t.Control == "" && m.Reasoning == reasoningNone {
		t.Control = policy.ControlNone
	}
	if t.Control == policy.ControlNone || t.Control == policy.ControlAlways {
		t.Efforts = []string{}
	}
	return t
}

const reasoningNone = "none"

// pricing returns the source and time of a usable price.
func pricing(p *modelfile.Price) (Source, time.Time) {
	if p == nil || (p.Input == nil || p.Output == nil) && unitPrices(p) == nil {
		return SourceDefault, time.Time{}
	}
	return Source(p.Source), p.Updated
}

const native = "native"

// toolFormat returns "" for models that call tools natively.
func toolFormat(format string) string {
	if format == native {
		return ""
	}
	return format
}

// noSignatures reports whether the family of the answering model, by the provider's name for it if that shows a family, is known not to sign
// reasoning.
func (c *Catalog) noSignatures(m *modelfile.Model) bool {
	family := cmp.Or(c.familyIn(m.UpstreamID), m.Family, c.familyIn(m.ID))
	return family != "" && !c.signsThinking(family)
}

// prices completes a price. Without a stated price for cached tokens, they cost as much as other input; cache writes cost the provider's known
// premium.
func prices(p *modelfile.Price, cache kind.CacheTerms) policy.Prices {
	units := unitPrices(p)
	if p == nil || (p.Input == nil || p.Output == nil) && units == nil {
		return DefaultPrices
	}
	out := policy.Prices{Input: or(p.Input, 0), Output: or(p.Output, 0), Known: true, Units: units}
	out.CachedInput = or(p.CachedInput, out.Input)
	out.CacheWrite = or(p.CacheWrite, writePrice(cache, out.Input))
	out.CacheWrite1h = or(p.CacheWrite1h, out.CacheWrite)
	if p.PerRequest != nil {
		out.PerRequest = picodollars(*p.PerRequest)
	}
	if p.PerSearch != nil {
		out.PerSearch, out.SearchKnown = picodollars(*p.PerSearch), true
	}
	out.Above = longPrices(p.Above, cache)
	for name, t := range p.ServiceTiers {
		if out.Tiers == nil {
			out.Tiers = make(map[string]policy.Prices, len(p.ServiceTiers))
		}
		tier := prices(&modelfile.Price{
			Input: t.Input, Output: t.Output, CachedInput: t.CachedInput, CacheWrite: t.CacheWrite, CacheWrite1h: t.CacheWrite1h,
			PerRequest: p.PerRequest, PerSearch: p.PerSearch, Above: t.Above,
		}, cache)
		out.Tiers[name] = tier
	}
	return out
}

// unitPrices returns the prices of units other than text tokens; nil if there are none.
func unitPrices(p *modelfile.Price) *policy.UnitPrices {
	if p == nil || p.ImageInput == nil && p.AudioInput == nil && p.AudioOutput == nil && p.CachedAudio == nil && p.CachedImage == nil && p.Characters == nil && p.PerHour == nil && p.PerImage == nil && p.Images == nil && p.PerMegapixel == nil {
		return nil
	}
	u := &policy.UnitPrices{
		NoTokens: p.Input == nil || p.Output == nil, ImageInput: or(p.ImageInput, 0), AudioInput: or(p.AudioInput, 0), Characters: or(p.Characters, 0),
		AudioOutput: or(p.AudioOutput, 0), CachedAudio: or(p.CachedAudio, 0), CachedImage: or(p.CachedImage, 0),
		PerHour: orNone(p.PerHour), MinSeconds: int64(p.MinSeconds), PerImage: picodollars(orNone(p.PerImage)),
		PerMegapixel: picodollars(orNone(p.PerMegapixel)), Steps: int64(p.Steps), Images: make(map[string]policy.Pico, len(p.Images)),
	}
	for name, price := range p.Images {
		u.Images[name] = picodollars(price)
	}
	return u
}

func orNone(m *policy.Micro) policy.Micro {
	if m == nil {
		return 0
	}
	return *m
}

// longPrices completes the prices of longer prompts.
func longPrices(stated []modelfile.LongPrice, cache kind.CacheTerms) (out []policy.Above) {
	for i := range stated {
		l := &stated[i]
		if l.Input == nil || l.Output == nil {
			continue // refused when it was read
		}
		write := or(l.CacheWrite, writePrice(cache, *l.Input))
		out = append(out, policy.Above{
			Tokens: int64(l.Tokens), Input: *l.Input, Output: *l.Output, CachedInput: or(l.CachedInput, *l.Input),
			CacheWrite: write, CacheWrite1h: or(l.CacheWrite1h, write),
		})
	}
	return out
}

func picodollars(m policy.Micro) policy.Pico { return policy.Pico(m) * 1_000_000 }

func or(p *policy.Price, otherwise policy.Price) policy.Price {
	if p == nil {
		return otherwise
	}
	return *p
}

// without returns a list of features without those in lacks.
func without(features, lacks []policy.Feature) []policy.Feature {
	if len(lacks) == 0 {
		return features
	}
	return slices.DeleteFunc(slices.Clone(features), func(f policy.Feature) bool { return slices.Contains(lacks, f) })
}
