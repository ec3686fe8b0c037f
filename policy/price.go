package policy

import (
	"slices"
	"time"
)

// Prices are a provider's prices for a model. Known is false if they are the default. They are shared: Above and Tiers must not be changed.
type Prices struct {
	Input        Price
	Output       Price
	CachedInput  Price
	CacheWrite   Price // five-minute cache writes
	CacheWrite1h Price // one-hour cache writes
	PerRequest   Pico
	PerSearch    Pico // per web search by the provider
	Known        bool
	SearchKnown  bool // PerSearch is stated, possibly as 0; searches without a price are not requested

	Above []Above           // for longer prompts, the shortest first
	Tiers map[string]Prices // of other service tiers, by the provider's names; these have no Tiers themselves
	Units *UnitPrices       // of items not billed by text tokens; nil: none

	Origin *PriceOrigin // nil: unknown
}

// PriceOrigin is the source and the time of a price.
type PriceOrigin struct {
	Source  string    // default, catalog, provider, operator or local
	Updated time.Time // zero if unknown
	Hours   string    // the part of the day whose price it is: "16:30-00:30 UTC"; "" for the regular one
}

// UnitPrices are the prices of images, audio and spoken text. Zero means no separate price.
type UnitPrices struct {
	NoTokens     bool            // tokens have no stated price
	ImageInput   Price           // per token of an input image; 0: as Input
	AudioInput   Price           // per token of input audio; 0: as Input
	AudioOutput  Price           // per token of spoken output; 0: as Output
	CachedAudio  Price           // per token of input audio in the prompt cache; 0: as AudioInput
	CachedImage  Price           // per token of an input image in the prompt cache; 0: as ImageInput
	Characters   Price           // per character of text to speech
	PerHour      Micro           // of audio, billed by the second
	MinSeconds   int64           // minimum that a request is billed for
	PerImage     Pico            // for any size and quality
	PerMegapixel Pico            // per megapixel of an image
	Steps        int64           // steps included in PerMegapixel; more cost in proportion; 0: any number
	Images       map[string]Pico // override PerImage, by "size", "quality" or "quality/size"
}

// Seconds returns the cost of audio of a duration, at least MinSeconds, rounded up to a Pico.
func (u *UnitPrices) Seconds(ms int64) Pico {
	ms = max(ms, u.MinSeconds*1000)
	const hour = 3_600_000
	whole := Pico(picoPerMicro).Times(int64(u.PerHour)).Times(ms)
	if whole == MaxPico {
		return MaxPico
	}
	return (whole + hour - 1) / hour
}

// Image returns the cost of one image; ok is false if there is no price for its size and quality. A size is "1024x1024".
func (u *UnitPrices) Image(size, quality string) (cost Pico, ok bool) {
	for _, key := range [...]string{quality + "/" + size, size, quality} {
		if cost, ok := u.Images[key]; ok {
			return cost, true
		}
	}
	return u.PerImage, u.PerImage > 0
}

// Above are the prices of a request whose prompt is longer than a number of tokens. They apply to all of its tokens, including the answer's.
type Above struct {
	Tokens       int64
	Input        Price
	Output       Price
	CachedInput  Price
	CacheWrite   Price
	CacheWrite1h Price
}

// PriceList is the public form of prices: in USD per million tokens, per request and per web search.
type PriceList struct {
	Rates

	PerRequest   Pico                 `json:"per_request,omitempty"`
	PerSearch    Pico                 `json:"per_search,omitempty"`
	Above        []AboveList          `json:"above,omitempty"`
	ServiceTiers map[string]PriceList `json:"service_tiers,omitempty"`
	*UnitList
}

// UnitList is the public form of the prices of images, audio and spoken text, in USD.
type UnitList struct {
	ImageInput   Micro           `json:"image_input,omitempty"` // per million tokens, like AudioInput
	AudioInput   Micro           `json:"audio_input,omitempty"`
	Characters   Micro           `json:"characters,omitempty"` // per million
	PerHour      Micro           `json:"per_hour,omitempty"`
	PerImage     Pico            `json:"per_image,omitempty"`
	Images       map[string]Pico `json:"images,omitempty"`
	PerMegapixel Pico            `json:"per_megapixel,omitempty"`
}

// Rates is the public form of token prices.
type Rates struct {
	Input        Micro `json:"input"`
	Output       Micro `json:"output"`
	CachedInput  Micro `json:"cached_input"`
	CacheWrite   Micro `json:"cache_write"`
	CacheWrite1h Micro `json:"cache_write_1h"`
}

// AboveList is the public form of the prices of longer prompts.
type AboveList struct {
	Tokens int64 `json:"tokens"`
	Rates
}

// List returns the public form of the prices.
func (p *Prices) List() PriceList {
	list := PriceList{
		Rates:      Rates{Micro(p.Input), Micro(p.Output), Micro(p.CachedInput), Micro(p.CacheWrite), Micro(p.CacheWrite1h)},
		PerRequest: p.PerRequest, PerSearch: p.PerSearch,
	}
	if u := p.Units; u != nil {
		list.UnitList = &UnitList{Micro(u.ImageInput), Micro(u.AudioInput), Micro(u.Characters), u.PerHour, u.PerImage, u.Images, u.PerMegapixel}
	}
	for i := range p.Above {
		a := &p.Above[i]
		list.Above = append(list.Above, AboveList{a.Tokens, Rates{
			Micro(a.Input), Micro(a.Output), Micro(a.CachedInput), Micro(a.CacheWrite), Micro(a.CacheWrite1h),
		}})
	}
	if len(p.Tiers) > 0 {
		list.ServiceTiers = make(map[string]PriceList, len(p.Tiers))
	}
	for name, tier := range p.Tiers {
		list.ServiceTiers[name] = tier.List()
	}
	return list
}

// Cost returns the exact provider cost of a usage, at most MaxPico. input excludes tokens read from or written to a cache.
func (p *Prices) Cost(input, cached, write, write1h, output int64) Pico {
	r := p.At(AddTokens(AddTokens(input, cached), AddTokens(write, write1h)))
	return p.PerRequest.Plus(r.Input.Cost(input), r.CachedInput.Cost(cached), r.CacheWrite.Cost(write),
		r.CacheWrite1h.Cost(write1h), r.Output.Cost(output))
}

// At returns the token prices for a prompt of a length.
func (p *Prices) At(prompt int64) Above {
	for _, a := range slices.Backward(p.Above) {
		if prompt > a.Tokens {
			return a
		}
	}
	return Above{
		Input: p.Input, Output: p.Output, CachedInput: p.CachedInput, CacheWrite: p.CacheWrite, CacheWrite1h: p.CacheWrite1h,
	}
}

// MostExpensive returns the highest prices that an input token and an output token can have with a prompt of up to a length.
func (p *Prices) MostExpensive(prompt int64) (input, output Price) {
	input, output = max(p.Input, p.CachedInput, p.CacheWrite, p.CacheWrite1h), p.Output
	for i := range p.Above {
		if a := &p.Above[i]; prompt > a.Tokens {
			input, output = max(input, a.Input, a.CachedInput, a.CacheWrite, a.CacheWrite1h), max(output, a.Output)
		}
	}
	return input, output
}

// Uncached returns the prices of requests without caching.
func (p *Prices) Uncached() Prices {
	out := Prices{Input: p.Input, Output: p.Output, PerRequest: p.PerRequest, Known: p.Known}
	for i := range p.Above {
		a := &p.Above[i]
		out.Above = append(out.Above, Above{Tokens: a.Tokens, Input: a.Input, Output: a.Output})
	}
	return out
}

// Percent returns n percent of the token prices, rounded up; items not billed by tokens keep their prices.
func (p *Prices) Percent(n int64) Prices {
	of := func(price Price) Price { return Price((int64(price)*n + 99) / 100) }
	out := *p
	out.Input, out.Output, out.CachedInput, out.CacheWrite, out.CacheWrite1h = of(p.Input), of(p.Output), of(p.CachedInput), of(p.CacheWrite), of(p.CacheWrite1h)
	out.Above, out.Tiers = nil, nil
	for i := range p.Above {
		a := &p.Above[i]
		out.Above = append(out.Above, Above{a.Tokens, of(a.Input), of(a.Output), of(a.CachedInput), of(a.CacheWrite), of(a.CacheWrite1h)})
	}
	return out
}

// InTier returns the prices of a service tier; if they are unknown, ok is false and the regular prices are returned.
func (p *Prices) InTier(name string) (in *Prices, ok bool) {
	if IsUsualTier(name) {
		return p, true
	}
	if tier, ok := p.Tiers[name]; ok {
		return &tier, true
	}
	return p, false
}

// IsUsualTier reports whether a service tier is the one with the regular prices, by any provider's name. With auto the provider chooses the tier, and
// its answer states it.
func IsUsualTier(name string) bool {
	switch name {
	case "", "auto", "default", "standard", "standard_only", "on_demand":
		return true
	}
	return false
}
