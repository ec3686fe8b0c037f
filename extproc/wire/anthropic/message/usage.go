package message

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// bytesPerThinkingToken is the approximate size of a thinking token. The API does not count thinking separately.
const bytesPerThinkingToken = 4

// report reads a usage object and emits all numbers so far. Reports come at the start, at the end, or both; some servers repeat zeros,
// which are ignored. final is whether the output is complete.
func (a *answer) report(v jsonx.Value, final bool) {
	if v.Kind() != jsonx.Object {
		return
	}
	c := counts(v)
	c.add(c.iterations)
	u := chat.Usage{Input: c.input, Cached: c.cached, Output: c.output, Reasoning: c.thinking, Searches: c.tools.searches, Final: final && c.output > 0}
	u.CacheWrite1h = c.split.written1h
	if u.CacheWrite1h == 0 {
		u.CacheWrite1h = a.usage.CacheWrite1h // a later report may have the total only
	}
	u.CacheWrite = max(c.written-u.CacheWrite1h, c.split.written5m)
	if u.Reasoning == 0 && u.Final {
		u.Reasoning = min(int64(a.thought+bytesPerThinkingToken-1)/bytesPerThinkingToken, u.Output)
		u.ReasoningEstimated = u.Reasoning > 0
	}
	a.usage.Merge(u)
	a.add(chat.Event{Kind: chat.UsageInfo, Usage: a.usage, Text: v.Raw})
	if !a.tier && c.tier.Kind() == jsonx.String {
		a.tier = true
		a.add(chat.Event{Kind: chat.Extra, ID: chat.ServiceTier, Text: c.tier.Raw})
	}
	if !a.toolsEmitted && c.tools.used {
		a.toolsEmitted = true
		a.add(chat.Event{Kind: chat.Extra, ID: serverToolUse})
	}
}

// counted is the content of a usage object, read in one pass. Of duplicate members the one with the higher cost counts.
type counted struct {
	input, cached, written, output, thinking int64
	split                                    lifetimes // of the cache writes
	tools                                    toolUse
	iterations, tier                         jsonx.Value
}

// lifetimes are the tokens that were written to the cache for five minutes and for one hour.
type lifetimes struct {
	size                 wire.Size
	written5m, written1h int64
}

// toolUse counts the uses of the provider's own tools.
type toolUse struct {
	size     wire.Size
	searches int64
	used     bool // at least one of them
}

// counts reads a usage object, without its iterations.
func counts(v jsonx.Value) (c counted) {
	for key, m := range v.Members {
		switch string(key) {
		case "input_tokens":
			c.input = max(c.input, wire.Count(m))
		case "cache_read_input_tokens":
			c.cached = max(c.cached, wire.Count(m))
		case "cache_creation_input_tokens":
			c.written = max(c.written, wire.Count(m))
		case "cache_creation":
			if s := readLifetimes(m); s.size.Exceeds(&c.split.size) {
				c.split = s
			}
		case "output_tokens":
			c.output = max(c.output, wire.Count(m))
		case "output_tokens_details":
			c.thinking = max(c.thinking, wire.Billed(m, "thinking_tokens"))
		case "iterations":
			c.iterations = m
		case chat.ServiceTier:
			c.tier = m
		case serverToolUse:
			if t := readToolUse(m); t.size.Exceeds(&c.tools.size) {
				c.tools = t
			}
		}
	}
	return c
}

func readLifetimes(v jsonx.Value) lifetimes {
	s := lifetimes{size: wire.NewSize(v)}
	for key, m := range v.Members {
		n := wire.Count(m)
		s.size.Add(n)
		switch string(key) {
		case "ephemeral_5m_input_tokens":
			s.written5m = max(s.written5m, n)
		case "ephemeral_1h_input_tokens":
			s.written1h = max(s.written1h, n)
		}
	}
	return s
}

func readToolUse(v jsonx.Value) toolUse {
	t := toolUse{size: wire.NewSize(v)}
	for key, m := range v.Members {
		n := wire.Count(m)
		t.size.Add(n)
		t.used = t.used || n > 0
		if string(key) == "web_search_requests" {
			t.searches = max(t.searches, n)
		}
	}
	return t
}

// add adds the model calls of one answer. The totals next to their list omit those that summarised the conversation, which are billed as
// well.
func (c *counted) add(iterations jsonx.Value) {
	var all counted
	for _, v := range iterations.Each {
		one := counts(v)
		all.input = policy.AddTokens(all.input, one.input)
		all.cached = policy.AddTokens(all.cached, one.cached)
		all.written = policy.AddTokens(all.written, one.written)
		all.split.written5m = policy.AddTokens(all.split.written5m, one.split.written5m)
		all.split.written1h = policy.AddTokens(all.split.written1h, one.split.written1h)
		all.output = policy.AddTokens(all.output, one.output)
		all.thinking = policy.AddTokens(all.thinking, one.thinking)
	}
	c.input, c.cached, c.written = max(c.input, all.input), max(c.cached, all.cached), max(c.written, all.written)
	c.split.written5m, c.split.written1h = max(c.split.written5m, all.split.written5m), max(c.split.written1h, all.split.written1h)
	c.output, c.thinking = max(c.output, all.output), max(c.thinking, all.thinking)
}
