// Package openrouter calls OpenRouter, which forwards requests to hosts of its choice: OpenAI's format with preferences for the host. It does
// not know the hosts' prices.
package openrouter

import (
	"cmp"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/extproc/wire/formats"
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

// Dialect is Chat Completions, except embeddings and the legacy completions for their clients. OpenRouter serves the latter for all models.
func (Adapter) Dialect(to policy.Resolution, _ provider.Endpoint, d chat.Dialect) chat.Dialect {
	if d == chat.Embeddings && embeddings.Serves(&to) || d == chat.Completions && !to.Without.Completions {
		return d
	}
	return chat.OpenAI
}

// attribution is the headers that identify the application in OpenRouter's statistics.
var attribution = header.List{{Name: "http-referer", Value: "https://bardo.money"}, {Name: "x-title", Value: "Bardo"}}

// Encode writes a call with OpenRouter's members. OpenRouter accepts the effort, the budget and the signed thinking of every family, and
// drops what a host does not support.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	call, ok, err := formats.NewCall(a.Dialect(to, at, req.Dialect), buf, req, &to, at)
	if !ok {
		call, err = chatCompletion(buf, req, to, at)
	}
	if err != nil {
		return nil, err
	}
	call.Header = slices.Concat(call.Header, attribution)
	return call, nil
}

func chatCompletion(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
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
	return wire.NewCall(buf, req, at, o)
}

// model returns the name of the model with the suffix that selects its host: :floor for the cheapest, :nitro for the fastest. A name with a
// suffix, and preferences of the client or the operator, are kept.
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
