package chatcompletion

import (
	"cmp"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// report is the content of a usage object, read in one pass. Of duplicate members the one with the higher cost counts, see wire.Billed and
// wire.Minimum.
type report struct {
	prompt, output, total, reasoning int64
	searches, routerSearches         int64 // as counted by Perplexity and by OpenRouter
	cached                           struct{ openAI, deepSeek, moonshot wire.Minimum }
	written                          struct{ openRouter, liteLLM, anthropic int64 }
	breakdown                        int64 // tokens that the other dialects do not count separately
}

func read(v jsonx.Value) (r report) {
	for key, m := range v.Members {
		switch string(key) {
		case "prompt_tokens":
			r.prompt = max(r.prompt, wire.Count(m))
		case "completion_tokens":
			r.output = max(r.output, wire.Count(m))
		case "total_tokens":
			r.total = max(r.total, wire.Count(m))
		case "prompt_tokens_details":
			r.promptDetails(m)
		case "completion_tokens_details":
			r.outputDetails(m)
		case "prompt_cache_hit_tokens":
			r.cached.deepSeek.Add(wire.Count(m))
		case "cached_tokens":
			r.cached.moonshot.Add(wire.Count(m))
		case "cache_creation_input_tokens":
			r.written.anthropic = max(r.written.anthropic, wire.Count(m))
		case "num_search_queries":
			r.searches = max(r.searches, wire.Count(m))
		case "server_tool_use":
			r.routerSearches = max(r.routerSearches, wire.Billed(m, "web_search_requests"))
		}
	}
	return r
}

func (r *report) promptDetails(v jsonx.Value) {
	var cached wire.Minimum
	for key, m := range v.Members {
		switch string(key) {
		case "cached_tokens":
			cached.Add(wire.Count(m))
		case "cache_write_tokens":
			r.written.openRouter = max(r.written.openRouter, wire.Count(m))
		case "cache_creation_tokens": // LiteLLM also writes Anthropic's own member
			r.written.liteLLM = max(r.written.liteLLM, wire.Count(m))
		case "audio_tokens":
			r.breakdown = max(r.breakdown, wire.Count(m))
		}
	}
	r.cached.openAI.Add(cached.N)
}

func (r *report) outputDetails(v jsonx.Value) {
	for key, m := range v.Members {
		switch string(key) {
		case "reasoning_tokens":
			r.reasoning = max(r.reasoning, wire.Count(m))
		case "audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens":
			r.breakdown = max(r.breakdown, wire.Count(m))
		}
	}
}

// usage converts the report to the gateway's counts.
func (r *report) usage() chat.Usage {
	cached := min(r.prompt, cmp.Or(r.cached.openAI.N, r.cached.deepSeek.N, r.cached.moonshot.N))
	written := min(r.prompt-cached, cmp.Or(r.written.openRouter, r.written.liteLLM, r.written.anthropic))
	u := chat.Usage{
		Input:      r.prompt - cached - written,
		Cached:     cached,
		CacheWrite: written,
		Output:     r.output,
		Reasoning:  r.reasoning,
		Searches:   cmp.Or(r.searches, r.routerSearches),
	}
	// xAI does not count reasoning in completion_tokens, only in the total.
	if u.Reasoning > 0 && r.total == r.prompt+u.Output+u.Reasoning {
		u.Output += u.Reasoning
	}
	return u
}

// ReadUsage reads the usage object of an answer in any of OpenAI's formats that count prompt and completion tokens. Providers omit members,
// set them to null, or write floats.
func ReadUsage(v jsonx.Value) chat.Usage {
	r := read(v)
	return r.usage()
}

// ReadInputUsage is ReadUsage for an answer without output, for which some providers report only the total.
func ReadInputUsage(v jsonx.Value) chat.Usage {
	r := read(v)
	u := r.usage()
	if u.TotalInput() == 0 {
		u.Input = r.total
	}
	return u
}
