package anthropic

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// bytesPerThinkingToken is about how much thinking text makes a token. The API does not count thinking apart.
const bytesPerThinkingToken = 4

// report reads a usage object and adds all that is known so far. Numbers come at the start, at the end, or both; some
// servers repeat zeros, which erase nothing. final says that the output is complete.
func (a *answer) report(v jsonx.Value, final bool) {
	if v.Kind() != jsonx.Object {
		return
	}
	var u chat.Usage
	var written int64
	var split, tier, tools jsonx.Value
	for key, m := range v.Members {
		switch string(key) {
		case "input_tokens":
			u.Input = max(u.Input, wire.Count(m))
		case "cache_read_input_tokens":
			u.Cached = max(u.Cached, wire.Count(m))
		case "cache_creation_input_tokens":
			written = max(written, wire.Count(m))
		case "cache_creation":
			split = wire.LargerReport(split, m)
		case "output_tokens":
			u.Output = max(u.Output, wire.Count(m))
			u.Final = final && u.Output > 0
		case "output_tokens_details":
			u.Reasoning = max(u.Reasoning, wire.Billed(m, "thinking_tokens"))
		case chat.ServiceTier:
			tier = m
		case serverToolUse:
			tools = wire.LargerReport(tools, m)
		}
	}
	u.Searches = wire.Billed(tools, "web_search_requests")
	u.CacheWrite1h = wire.Billed(split, "ephemeral_1h_input_tokens")
	if u.CacheWrite1h == 0 {
		u.CacheWrite1h = a.usage.CacheWrite1h // a later report may give the sum alone
	}
	u.CacheWrite = max(written-u.CacheWrite1h, wire.Billed(split, "ephemeral_5m_input_tokens"))
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
