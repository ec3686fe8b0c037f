// Package compatible calls providers whose API is OpenAI's Chat Completions with a few differences. One file per provider describes what it
// supports, refuses and renames. A provider with larger differences has its own package.
package compatible

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/extproc/wire/formats"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Adapter calls one of these providers. The variables below are ready; the zero value is not usable.
type Adapter struct {
	kind kind.Kind

	options   func(o *openai.RequestOptions, req *chat.Request, to *policy.Resolution) // sets what it supports; nil: OpenAI's defaults
	refuses   []string                                                                 // request members that it refuses
	reasoners []string                                                                 // request members that it refuses for models that reason
	renames   []rename                                                                 // request members with another name
	address   func(call *provider.Call, at provider.Endpoint, model string)            // sets path and credential of a call; nil: OpenAI's
	embeds    bool                                                                     // it serves embeddings
	thinking  openai.ReasoningStyle                                                    // how thinking is controlled for models that the catalog does not describe
}

// rename is a member that has another name at a provider.
type rename struct{ from, to string }

var (
	_ provider.Described = Adapter{}
	_ provider.Amender   = Adapter{}
	_ provider.Charging  = Adapter{}
)

// hosted are the traits of hosts, which serve other vendors' models without the vendors' own features.
func hosted() kind.Traits { return kind.Traits{Lacks: policy.VendorFeatures()} }

// Name is the kind's.
func (a Adapter) Name() string { return a.kind.Name }

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	k := a.kind
	k.Section, k.Format, k.AnyModel, k.Traits = kind.HostSection, string(chat.OpenAI), true, hosted()
	return k
}

// Charges are those of the format.
func (Adapter) Charges(_ *policy.Resolution, _ provider.Endpoint, d chat.Dialect) provider.Charges {
	if d == chat.Responses {
		return responses.Charges
	}
	return openai.Charges
}

// Dialect is Chat Completions; Responses at an endpoint with that API; embeddings for clients of that format.
func (a Adapter) Dialect(to policy.Resolution, at provider.Endpoint, d chat.Dialect) chat.Dialect {
	switch {
	case d == chat.Embeddings && a.embeds && embeddings.Serves(&to):
		return d
	case at.Responses:
		return chat.Responses
	}
	return chat.OpenAI
}

// Encode writes a call in the format that Dialect returns.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	call, err := a.write(buf, req, to, at)
	if err != nil {
		return nil, err
	}
	if a.address != nil {
		a.address(call, at, model(&to))
	}
	return call, nil
}

func (a Adapter) write(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	if call, ok, err := formats.NewCall(a.Dialect(to, at, req.Dialect), buf, req, &to, at); ok {
		return call, err
	}
	o := openai.ForHost(&to, a.thinking)
	if a.options != nil {
		a.options(&o, req, &to)
	}
	call, err := openai.NewCall(buf, req, at, o)
	if err != nil {
		return nil, err
	}
	return a.fit(call, &to)
}

// model is the provider's name of a model.
func model(to *policy.Resolution) string { return cmp.Or(to.Upstream, string(to.Model)) }

const streamOptions = "stream_options"

// fit removes the members that the provider refuses, names them as degraded, and renames others. All other bytes stay.
func (a Adapter) fit(call *provider.Call, to *policy.Resolution) (*provider.Call, error) {
	refuses := a.refuses
	if to.Control == policy.ControlEffort || to.Control == policy.ControlAlways {
		refuses = slices.Concat(refuses, a.reasoners)
	}
	if len(refuses)+len(a.renames) == 0 {
		return call, nil
	}
	doc, err := jsonx.Scan(call.Body)
	if err != nil {
		return nil, fault.New(fault.Internal, "the request could not be written for this provider", err)
	}
	var e jsonx.Edits
	for _, r := range a.renames {
		if v := doc.Get(r.from); !v.IsNull() {
			e.Delete(&doc, r.from)
			e.Set(&doc, r.to, v.Raw)
		}
	}
	for _, name := range refuses {
		if v := doc.Get(name); !v.IsNull() {
			e.Delete(&doc, name)
			if name != streamOptions { // who refuses it reports the usage in any case
				call.Degraded = wire.AppendDegraded(call.Degraded, name)
			}
		}
	}
	if !e.Empty() {
		call.Body = e.AppendTo(make([]byte, 0, e.Len(&doc)), &doc)
	}
	return call, nil
}

// Amend returns the resolution for another attempt without the thinking that the provider refused.
func (a Adapter) Amend(req *chat.Request, to policy.Resolution, at provider.Endpoint, refusal *chat.ProviderError) (policy.Resolution, bool) {
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are Chat Completions
	case chat.Embeddings:
		return to, false
	case chat.Responses:
		if req.Dialect == chat.Responses {
			return to, false
		}
		return responses.Amend(to, refusal)
	}
	return openai.Amend(to, refusal)
}

// NewDecoder reads the answer of such a call.
func (a Adapter) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	return formats.NewDecoder(a.Dialect(to, at, req.Dialect), req, status, h)
}

// Relay implements provider.Relay.
func (a Adapter) Relay(e kind.Endpoint, model string, at provider.Endpoint) *provider.Call {
	call := openai.Relay(e, at)
	if a.address != nil {
		a.address(call, at, model)
	}
	return call
}

// Ping lists the provider's models.
func (a Adapter) Ping(at provider.Endpoint) *provider.Call {
	call := openai.Ping(at)
	if a.address != nil {
		a.address(call, at, "")
	}
	return call
}

// maxTokens sends the limit of the answer as max_tokens.
func maxTokens(o *openai.RequestOptions, _ *chat.Request, _ *policy.Resolution) {
	o.TokensField = openai.MaxTokens
}

// openModels sends max_tokens, and top_k and min_p, which servers of open models support.
func openModels(o *openai.RequestOptions, _ *chat.Request, _ *policy.Resolution) {
	o.TokensField, o.TopK, o.MinP = openai.MaxTokens, true, true
}
