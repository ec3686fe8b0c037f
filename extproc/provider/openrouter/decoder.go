package openrouter

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/formats"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// NewDecoder reads the answer to a call, and its cost.
func (a Adapter) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	return decoder{formats.NewDecoder(a.Dialect(to, at, req.Dialect), req, status, h)}
}

// decoder reads the cost from the usage, because OpenRouter chooses the host, and with it the price.
type decoder struct{ provider.Decoder }

// Decode reads the next piece of the body.
func (d decoder) Decode(chunk []byte, end bool) []chat.Event {
	events := d.Decoder.Decode(chunk, end)
	for i := range events {
		ev := &events[i]
		if ev.Kind != chat.UsageInfo {
			continue
		}
		for key, m := range (jsonx.Value{Raw: ev.Text}).Members {
			if cost, ok := policy.ParseCost(string(m.Raw)); ok && string(key) == "cost" {
				ev.Usage.Cost = max(ev.Usage.Cost, cost) // of duplicates, the larger one
			}
		}
	}
	return events
}
