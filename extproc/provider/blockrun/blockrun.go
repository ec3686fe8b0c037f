// Package blockrun calls BlockRun, which serves models of many vendors: Claude in Anthropic's format, all others in OpenAI's, with the
// thinking parameters of each family. It knows nothing of payment except an account's key.
package blockrun

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/dual"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "blockrun". The zero value is ready.
type Adapter struct{ dual.Formats }

var (
	_ provider.Adapter  = Adapter{}
	_ provider.Amender  = Adapter{}
	_ provider.Charging = Adapter{}
)

// Name is "blockrun".
func (Adapter) Name() string { return "blockrun" }

// Families of models with special rules.
const (
	gpt    = "gpt"
	o      = "o"
	gemini = "gemini"
	qwen   = "qwen"
)

// Encode writes a call in the format of the model's family.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	req, degraded, err := withDefaultEffort(req, to)
	if err != nil {
		return nil, err
	}
	if a.Dialect(to, at, req.Dialect) != chat.Anthropic {
		call, err := openai.NewCall(buf, req, at, options(req, to))
		if err == nil && degraded != "" {
			call.Degraded = append(call.Degraded, degraded)
		}
		return call, err
	}
	call, err := anthropic.NewCall(buf, req, to, at, anthropic.StripUnsigned)
	if err != nil {
		return nil, err
	}
	for i := range call.Header { // the key is sent as a bearer token in both formats
		if call.Header[i].Name == "x-api-key" {
			call.Header[i] = header.Field{Name: "authorization", Value: "Bearer " + at.Key.Reveal()}
		}
	}
	return call, nil
}

// options returns the requirements of a model by its family.
func options(req *chat.Request, to policy.Resolution) openai.RequestOptions {
	opts := openai.RequestOptions{
		Model: cmp.Or(to.Upstream, string(to.Model)), FixedSampling: to.FixedSampling, Efforts: to.Efforts,
		Video:   slices.Contains(to.Features, policy.Video),
		Extras:  openai.OpenAIExtras,
		Unknown: to.Undescribed && to.Control == policy.ControlUsual,
	}
	style := openai.PromptedReasoning
	switch to.Family {
	case gpt, o:
		opts.ForOpenAIModels(req, to)
		style, opts.EffortOnly = openai.ReasoningObject, true
		if visible(req) {
			opts.ReasoningExtra = `"summary":"auto"`
		}
	case gemini:
		opts.TopK = true
		style = openai.ThinkingLevel
	case qwen:
		opts.TopK = true
		style = openai.SlashThinking
	}
	opts.Broker(to.Control, style)
	return opts
}
