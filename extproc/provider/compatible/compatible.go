// Package compatible calls providers whose API is OpenAI's Chat Completions with a few differences: a file each, which describes the provider
// and says what it takes, what it refuses and what it calls otherwise. One that needs more than that has a package of its own.
package compatible

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Adapter is one of these providers. Its variables below are ready; the zero value is none.
type Adapter struct {
	kind kind.Kind

	options   func(o *openai.RequestOptions, req *chat.Request, to *policy.Resolution) // what it takes; nil: what OpenAI's format says
	refuses   []string                                                                 // members of a request that it answers an error to
	reasoners []string                                                                 // members that it answers an error to for models that reason
	renames   []rename                                                                 // members that it knows by another name
	address   func(call *provider.Call, at provider.Endpoint, model string)            // where a call goes and its credential; nil: as OpenAI's
	embeds    bool                                                                     // it makes embeddings
	thinking  openai.ReasoningStyle                                                    // how models that nothing is known of are told how hard to think
}

// rename is a member that a provider knows by another name.
type rename struct{ from, to string }

var (
	_ provider.Described = Adapter{}
	_ provider.Amender   = Adapter{}
	_ provider.Charging  = Adapter{}
)

// hosted are the traits of hosts: they serve others' models, without what is the vendors' own.
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

// Dialect is Chat Completions, Responses at a provider that has moved to it, and the format of embeddings for clients of that.
func (a Adapter) Dialect(to policy.Resolution, at provider.Endpoint, d chat.Dialect) chat.Dialect {
	switch {
	case d == chat.Embeddings && a.embeds && embeddings.At(&to):
		return d
	case at.Responses:
		return chat.Responses
	}
	return chat.OpenAI
}

// Encode writes a call in the format that Dialect says.
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
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are Chat Completions
	case chat.Embeddings:
		return embeddings.NewCall(buf, req, &to, at), nil
	case chat.Responses:
		return responses.NewCall(buf, req, at, responses.Options(to))
	}
	o := openai.RequestOptions{
		Model: model(&to), FixedSampling: to.FixedSampling, Efforts: to.Efforts, NoDetails: true, Video: slices.Contains(to.Features, policy.Video),
	}
	if to.Without.Thinking {
		o.ReasoningContent = openai.NoReasoningContent
	}
	o.Control(to.Control, a.thinking)
	if a.options != nil {
		a.options(&o, req, &to)
	}
	call, err := openai.NewCall(buf, req, at, o)
	if err != nil {
		return nil, err
	}
	return a.fit(call, &to)
}

// model is the name that the provider knows a model by.
func model(to *policy.Resolution) string { return cmp.Or(to.Upstream, string(to.Model)) }

// fit leaves out what the provider refuses, and names it, and renames what it knows by another name. The rest keeps its bytes.
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
			call.Degraded = wire.Named(call.Degraded, name)
		}
	}
	if !e.Empty() {
		call.Body = e.AppendTo(make([]byte, 0, e.Len(&doc)), &doc)
	}
	return call, nil
}

// Amend leaves out thinking that the provider refused.
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
	switch a.Dialect(to, at, req.Dialect) { //nolint:exhaustive // the others are Chat Completions
	case chat.Embeddings:
		return embeddings.NewDecoder(req, status, h)
	case chat.Responses:
		return responses.NewDecoder(req, status, h)
	}
	return openai.NewDecoder(req, status, h)
}

// Ping lists the provider's models.
func (a Adapter) Ping(at provider.Endpoint) *provider.Call {
	call := openai.Ping(at)
	if a.address != nil {
		a.address(call, at, "")
	}
	return call
}

// maxTokens has the limit of an answer called max_tokens.
func maxTokens(o *openai.RequestOptions, _ *chat.Request, _ *policy.Resolution) {
	o.TokensField = openai.MaxTokens
}

// openModels has the parameters of servers of open models: top_k and min_p as well.
func openModels(o *openai.RequestOptions, _ *chat.Request, _ *policy.Resolution) {
	o.TokensField, o.TopK, o.MinP = openai.MaxTokens, true, true
}
