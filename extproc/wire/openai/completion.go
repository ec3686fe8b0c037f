package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/jsonx"
)

// completion reads a whole answer. One without choices is no answer, whatever its status says.
func (d *Decoder) completion(v jsonx.Value) {
	o := d.readObject(v)
	if !o.err.IsNull() {
		d.FailWith(errbody.InStream(v))
		return
	}
	d.begin(&o, v)
	empty := true
	for i, c := range o.choices.Each {
		empty = false
		if d.choiceObject(i, c, true); d.Over {
			d.Events = d.Events[len(d.Events)-1:] // nothing of it is shown
			return
		}
	}
	if empty {
		d.Events = d.Events[:0]
		d.Fail("empty", "the provider's answer has no choices")
		return
	}
	if o.usage.Kind() == jsonx.Object {
		d.usage(o.usage, true)
	}
	d.done()
	d.Carry(0, 0, d.Body, o.modelSpan(0))
}

// usage tells what an answer took, in the provider's words too.
func (d *Decoder) usage(v jsonx.Value, final bool) {
	u := readUsage(v)
	u.Final = final
	if d.searched {
		u.Searches = max(u.Searches, 1)
	}
	d.Emit(chat.Event{Kind: chat.UsageInfo, Usage: u, Text: v.Raw})
	if !d.said.usageDetails && hasBreakdown(v) {
		d.said.usageDetails = true
		d.Emit(chat.Event{Kind: chat.Extra, ID: usageDetails})
	}
}

// hasBreakdown reports whether a usage object counts apart what the other dialects do not.
func hasBreakdown(v jsonx.Value) bool {
	in, out := v.Get("prompt_tokens_details"), v.Get("completion_tokens_details")
	return count(in.Get("audio_tokens"))+count(out.Get("audio_tokens"))+
		count(out.Get("accepted_prediction_tokens"))+count(out.Get("rejected_prediction_tokens")) > 0
}

// readUsage reads a usage object. Providers leave members out, set them to null, or write floats.
func readUsage(v jsonx.Value) chat.Usage {
	prompt := count(v.Get("prompt_tokens"))
	details := v.Get("prompt_tokens_details")
	cached := min(prompt, firstCount(
		details.Get("cached_tokens"),
		v.Get("prompt_cache_hit_tokens"), // DeepSeek
		v.Get("cached_tokens"),           // Moonshot
	))
	written := min(prompt-cached, firstCount(
		details.Get("cache_write_tokens"),    // OpenRouter
		details.Get("cache_creation_tokens"), // LiteLLM, which also writes Anthropic's own member
		v.Get("cache_creation_input_tokens"),
	))
	u := chat.Usage{
		Input:      prompt - cached - written,
		Cached:     cached,
		CacheWrite: written,
		Output:     count(v.Get("completion_tokens")),
		Reasoning:  count(v.Get("completion_tokens_details").Get("reasoning_tokens")),
		Searches: firstCount(
			v.Get("num_search_queries"),                         // Perplexity
			v.Get("server_tool_use").Get("web_search_requests"), // OpenRouter
		),
	}
	// xAI leaves reasoning out of completion_tokens; its total tells.
	if u.Reasoning > 0 && count(v.Get("total_tokens")) == prompt+u.Output+u.Reasoning {
		u.Output += u.Reasoning
	}
	return u
}

// firstCount is the first number that is not zero.
func firstCount(vs ...jsonx.Value) int64 {
	for _, v := range vs {
		if n := count(v); n > 0 {
			return n
		}
	}
	return 0
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
