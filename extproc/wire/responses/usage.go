package responses

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// report is the content of a usage object, read in one pass. Of duplicate members the one with the higher cost counts, see wire.Billed and
// wire.Minimum.
type report struct {
	input, written, output, reasoning int64
	cached                            wire.Minimum
}

func readReport(v jsonx.Value) (r report) {
	for key, m := range v.Members {
		switch string(key) {
		case "input_tokens":
			r.input = max(r.input, wire.Count(m))
		case "input_tokens_details":
			r.inputDetails(m)
		case "output_tokens":
			r.output = max(r.output, wire.Count(m))
		case "output_tokens_details":
			r.reasoning = max(r.reasoning, wire.Billed(m, "reasoning_tokens"))
		}
	}
	return r
}

func (r *report) inputDetails(v jsonx.Value) {
	var cached wire.Minimum
	for key, m := range v.Members {
		switch string(key) {
		case "cached_tokens":
			cached.Add(wire.Count(m))
		case "cache_write_tokens":
			r.written = max(r.written, wire.Count(m))
		}
	}
	r.cached.Add(cached.N)
}

// usage converts the report to the gateway's counts.
func (r *report) usage() chat.Usage {
	cached := min(r.input, r.cached.N)
	written := min(r.input-cached, r.written)
	return chat.Usage{Input: r.input - cached - written, Cached: cached, CacheWrite: written, Output: r.output, Reasoning: r.reasoning}
}
