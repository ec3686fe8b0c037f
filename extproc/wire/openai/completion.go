package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/jsonx"
)

// completion reads a whole answer. One without choices is no answer, whatever its status says.
func (d *Decoder) completion(v jsonx.Value) {
	o := readObject(v)
	if !o.err.IsNull() {
		d.failWith(errbody.InStream(v))
		return
	}
	d.begin(&o)
	for i, c := range o.choices.Each {
		d.wholeChoice(i, c)
	}
	if len(d.events) == 1 {
		d.events = d.events[:0]
		d.fail("empty", "the provider's answer has no choices")
		return
	}
	if o.usage.Kind() == jsonx.Object {
		u := readUsage(o.usage)
		u.Final = true
		d.emit(chat.Event{Kind: chat.UsageInfo, Usage: u})
	}
	d.done()
	if d.passes {
		d.events[0].Raw, d.events[0].ModelSpan = d.body, o.modelSpan(0)
		for i := range d.events[1:] {
			d.events[i+1].Tail = true
		}
	}
}

func (d *Decoder) wholeChoice(position int, v jsonx.Value) {
	number := int64(position)
	if n, ok := v.Get("index").Int(); ok {
		number = n
	}
	c, n := d.choice(int(min(number, maxChoices)))
	d.message(c, n, v.Get("message"))
	reason, ok := v.Get("finish_reason").Str()
	if !ok || reason == "" {
		reason = "stop"
	}
	d.stop(c, n, reason)
}

// readUsage reads a usage object. Providers leave members out, set them to null, or write floats.
func readUsage(v jsonx.Value) chat.Usage {
	prompt := count(v.Get("prompt_tokens"))
	details := v.Get("prompt_tokens_details")
	cached := count(details.Get("cached_tokens"))
	if cached == 0 {
		cached = count(v.Get("prompt_cache_hit_tokens")) // DeepSeek
	}
	cached = min(cached, prompt)
	written := min(count(details.Get("cache_write_tokens")), prompt-cached) // OpenRouter
	u := chat.Usage{
		Input:      prompt - cached - written,
		Cached:     cached,
		CacheWrite: written,
		Output:     count(v.Get("completion_tokens")),
		Reasoning:  count(v.Get("completion_tokens_details").Get("reasoning_tokens")),
	}
	// xAI leaves reasoning out of completion_tokens; its total tells.
	if u.Reasoning > 0 && count(v.Get("total_tokens")) == prompt+u.Output+u.Reasoning {
		u.Output += u.Reasoning
	}
	return u
}

// count reads a number of tokens; 0 for anything that is none.
func count(v jsonx.Value) int64 {
	const most = 1 << 53 // what a float64 holds exactly, and more tokens than there are
	if n, ok := v.Int(); ok {
		return max(0, min(n, most))
	}
	f, ok := v.Float()
	if !ok || !(f > 0) {
		return 0
	}
	return int64(min(f, most))
}
