package openai

import (
	"cmp"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
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
	in, out := v.Get(promptDetails), v.Get("completion_tokens_details")
	return wire.Count(in.Get("audio_tokens"))+wire.Count(out.Get("audio_tokens"))+
		wire.Count(out.Get("accepted_prediction_tokens"))+wire.Count(out.Get("rejected_prediction_tokens")) > 0
}

// promptDetails is the member of a usage object that takes the prompt's tokens apart.
const promptDetails = "prompt_tokens_details"

// ReadUsage reads the usage object of an answer in any of OpenAI's formats with prompts and completions.
func ReadUsage(v jsonx.Value) chat.Usage { return readUsage(v) }

// TotalTokens is the sum that a usage object names.
func TotalTokens(v jsonx.Value) int64 { return wire.Billed(v, "total_tokens") }

// readUsage reads a usage object. Providers leave members out, set them to null, or write floats.
func readUsage(v jsonx.Value) chat.Usage {
	prompt := wire.Billed(v, "prompt_tokens")
	cached := min(prompt, cmp.Or(
		wire.Discount(v, promptDetails, "cached_tokens"),
		wire.Discount(v, "prompt_cache_hit_tokens"), // DeepSeek
		wire.Discount(v, "cached_tokens"),           // Moonshot
	))
	written := min(prompt-cached, cmp.Or(
		wire.Billed(v, promptDetails, "cache_write_tokens"),    // OpenRouter
		wire.Billed(v, promptDetails, "cache_creation_tokens"), // LiteLLM, which also writes Anthropic's own member
		wire.Billed(v, "cache_creation_input_tokens"),
	))
	u := chat.Usage{
		Input:      prompt - cached - written,
		Cached:     cached,
		CacheWrite: written,
		Output:     wire.Billed(v, "completion_tokens"),
		Reasoning:  wire.Billed(v, "completion_tokens_details", "reasoning_tokens"),
		Searches: cmp.Or(
			wire.Billed(v, "num_search_queries"),                     // Perplexity
			wire.Billed(v, "server_tool_use", "web_search_requests"), // OpenRouter
		),
	}
	// xAI leaves reasoning out of completion_tokens; its total tells.
	if u.Reasoning > 0 && wire.Billed(v, "total_tokens") == prompt+u.Output+u.Reasoning {
		u.Output += u.Reasoning
	}
	return u
}
