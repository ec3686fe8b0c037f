package openrouter

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/jsonx"
)

const preferencesKey = "provider"

// Thresholds of a profile.
const (
	maxLatencyForNitro = 5 * time.Second // up to this maximum latency, the fastest host is selected
	minCostForFloor    = 0.7             // from this cost sensitivity, the cheapest host is selected
)

// suffix returns the suffix of the model's name; "" if neither cost nor latency matters.
func suffix(p *chat.Profile) string {
	switch {
	case p == nil:
		return ""
	case p.CostSensitivity >= minCostForFloor:
		return ":floor"
	case p.MaxLatency > 0 && p.MaxLatency <= maxLatencyForNitro:
		return ":nitro"
	}
	return ""
}

// preferences merges OpenRouter's preferences for hosts: the client's override the operator's, and confidential prompts always exclude
// hosts that store them; nil for none.
func preferences(req *chat.Request, at provider.Endpoint) jsonx.Raw {
	operator := jsonx.Value{Raw: at.Preferences}
	var own jsonx.Value
	if req.Dialect == chat.OpenAI {
		own = req.Doc.Get(preferencesKey)
	}
	confidential := req.Profile != nil && req.Profile.Confidential
	decided := func(key []byte) bool { return confidential && retains(key) }
	b := []byte{'{'}
	put := func(key []byte, raw jsonx.Raw) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(jsonx.AppendString(b, key), ':'), raw...)
	}
	for key, v := range operator.Members {
		if !own.Get(string(key)).Exists() && !decided(key) {
			put(key, v.Raw)
		}
	}
	for key, v := range own.Members {
		if !decided(key) {
			put(key, v.Raw)
		}
	}
	if confidential {
		put([]byte("data_collection"), jsonx.Raw(`"deny"`))
		put([]byte("zdr"), jsonx.Raw("true"))
	}
	if len(b) == 1 {
		return nil
	}
	return append(b, '}')
}

// retains reports whether a preference sets what a host may store.
func retains(key []byte) bool { return string(key) == "data_collection" || string(key) == "zdr" }

const modelsKey = "models"

// alternatives returns the models with which OpenRouter may answer instead, unless the client names some. It charges for the model that
// answered.
func alternatives(req *chat.Request, at provider.Endpoint) jsonx.Raw {
	if len(at.Fallbacks) == 0 || req.Dialect == chat.OpenAI && req.Doc.Find(modelsKey) >= 0 {
		return nil
	}
	b := []byte{'['}
	for i, id := range at.Fallbacks {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(b, id)
	}
	return append(b, ']')
}
