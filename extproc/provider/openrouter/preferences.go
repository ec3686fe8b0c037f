package openrouter

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/jsonx"
)

const preferencesKey = "provider"

// Who waits at most so long for a first word gets the fastest host; for whom the cost counts so much, the cheapest.
const (
	hurried = 5 * time.Second
	thrifty = 0.7
)

// suffix is what a model's name ends with, "" where neither cost nor time matters.
func suffix(p *chat.Profile) string {
	switch {
	case p == nil:
		return ""
	case p.CostSensitivity >= thrifty:
		return ":floor"
	case p.MaxLatency > 0 && p.MaxLatency <= hurried:
		return ":nitro"
	}
	return ""
}

// preferences is how OpenRouter shall choose among the hosts of a model: what a client of this format says itself over what the
// operator says, and confidential prompts to nobody who keeps them, whatever both say. It is nil if nobody says anything.
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

// retains tells whether a preference is about what a host may keep.
func retains(key []byte) bool { return string(key) == "data_collection" || string(key) == "zdr" }

const modelsKey = "models"

// alternatives are the models that OpenRouter may answer with itself, unless the client names some. It bills what it answered with.
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
