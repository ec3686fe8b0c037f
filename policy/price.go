package policy

import (
	"slices"
	"time"
)

// Prices are what a provider asks for a model. Known is false when they are the documented default. They are shared, and nobody changes
// what Above and Tiers hold.
type Prices struct {
	Input        Price
	Output       Price
	CachedInput  Price
	CacheWrite   Price // five-minute cache writes
	CacheWrite1h Price // one-hour cache writes
	PerRequest   Pico
	PerSearch    Pico // for each search of the web that the provider makes
	Known        bool
	SearchKnown  bool // somebody said PerSearch, be it 0: a search without a price is not asked for

	Above []Above           // of requests with longer prompts, the shortest first
	Tiers map[string]Prices // of other tiers of service than the usual one, by the provider's names; these have none themselves
	Units *UnitPrices       // of what is not billed by tokens of text; nil: there are none

	Origin *PriceOrigin // nil: nobody noted it
}

// PriceOrigin is who said a price, and when it was true.
type PriceOrigin struct {
	Source  string    // default, catalog, provider, operator or local
	Updated time.Time // zero if nobody said
	Hours   string    // the part of the day whose price it is: "16:30-00:30 UTC"; "" for the usual one
}

// UnitPrices are the prices of images, sound and spoken text. What is zero has no price of its own.
type UnitPrices struct {
	NoTokens     bool            // tokens have no price: nobody said one
	ImageInput   Price           // per token of an image that is sent; 0: as Input
	AudioInput   Price           // per token of sound that is sent; 0: as Input
	Characters   Price           // per character of a text that is spoken
	PerHour      Micro           // of sound, billed by the second
	MinSeconds   int64           // that a request is billed for at least
	PerImage     Pico            // of any size and quality
	PerMegapixel Pico            // of an image
	Steps        int64           // that PerMegapixel includes; more cost in proportion; 0: as many as are asked for
	Images       map[string]Pico // over PerImage, by "size", "quality" or "quality/size"
}

// Seconds is what so many seconds of sound cost, rounded up to a Pico; MinSeconds at least.
func (u *UnitPrices) Seconds(ms int64) Pico {
	ms = max(ms, u.MinSeconds*1000)
	const hour = 3_600_000
	whole := Pico(picoPerMicro).Times(int64(u.PerHour)).Times(ms)
	if whole == MaxPico {
		return MaxPico
	}
	return (whole + hour - 1) / hour
}

// Image is what one image costs; ok is false where nobody said a price for its size and quality. A size is "1024x1024".
func (u *UnitPrices) Image(size, quality string) (cost Pico, ok bool) {
	for _, key := range [...]string{quality + "/" + size, size, quality} {
		if cost, ok := u.Images[key]; ok {
			return cost, true
		}
	}
	return u.PerImage, u.PerImage > 0
}

// Above are the prices of a request whose prompt is longer than so many tokens: of all of its tokens, those of the answer too.
type Above struct {
	Tokens       int64
	Input        Price
	Output       Price
	CachedInput  Price
	CacheWrite   Price
	CacheWrite1h Price
}

// PriceList is how prices are shown: in USD per million tokens, per request and per search of the web.
type PriceList struct {
	Rates

	PerRequest   Pico                 `json:"per_request,omitempty"`
	PerSearch    Pico                 `json:"per_search,omitempty"`
	Above        []AboveList          `json:"above,omitempty"`
	ServiceTiers map[string]PriceList `json:"service_tiers,omitempty"`
	*UnitList
}

// UnitList is how the prices of images, sound and spoken text are shown, in USD.
type UnitList struct {
	ImageInput   Micro           `json:"image_input,omitempty"` // per million tokens, as AudioInput
	AudioInput   Micro           `json:"audio_input,omitempty"`
	Characters   Micro           `json:"characters,omitempty"` // per million
	PerHour      Micro           `json:"per_hour,omitempty"`
	PerImage     Pico            `json:"per_image,omitempty"`
	Images       map[string]Pico `json:"images,omitempty"`
	PerMegapixel Pico            `json:"per_megapixel,omitempty"`
}

// Rates are prices of tokens as they are shown.
type Rates struct {
	Input        Micro `json:"input"`
	Output       Micro `json:"output"`
	CachedInput  Micro `json:"cached_input"`
	CacheWrite   Micro `json:"cache_write"`
	CacheWrite1h Micro `json:"cache_write_1h"`
}

// AboveList is how the prices of longer prompts are shown.
type AboveList struct {
	Tokens int64 `json:"tokens"`
	Rates
}

// List is how the prices are shown.
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

// Cost is the exact provider cost of a usage, at most MaxPico. Input counts only tokens that were neither read from nor written to a cache.
func (p *Prices) Cost(input, cached, write, write1h, output int64) Pico {
	r := p.At(AddTokens(AddTokens(input, cached), AddTokens(write, write1h)))
	return p.PerRequest.Plus(r.Input.Cost(input), r.CachedInput.Cost(cached), r.CacheWrite.Cost(write),
		r.CacheWrite1h.Cost(write1h), r.Output.Cost(output))
}

// At are the prices of tokens with a prompt of a length.
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

// MostExpensive are the highest prices that an input token and an output token can have with a prompt of up to a length.
func (p *Prices) MostExpensive(prompt int64) (input, output Price) {
	input, output = max(p.Input, p.CachedInput, p.CacheWrite, p.CacheWrite1h), p.Output
	for i := range p.Above {
		if a := &p.Above[i]; prompt > a.Tokens {
			input, output = max(input, a.Input, a.CachedInput, a.CacheWrite, a.CacheWrite1h), max(output, a.Output)
		}
	}
	return input, output
}

// Uncached are the prices of requests that no cache knows: nothing is read from one, and nothing written to it.
func (p *Prices) Uncached() Prices {
	out := Prices{Input: p.Input, Output: p.Output, PerRequest: p.PerRequest, Known: p.Known}
	for i := range p.Above {
		a := &p.Above[i]
		out.Above = append(out.Above, Above{Tokens: a.Tokens, Input: a.Input, Output: a.Output})
	}
	return out
}

// Percent are the prices of tokens at so many percent of these, rounded up; what is not billed by tokens costs the same.
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

// InTier are the prices of a tier of service; ok is false where nobody knows them, and they are the usual ones then.
func (p *Prices) InTier(name string) (in *Prices, ok bool) {
	if IsUsualTier(name) {
		return p, true
	}
	if tier, ok := p.Tiers[name]; ok {
		return &tier, true
	}
	return p, false
}

// IsUsualTier tells whether a tier of service is the one that is priced without a word, by all the names that providers have for it. Auto
// leaves it to the provider, whose answer says what it came to.
func IsUsualTier(name string) bool {
	switch name {
	case "", "auto", "default", "standard", "standard_only", "on_demand":
		return true
	}
	return false
}
