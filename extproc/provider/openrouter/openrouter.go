// Package openrouter calls OpenRouter, which passes requests on to hosts of its choice: OpenAI's format with preferences about the
// host. It knows nothing of what a host costs.
package openrouter

import (
	"cmp"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/embeddings"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "openrouter". The zero value is ready.
type Adapter struct{}

var _ provider.Adapter = Adapter{}

// Name is "openrouter".
func (Adapter) Name() string { return "openrouter" }

// Dialect is OpenAI's Chat Completions, its embeddings, and its completions of a prompt, which it has for all models.
func (Adapter) Dialect(to policy.Resolution, _ provider.Endpoint, d chat.Dialect) chat.Dialect {
	if d == chat.Embeddings && embeddings.At(&to) || d == chat.Completions && !to.Without.Completions {
		return d
	}
	return chat.OpenAI
}

// who asks, for the provider's own statistics.
var attribution = header.List{{Name: "http-referer", Value: "https://bardo.money"}, {Name: "x-title", Value: "Bardo"}}

// Encode writes a Chat Completions call with OpenRouter's members. It takes the effort, the budget and the signed thinking of every
// family, and leaves out what a host does not know.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are Chat Completions
	case chat.Embeddings:
		return attributed(embeddings.NewCall(buf, req, &to, at)), nil
	case chat.Completions:
		return attributed(completions.NewCall(buf, req, &to, at)), nil
	}
	o := wire.RequestOptions{
		Efforts: wire.WithNone(to.Efforts), FixedSampling: to.FixedSampling,
		TopK: true, MinP: true, CacheControl: true, MinCache: to.MinCache, ReasoningDetails: true, Video: slices.Contains(to.Features, policy.Video),
		Members: []wire.Member{{Key: "usage", Value: jsonx.Raw(`{"include":true}`)}},
	}
	o.Broker(to.Control, wire.ReasoningObject)
	if p := req.Profile; p != nil && p.Default.Visible != nil && !*p.Default.Visible {
		o.ReasoningExtra = `"exclude":true`
	}
	hosts := preferences(req, at)
	if hosts != nil {
		o.Members = append(o.Members, wire.Member{Key: preferencesKey, Value: hosts})
	}
	o.Model = model(req, to, hosts)
	if list := alternatives(req, at); list != nil {
		o.Members = append(o.Members, wire.Member{Key: modelsKey, Value: list})
	}
	call, err := wire.NewCall(buf, req, at, o)
	if err != nil {
		return nil, err
	}
	return attributed(call), nil
}

// attributed is a call that says who asks.
func attributed(call *provider.Call) *provider.Call {
	call.Header = slices.Concat(call.Header, attribution)
	return call
}

// model is the name of the model, with the suffix that says what to choose its host by: :floor for the cheapest, :nitro for the
// fastest. A name that has a suffix, and a client or an operator that has a choice of their own, keep it.
func model(req *chat.Request, to policy.Resolution, hosts jsonx.Raw) string {
	name := cmp.Or(to.Upstream, string(to.Model))
	h := jsonx.Value{Raw: hosts}
	if strings.Contains(name, ":") || h.Get("sort").Exists() || h.Get("order").Exists() || h.Get("only").Exists() {
		return name
	}
	return name + suffix(req.Profile)
}

// Ping lists the provider's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call { return wire.Ping(at) }
