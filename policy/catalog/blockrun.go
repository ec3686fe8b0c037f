package catalog

import (
	"cmp"
	"encoding/json"
	"slices"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// blockRunEntry is an entry of BlockRun's /v1/models. Prices are USD per million tokens, or per request. Three generations of the format are read:
// prices below "pricing", "inputPrice" beside the id, and "input_per_million" with the names of features.
type blockRunEntry struct {
	ID         string
	Family     string
	Available  *bool
	Categories stringList
	Billing    string     `json:"billing_mode"`
	Context    tokenCount `json:"context_window"`
	MaxContext tokenCount `json:"max_context_tokens"`
	MaxOutput  tokenCount `json:"max_output"`
	Latency    tokenCount `json:"latency_p50_ms"`
	Pricing    blockRunPrice

	InputPrice    amount `json:"inputPrice"`
	OutputPrice   amount `json:"outputPrice"`
	InputMillion  amount `json:"input_per_million"`
	OutputMillion amount `json:"output_per_million"`
	Capabilities  stringList
}

type blockRunPrice struct {
	Input, Output, Flat amount
	CacheRead           amount `json:"cache_read"`
	CacheWrite          amount `json:"cache_write"`
}

// UnmarshalJSON accepts any value; one that is no table of prices counts as absent.
func (p *blockRunPrice) UnmarshalJSON(b []byte) error {
	type plain blockRunPrice
	var parsed plain
	if json.Unmarshal(b, &parsed) == nil {
		*p = blockRunPrice(parsed)
	}
	return nil
}

func blockRunModel(raw json.RawMessage) (modelfile.Model, bool) {
	var e blockRunEntry
	if json.Unmarshal(raw, &e) != nil || e.Available != nil && !*e.Available || e.Categories != nil && !e.Categories.has("chat", "reasoning", "coding") {
		return modelfile.Model{}, false
	}
	return modelfile.Model{
		ID: e.ID, Family: e.Family, Context: first(e.Context, e.MaxContext), MaxOutput: first(e.MaxOutput), LatencyP50MS: min(int(e.Latency), maxLatency),
		Price: e.price(), Capabilities: e.features(),
	}, true
}

// maxLatency limits a stated latency, as the configuration does: an hour, in milliseconds.
const maxLatency = 3_600_000

func (e *blockRunEntry) price() *modelfile.Price {
	million := func(amounts ...amount) *policy.Price { return price(string(cmp.Or(amounts...)), perMillion) }
	p := modelfile.Price{
		Input: million(e.Pricing.Input, e.InputPrice, e.InputMillion), Output: million(e.Pricing.Output, e.OutputPrice, e.OutputMillion),
		CachedInput: million(e.Pricing.CacheRead), CacheWrite: million(e.Pricing.CacheWrite),
	}
	flat := dollars(string(e.Pricing.Flat))
	if e.Billing == "free" || flat != nil && p.Input == nil && p.Output == nil {
		var nothing policy.Price
		p.Input, p.Output, p.PerRequest = &nothing, &nothing, flat
	}
	return tokens(p)
}

// features returns the features that the entry names; nil if its format cannot name any.
func (e *blockRunEntry) features() []policy.Feature {
	if e.Categories == nil && e.Capabilities == nil {
		return nil
	}
	claims := []claim{{policy.Vision, e.Categories.has("vision")}}
	for _, name := range slices.Concat(e.Categories, e.Capabilities) {
		f, ok := policy.ParseFeature(name)
		claims = append(claims, claim{f, ok})
	}
	return features(claims...)
}
