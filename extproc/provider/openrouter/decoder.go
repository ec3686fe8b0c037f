package openrouter

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/embeddings"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// NewDecoder reads the answer of such a call, and what it costs.
func (a Adapter) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are Chat Completions
	case chat.Embeddings:
		return decoder{embeddings.NewDecoder(req, status, h)}
	case chat.Completions:
		return decoder{completions.NewDecoder(req, status, h)}
	}
	return decoder{wire.NewDecoder(req, status, h)}
}

// decoder reads besides the usage what it costs: the host was OpenRouter's choice, and so is the price.
type decoder struct{ provider.Decoder }

func (d decoder) Decode(chunk []byte, end bool) []chat.Event {
	events := d.Decoder.Decode(chunk, end)
	for i := range events {
		ev := &events[i]
		if ev.Kind != chat.UsageInfo {
			continue
		}
		for key, m := range (jsonx.Value{Raw: ev.Text}).Members {
			if cost, ok := policy.ParseCost(string(m.Raw)); ok && string(key) == "cost" {
				ev.Usage.Cost = max(ev.Usage.Cost, cost) // should it be there twice
			}
		}
	}
	return events
}
