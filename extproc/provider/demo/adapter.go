package demo

import (
	"cmp"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/formats"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Adapter calls the demo provider in the client's dialect with the client's bytes if the demo supports that dialect, else in Chat
// Completions.
type Adapter struct{}

var _ provider.Adapter = Adapter{}

// Name is "demo".
func (Adapter) Name() string { return "demo" }

// Dialect is the client's if the demo supports it, else OpenAI's.
func (Adapter) Dialect(_ policy.Resolution, _ provider.Endpoint, d chat.Dialect) chat.Dialect {
	if d == chat.Anthropic {
		return d
	}
	return chat.OpenAI
}

// Encode passes the request unchanged, except for the edits of every attempt and the model's name.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	call, err := a.write(buf, req, to, at)
	if err != nil {
		return nil, err
	}
	doc, err := jsonx.Scan(call.Body)
	if err != nil {
		return nil, fault.New(fault.Internal, "the request could not be written for this provider", err)
	}
	for _, name := range ignored {
		if v := doc.Get(name); !v.IsNull() && string(v.Raw) != "false" {
			call.Degraded = wire.AppendDegraded(call.Degraded, name)
		}
	}
	return call, nil
}

// ignored are the request members of both formats that have no effect on an answer by fixed rules.
var ignored = []string{
	"audio", "frequency_penalty", "logit_bias", "logprobs", "min_p", "prediction", "presence_penalty", "repetition_penalty", "seed", "temperature", "top_k",
	"top_logprobs", "top_p", "verbosity", "web_search_options",
}

func (a Adapter) write(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	if a.Dialect(to, at, req.Dialect) != req.Dialect {
		return openai.NewCall(buf, req, at, openai.RequestOptions{Model: cmp.Or(to.Upstream, string(to.Model)), Video: slices.Contains(to.Features, policy.Video)})
	}
	edits := req.Edit.Clone()
	if name, _ := req.Doc.Get("model").Str(); to.Upstream != "" && name != to.Upstream {
		edits.Set(&req.Doc, "model", jsonx.AppendString(nil, to.Upstream))
	}
	call := &provider.Call{Path: at.BasePath + path(req), Body: edits.AppendTo(buf, &req.Doc)}
	if req.Dialect == chat.Anthropic {
		call.Header = header.List{{Name: "anthropic-version", Value: "2023-06-01"}}
	}
	return call, nil
}

func path(req *chat.Request) string {
	switch {
	case req.Dialect == chat.OpenAI:
		return "/chat/completions"
	case req.Op == chat.CountTokens:
		return "/messages/count_tokens"
	default:
		return "/messages"
	}
}

// NewDecoder reads an answer in the client's dialect.
func (a Adapter) NewDecoder(req *chat.Request, to policy.Resolution, at provider.Endpoint, status int, h header.List) provider.Decoder {
	return formats.NewDecoder(a.Dialect(to, at, req.Dialect), req, status, h)
}

// Ping lists the demo provider's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call {
	return &provider.Call{Path: at.BasePath + "/models"}
}
