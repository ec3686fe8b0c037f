// Package qwen calls Alibaba's Model Studio: OpenAI's format, with a switch and a budget for thinking, and its own web search.
package qwen

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "qwen". The zero value is ready.
type Adapter struct{}

var _ provider.Adapter = Adapter{}

// Name is "qwen".
func (Adapter) Name() string { return "qwen" }

// Dialect is OpenAI's.
func (Adapter) Dialect(policy.Resolution, provider.Endpoint, chat.Dialect) chat.Dialect {
	return chat.OpenAI
}

// Encode writes a Chat Completions call. For a model that thinks in streamed answers only, thinking is disabled in others.
func (Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	o := wire.RequestOptions{
		Model: cmp.Or(to.Upstream, string(to.Model)), TokensField: wire.MaxTokens, FixedSampling: to.FixedSampling,
		TopK: true, WebSearch: true, Extras: wire.StrictExtras, KeepMarks: true, Video: slices.Contains(to.Features, policy.Video),
	}
	o.Control(to.Control, wire.EnableThinking)
	if to.Control == policy.ControlStreamed && !req.Stream {
		o.NoEffort = true
		o.Members = append(o.Members, wire.Member{Key: "enable_thinking", Value: jsonx.Raw("false")})
	}
	if p := req.Profile; p != nil && p.Default.WebSearch != nil && *p.Default.WebSearch {
		o.Members = append(o.Members, wire.Member{Key: "enable_search", Value: jsonx.Raw("true")})
	}
	return wire.NewCall(buf, req, at, o)
}

// NewDecoder reads the answer of such a call.
func (Adapter) NewDecoder(req *chat.Request, _ policy.Resolution, _ provider.Endpoint, status int, h header.List) provider.Decoder {
	return chatcompletion.NewDecoder(req, status, h)
}

// Ping lists the provider's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call { return wire.Ping(at) }
