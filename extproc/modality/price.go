package modality

import (
	"fmt"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Used is the usage of one call, in the units that providers bill.
type Used struct {
	Text, Image, Audio, Output int64 // tokens: of the input by kind, and of the answer
	CachedText, CachedImage    int64 // of Text and Image, tokens in the prompt cache
	CachedAudio, AudioOutput   int64 // of Audio, tokens in the prompt cache; of Output, spoken ones
	Images                     int64
	Milliseconds               int64
	Characters                 int64

	Reported  bool // the provider reported its tokens
	Timed     bool // the length of the audio is known
	Estimated bool // the billed quantity was not reported
}

// Usage returns the usage in the record's form.
func (u *Used) Usage() chat.Usage {
	cached := policy.AddTokens(policy.AddTokens(u.CachedText, u.CachedImage), u.CachedAudio)
	return chat.Usage{
		Input: max(policy.AddTokens(policy.AddTokens(u.Text, u.Image), u.Audio)-cached, 0), Cached: cached, Output: u.Output, Final: true, Estimated: u.Estimated,
	}
}

// unit is what a model is billed by.
type unit uint8

const (
	noUnit unit = iota // the price is unknown
	perToken
	perSecond
	perCharacter
	perImage
	perMegapixel
)

// unit returns the billing unit of the operation at these prices. A model with prices per token and per second is billed by tokens if they are
// reported.
func (o *Operation) unit(p *policy.Prices, reported bool) unit {
	u := p.Units
	switch {
	case u == nil && p.Known:
		return perToken
	case u == nil:
		return noUnit
	case o.images() && (len(u.Images) > 0 || u.PerImage > 0):
		return perImage
	case o.images() && u.PerMegapixel > 0:
		return perMegapixel
	case o.Feature == policy.Speech && u.Characters > 0:
		return perCharacter
	case o.audio() && u.PerHour > 0 && (u.NoTokens || !reported):
		return perSecond
	case u.NoTokens:
		return noUnit
	}
	return perToken
}

// Maximum tokens of an image and of a second of audio, if the catalog has no limit for an answer.
const (
	maxImageTokens   = 10_000
	maxOutputTokens  = 16_000
	tokensPerSecond  = 50
	charactersSecond = 5 // minimum number of characters spoken in a second
	bytesPerToken    = 4
)

// Max returns the maximum usage of a request at a candidate.
func (r *Request) Max(to *policy.Resolution) Used {
	u := Used{Text: r.text, Image: r.sent * maxImageTokens, Images: r.images, Characters: r.characters, Milliseconds: r.milliseconds, Timed: r.exact, Estimated: true}
	switch r.Op.Feature { //nolint:exhaustive // the others answer without tokens
	case policy.ImageGeneration:
		u.Output = policy.TimesTokens(atLeast(int64(to.MaxOutput), maxOutputTokens), r.images)
	case policy.Realtime:
		r.maxOfSession(to, &u)
	case policy.EndToEndEncryption:
		u.Output = atLeast(r.output, atLeast(int64(to.MaxOutput), maxOutputTokens))
	case policy.Speech:
		u.Milliseconds = r.characters * 1000 / charactersSecond
		u.Output = u.Milliseconds * tokensPerSecond / 1000
	case policy.Transcription:
		u.Audio = atLeast(int64(to.Context), r.milliseconds*tokensPerSecond/1000)
		u.Output = atLeast(int64(to.MaxOutput), maxOutputTokens)
	}
	return u
}

// atLeast returns a limit of the catalog, or what is assumed where it has none.
func atLeast(limit, otherwise int64) int64 {
	if limit > 0 {
		return limit
	}
	return otherwise
}

// Cost returns the cost of a usage at a candidate, by the unit that has a price there. The error is a fault of kind UnpricedParameter.
func (r *Request) Cost(to *policy.Resolution, u *Used) (policy.Pico, error) {
	p := &to.Prices
	units, by := p.Units, r.Op.unit(p, u.Reported)
	var cost policy.Pico
	switch by {
	case noUnit:
		return 0, r.unpricedFault(to, "the request")
	case perToken:
		if units == nil {
			units = &policy.UnitPrices{}
		}
		image, audio := orElse(units.ImageInput, p.Input), orElse(units.AudioInput, p.Input)
		cost = p.Input.Cost(u.Text-u.CachedText).Plus(
			orElse(p.CachedInput, p.Input).Cost(u.CachedText), image.Cost(u.Image-u.CachedImage), orElse(units.CachedImage, image).Cost(u.CachedImage),
			audio.Cost(u.Audio-u.CachedAudio), orElse(units.CachedAudio, audio).Cost(u.CachedAudio),
			p.Output.Cost(u.Output-u.AudioOutput), orElse(units.AudioOutput, p.Output).Cost(u.AudioOutput),
		)
	case perSecond:
		if r.unpriced != "" {
			return 0, r.unpricedFault(to, r.unpriced)
		}
		cost = units.Seconds(u.Milliseconds)
	case perCharacter:
		cost = units.Characters.Cost(u.Characters)
	case perImage:
		each, ok := r.perImage(units)
		if !ok {
			return 0, r.unpricedFault(to, fmt.Sprintf("size %q with quality %q", r.size, r.quality))
		}
		cost = each.Times(u.Images)
	case perMegapixel:
		return r.perMegapixel(to, units, u.Images)
	}
	return cost.Plus(p.PerRequest), nil
}

func orElse(price, otherwise policy.Price) policy.Price {
	if price > 0 {
		return price
	}
	return otherwise
}

// usualSize and usualQuality are OpenAI's defaults.
const (
	usualSize    = "1024x1024"
	usualQuality = "standard"
)

// perImage returns the cost of one image. Options that are left to the provider count as the most expensive ones.
func (r *Request) perImage(units *policy.UnitPrices) (cost policy.Pico, ok bool) {
	size, quality := r.size, r.quality
	if size == "" {
		size = usualSize
	}
	if quality == "" {
		quality = usualQuality
	}
	if size == "auto" || quality == "auto" {
		for _, c := range units.Images {
			cost = max(cost, c)
		}
		return max(cost, units.PerImage), true
	}
	return units.Image(size, quality)
}

// usualPixels is the default image size in pixels.
const usualPixels = 1024 * 1024

// perMegapixel returns the cost of images by their pixels. Steps beyond those that the price includes cost more.
func (r *Request) perMegapixel(to *policy.Resolution, units *policy.UnitPrices, n int64) (policy.Pico, error) {
	pixels := atLeast(r.pixels, usualPixels)
	if r.size == "auto" {
		return 0, r.unpricedFault(to, `size "auto"`)
	}
	if r.steps > units.Steps && units.Steps == 0 {
		return 0, r.unpricedFault(to, "steps")
	}
	cost := units.PerMegapixel.Times(n).Times(pixels)
	if cost == policy.MaxPico {
		return 0, r.unpricedFault(to, "size")
	}
	const million = 1_000_000
	cost = (cost + million - 1) / million
	if units.Steps > 0 && r.steps > units.Steps {
		cost = (cost.Times(r.steps) + policy.Pico(units.Steps) - 1) / policy.Pico(units.Steps)
	}
	return to.Prices.PerRequest.Plus(cost), nil
}

// unpricedFault returns the caller's fault for a part of its request without a price.
func (r *Request) unpricedFault(to *policy.Resolution, what string) error {
	f := fault.Newf(fault.UnpricedParameter, "the gateway knows no price of %s at %s of %s for %s: use a key of your own there (providers.direct), "+
		"or have the operator state the price of the model", what, r.Op.Path(), to.Provider, to.Model)
	f.Param = "model"
	return f
}

// Read returns the usage of a complete answer: as reported, else from its content, else from the request.
func (r *Request) Read(to *policy.Resolution, body []byte) Used {
	u := r.Max(to)
	doc, err := jsonx.Parse(body)
	if err != nil { // a plain-text transcript
		return r.complete(to, u)
	}
	n := int64(0)
	for range doc.Get("data").Each {
		n++
	}
	if r.Op.images() && n > 0 {
		u.Images = n
	}
	if seconds, ok := doc.Get("duration").Float(); ok && r.Op.Feature == policy.Transcription {
		u.Milliseconds, u.Timed = milliseconds(seconds), true
	}
	u.report(doc.Get("usage"))
	return r.complete(to, u)
}

// complete marks a usage as an estimate, and removes unreported token counts that are not billed. The token counts of classified or ranked texts are
// estimated from their bytes.
func (r *Request) complete(to *policy.Resolution, u Used) Used {
	by := r.Op.unit(&to.Prices, u.Reported)
	u.Estimated = by == perToken && !u.Reported || by == perSecond && !u.Timed
	switch {
	case u.Reported:
	case by != perToken:
		u.Text, u.Image, u.Audio, u.Output = 0, 0, 0, 0
	case r.Op.Feature == policy.Moderation || r.Op.Feature == policy.Rerank:
		u.Text = (r.text + bytesPerToken - 1) / bytesPerToken
	}
	return u
}

// report adds an answer's own usage report, in the names of OpenAI and compatible providers.
func (u *Used) report(usage jsonx.Value) {
	if seconds, ok := usage.Get("seconds").Float(); ok {
		u.Milliseconds, u.Timed = milliseconds(seconds), true
	}
	input, ok := first(usage, "input_tokens", "prompt_tokens", "total_tokens")
	if !ok {
		return
	}
	u.Image, u.Audio = 0, 0
	for _, details := range [...]string{"input_tokens_details", "input_token_details"} {
		d := usage.Get(details)
		u.Image = max(u.Image, intOf(d.Get("image_tokens")))
		u.Audio = max(u.Audio, intOf(d.Get("audio_tokens")))
	}
	u.Output, _ = first(usage, "output_tokens", "completion_tokens")
	u.Text = max(input-u.Image-u.Audio, 0)
	u.Reported = true
}

// first returns the first of an object's members that is a number.
func first(v jsonx.Value, names ...string) (int64, bool) {
	for _, name := range names {
		if n, ok := v.Get(name).Int(); ok {
			return max(n, 0), true
		}
	}
	return 0, false
}

func intOf(v jsonx.Value) int64 {
	n, _ := v.Int()
	return max(n, 0)
}

// milliseconds converts seconds as reported by a provider, rounded up.
func milliseconds(seconds float64) int64 {
	const maxSeconds = 1e9
	return int64(min(max(seconds, 0), maxSeconds)*1000 + 0.999)
}
