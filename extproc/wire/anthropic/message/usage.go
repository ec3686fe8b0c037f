package message

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// bytesPerThinkingToken is the approximate size of a thinking token. The API does not count thinking separately.
const bytesPerThinkingToken = 4

// report reads a usage object and emits all numbers so far. They come at the start, at the end, or both; some servers repeat zeros, which are
// ignored. final is whether the output is complete.
func (a *answer) report(v jsonx.Value, final bool) {
	if v.Kind() != jsonx.Object {
		return
	}
	c, tier, tools := counts(v)
	c.add(c.iterations)
	u := chat.Usage{Input: c.input, Cached: c.cached, Output: c.output, Reasoning: c.thinking, Final: final && c.output > 0}
	u.Searches = wire.Billed(tools, "web_search_requests")
	u.CacheWrite1h = c.written1h
	if u.CacheWrite1h == 0 {
		u.CacheWrite1h = a.usage.CacheWrite1h // a later report may have the total only
	}
	u.CacheWrite = max(c.written-u.CacheWrite1h, c.written5m)
	if u.Reasoning == 0 && u.Final {
		u.Reasoning = min(int64(a.thought+bytesPerThinkingToken-1)/bytesPerThinkingToken, u.Output)
		u.ReasoningEstimated = u.Reasoning > 0
	}
	a.usage.Merge(u)
	a.add(chat.Event{Kind: chat.UsageInfo, Usage: a.usage, Text: v.Raw})
	if !a.tier && tier.Kind() == jsonx.String {
		a.tier = true
		a.add(chat.Event{Kind: chat.Extra, ID: chat.ServiceTier, Text: tier.Raw})
	}
	for _, n := range tools.Members {
		if !a.toolsEmitted && wire.Count(n) > 0 {
			a.toolsEmitted = true
			a.add(chat.Event{Kind: chat.Extra, ID: serverToolUse})
		}
	}
}

// counted are the numbers of a usage object.
type counted struct {
	input, cached, written, output, thinking int64
	written5m, written1h                     int64 // of what was written, by lifetime: five minutes and one hour
	iterations                               jsonx.Value
}

// counts reads a usage object, without its iterations.
func counts(v jsonx.Value) (c counted, tier, tools jsonx.Value) {
	var split jsonx.Value
	for key, m := range v.Members {
		switch string(key) {
		case "input_tokens":
			c.input = max(c.input, wire.Count(m))
		case "cache_read_input_tokens":
			c.cached = max(c.cached, wire.Count(m))
		case "cache_creation_input_tokens":
			c.written = max(c.written, wire.Count(m))
		case "cache_creation":
			split = wire.LargerReport(split, m)
		case "output_tokens":
			c.output = max(c.output, wire.Count(m))
		case "output_tokens_details":
			c.thinking = max(c.thinking, wire.Billed(m, "thinking_tokens"))
		case "iterations":
			c.iterations = m
		case chat.ServiceTier:
			tier = m
		case serverToolUse:
			tools = wire.LargerReport(tools, m)
		}
	}
	c.written1h = wire.Billed(split, "ephemeral_1h_input_tokens")
	c.written5m = wire.Billed(split, "ephemeral_5m_input_tokens")
	return c, tier, tools
}

// add adds the model calls of one answer. The totals beside their list omit those that summarised the conversation, which are billed as well.
func (c *counted) add(iterations jsonx.Value) {
	var all counted
	for _, v := range iterations.Each {
		one, _, _ := counts(v)
		all.input = policy.AddTokens(all.input, one.input)
		all.cached = policy.AddTokens(all.cached, one.cached)
		all.written = policy.AddTokens(all.written, one.written)
		all.written5m = policy.AddTokens(all.written5m, one.written5m)
		all.written1h = policy.AddTokens(all.written1h, one.written1h)
		all.output = policy.AddTokens(all.output, one.output)
		all.thinking = policy.AddTokens(all.thinking, one.thinking)
	}
	c.input, c.cached, c.written = max(c.input, all.input), max(c.cached, all.cached), max(c.written, all.written)
	c.written5m, c.written1h = max(c.written5m, all.written5m), max(c.written1h, all.written1h)
	c.output, c.thinking = max(c.output, all.output), max(c.thinking, all.thinking)
}
