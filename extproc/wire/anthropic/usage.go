package anthropic

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// bytesPerThinkingToken is about how much thinking text makes a token. The API does not count thinking apart.
const bytesPerThinkingToken = 4

// report reads a usage object and adds all that is known so far. Numbers come at the start, at the end, or both; some
// servers repeat zeros, which erase nothing. final says that the output is complete.
func (a *answer) report(v jsonx.Value, final bool) {
	if v.Kind() != jsonx.Object {
		return
	}
	c, tier, tools := counts(v)
	c.add(c.iterations)
	u := chat.Usage{Input: c.input, Cached: c.cached, Output: c.output, Reasoning: c.thinking, Final: final && c.output > 0}
	u.Searches = wire.Billed(tools, "web_search_requests")
	u.CacheWrite1h = c.hour
	if u.CacheWrite1h == 0 {
		u.CacheWrite1h = a.usage.CacheWrite1h // a later report may give the sum alone
	}
	u.CacheWrite = max(c.written-u.CacheWrite1h, c.minutes)
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
		if !a.served && wire.Count(n) > 0 {
			a.served = true
			a.add(chat.Event{Kind: chat.Extra, ID: serverToolUse})
		}
	}
}

// counted are the numbers of a usage object.
type counted struct {
	input, cached, written, output, thinking int64
	minutes, hour                            int64 // of what was written, by lifetime
	iterations                               jsonx.Value
}

// counts reads a usage object, without what its iterations say.
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
	c.hour = wire.Billed(split, "ephemeral_1h_input_tokens")
	c.minutes = wire.Billed(split, "ephemeral_5m_input_tokens")
	return c, tier, tools
}

// add counts the calls of the model that one answer took. The numbers beside their list leave out those that made a summary of the
// conversation, which are billed like the others.
func (c *counted) add(iterations jsonx.Value) {
	var all counted
	for _, v := range iterations.Each {
		one, _, _ := counts(v)
		all.input = policy.AddTokens(all.input, one.input)
		all.cached = policy.AddTokens(all.cached, one.cached)
		all.written = policy.AddTokens(all.written, one.written)
		all.minutes = policy.AddTokens(all.minutes, one.minutes)
		all.hour = policy.AddTokens(all.hour, one.hour)
		all.output = policy.AddTokens(all.output, one.output)
		all.thinking = policy.AddTokens(all.thinking, one.thinking)
	}
	c.input, c.cached, c.written = max(c.input, all.input), max(c.cached, all.cached), max(c.written, all.written)
	c.minutes, c.hour = max(c.minutes, all.minutes), max(c.hour, all.hour)
	c.output, c.thinking = max(c.output, all.output), max(c.thinking, all.thinking)
}
