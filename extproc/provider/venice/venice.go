// Package venice calls Venice, which stores no requests: OpenAI's format with additional parameters. It requests receipts of enclaves and
// does not verify them; it knows nothing of sealed prompts.
package venice

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
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "venice". The zero value is ready.
type Adapter struct{}

var _ provider.Adapter = Adapter{}

// Name is "venice".
func (Adapter) Name() string { return "venice" }

// Dialect is Chat Completions, and embeddings for clients of that format.
func (Adapter) Dialect(to policy.Resolution, _ provider.Endpoint, d chat.Dialect) chat.Dialect {
	if d == chat.Embeddings && embeddings.Serves(&to) {
		return d
	}
	return chat.OpenAI
}

// RequiresStrictSchemas implements provider.StrictSchemas: Venice refuses schemas that are not strict.
func (Adapter) RequiresStrictSchemas() {}

const (
	maxStop      = 4
	familyClaude = "claude" // cache_control is Anthropic's own; other families are cached by prefix
	teeSuffix    = "-tee"
)

// efforts are accepted by all models here; the catalog lists the additional ones of a model.
var efforts = []string{"none", "low", "medium", "high"}

// Encode writes a Chat Completions call with Venice's parameters.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	if a.Dialect(to, at, req.Dialect) == chat.Embeddings {
		return embeddings.NewCall(buf, req, &to, at), nil
	}
	o := wire.RequestOptions{
		FixedSampling: to.FixedSampling, MaxStop: maxStop, Efforts: wire.WithNone(to.Efforts),
		TopK: true, MinP: true, CacheKey: true, CacheControl: to.Family == familyClaude, MinCache: to.MinCache,
		Video:     slices.Contains(to.Features, policy.Video),
		WebSearch: true, StrictSchema: true, Extras: wire.OpenAIExtras, KeepMarks: true,
		Members: []wire.Member{{Key: parametersKey, Value: parameters(req, at)}},
	}
	if o.Efforts == nil {
		o.Efforts = efforts
	}
	o.EffortOnly = true
	o.Broker(to.Control, wire.ReasoningObject)
	o.Model, o.TEE = model(req, to)
	call, err := wire.NewCall(buf, req, at, o)
	if err == nil {
		call.Model = o.Model
	}
	return call, err
}

// model returns the name of the model; ok is false if the request requires an enclave and the model does not run in one.
func model(req *chat.Request, to policy.Resolution) (name string, ok bool) {
	name = cmp.Or(to.Upstream, string(to.Model))
	switch {
	case strings.HasSuffix(name, teeSuffix):
		return name, true
	case req.Profile == nil || !req.Profile.Default.TEE || !slices.Contains(to.Features, policy.TEEAttested):
		return name, false
	}
	return name + teeSuffix, true
}

// NewDecoder reads the answer of such a call.
func (a Adapter) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	return formats.NewDecoder(a.Dialect(to, at, req.Dialect), req, status, h)
}

// Relay implements provider.Relay.
func (Adapter) Relay(e kind.Endpoint, _ string, at provider.Endpoint) *provider.Call {
	return wire.Relay(e, at)
}

// Ping lists the provider's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call { return wire.Ping(at) }
