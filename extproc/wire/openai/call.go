package openai

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/kind"
)

// NewCall writes one attempt at a provider that speaks this format. The error is a fault.
func NewCall(buf []byte, req *chat.Request, at provider.Endpoint, o RequestOptions) (*provider.Call, error) {
	if req.Op == chat.CountTokens {
		return nil, fault.Newf(fault.InvalidRequest, "this provider's format cannot count tokens")
	}
	body, degraded, err := EncodeRequest(buf, req, o)
	if err != nil {
		return nil, err
	}
	return &provider.Call{Path: at.BasePath + "/chat/completions", Header: callHeaders(at), Body: body, Degraded: degraded}, nil
}

// Passthrough writes one attempt at an endpoint of OpenAI's formats with the client's own bytes, except for the model's name and the edits of
// every attempt.
func Passthrough(buf []byte, req *chat.Request, at provider.Endpoint, path, model string) *provider.Call {
	e, d := req.Edit.Clone(), &req.Doc
	if !d.Get("model").Equal(model) {
		e.Set(d, "model", jsonx.AppendString(nil, model))
	}
	if req.Stream && !req.StreamUsage {
		askUsage(&e, d)
	}
	body := e.AppendTo(slices.Grow(buf, e.Len(d)), d)
	return &provider.Call{Path: at.BasePath + path, Header: callHeaders(at), Body: body}
}

// Relay returns a call of an endpoint that is not for conversations, at a provider with OpenAI's API.
func Relay(e kind.Endpoint, at provider.Endpoint) *provider.Call {
	return &provider.Call{Path: at.BasePath + string(e), Header: callHeaders(at)}
}

// Ping lists the models of a provider that speaks this format.
func Ping(at provider.Endpoint) *provider.Call {
	return &provider.Call{Path: at.BasePath + "/models", Header: callHeaders(at)}
}

func callHeaders(at provider.Endpoint) header.List {
	if !at.Key.IsSet() {
		return nil
	}
	return header.List{{Name: "authorization", Value: "Bearer " + at.Key.Reveal()}}
}
