// Package deepseek calls DeepSeek's own API: OpenAI's format with a switch for thinking. Turns with tool calls require their reasoning in
// later requests.
package deepseek

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "deepseek". The zero value is ready.
type Adapter struct{}

var (
	_ provider.Adapter = Adapter{}
	_ provider.Amender = Adapter{}
)

// Name is "deepseek".
func (Adapter) Name() string { return "deepseek" }

// Dialect is OpenAI's.
func (Adapter) Dialect(policy.Resolution, provider.Endpoint, chat.Dialect) chat.Dialect {
	return chat.OpenAI
}

// efforts are those of the models that accept efforts. DeepSeek treats lower ones as high.
var efforts = []string{"high", "max"}

const maxStop = 16

// Encode writes a Chat Completions call.
func (Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	o := wire.RequestOptions{
		Model: cmp.Or(to.Upstream, string(to.Model)), TokensField: wire.MaxTokens, MaxStop: maxStop,
		FixedSampling: to.FixedSampling, ReasoningContent: wire.ReasoningContentForTools, NoDetails: true, NoSchema: true, Extras: wire.StrictExtras,
		Video: slices.Contains(to.Features, policy.Video),
	}
	o.Broker(to.Control, wire.ThinkingToggle) // the switch exists for all models
	if o.Efforts = to.Efforts; o.Efforts == nil && to.Control == policy.ControlEffort {
		o.Efforts = efforts
	}
	if to.Without.Thinking {
		o.ReasoningContent, o.NoEffort = wire.NoReasoningContent, true
		o.Members = []wire.Member{{Key: "thinking", Value: jsonx.Raw(`{"type":"disabled"}`)}}
	}
	return wire.NewCall(buf, req, at, o)
}

// Amend disables thinking for another attempt if the history lacks reasoning that the API requires, because another provider answered a
// turn, or has reasoning that the API refuses.
func (Adapter) Amend(_ *chat.Request, to policy.Resolution, _ provider.Endpoint, refusal *chat.ProviderError) (policy.Resolution, bool) {
	if refusal.Status != http.StatusBadRequest || to.Without.Thinking || !strings.Contains(refusal.Message, "reasoning_content") {
		return to, false
	}
	to.Without.Thinking = true
	return to, true
}

// NewDecoder reads the answer of such a call.
func (Adapter) NewDecoder(req *chat.Request, _ policy.Resolution, _ provider.Endpoint, status int, h header.List) provider.Decoder {
	return chatcompletion.NewDecoder(req, status, h)
}

// Ping lists the provider's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call { return wire.Ping(at) }
