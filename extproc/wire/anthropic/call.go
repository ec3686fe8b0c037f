package anthropic

import (
	"cmp"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// apiVersion is the API version of translated requests. An Anthropic client sends its own.
const apiVersion = "2023-06-01"

// NewCall writes one attempt at a provider that speaks this format. The query, the API version and the beta flags of a client of the same
// dialect are passed on. strip selects the history's thinking to remove for models that sign; the resolution may require more. The error is
// a fault.
func NewCall(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint, strip Strip) (*provider.Call, error) {
	same := req.Dialect == chat.Anthropic
	switch {
	case to.Without.Thinking:
		strip = StripAll
	case to.NoSignatures:
		strip = StripSignatures
	case strip == StripUnsigned && !req.Thinking: // scanning every request would cost too much: if the provider refuses it, Amend strips
		strip = StripNothing
	}
	if req.Op == chat.CountTokens && !same {
		return nil, fault.Newf(fault.InvalidRequest, "tokens can be counted for Messages requests only")
	}
	flags, dropped := sortBetas(req, at, to.Without)
	body, degraded, err := EncodeRequest(buf, req, RequestOptions{
		Model: cmp.Or(to.Upstream, string(to.Model)), MaxOutput: to.MaxOutput, MinCache: to.MinCache, Adaptive: to.AdaptiveThinking,
		StructuredOutputs: to.StructuredOutputs, Unknown: to.May(policy.StructuredOutputs), NoThinking: to.Reasoning == "none", FixedSampling: to.FixedSampling, Efforts: to.Efforts, Thinks: to.Thinks,
		StripThinking: strip, NoContextEdits: slices.ContainsFunc(dropped, isContextManagement),
		SearchResults: slices.Contains(to.Features, policy.Citations),
	})
	if err != nil {
		return nil, err
	}
	for _, flag := range dropped {
		degraded = append(degraded, "beta:"+flag)
	}
	call := &provider.Call{Path: callPath(req, at, same), Header: callHeaders(at, req.Version), Body: body, Degraded: degraded}
	if len(flags) > 0 {
		call.Header = append(call.Header, header.Field{Name: "anthropic-beta", Value: strings.Join(flags, ",")})
	}
	return call, nil
}

// Ping lists the models of a provider that speaks this format.
func Ping(at provider.Endpoint) *provider.Call {
	return &provider.Call{Path: at.BasePath + "/models", Header: callHeaders(at, "")}
}

func callHeaders(at provider.Endpoint, version string) header.List {
	l := header.List{{Name: "anthropic-version", Value: cmp.Or(version, apiVersion)}}
	if at.Key.IsSet() {
		l = append(l, header.Field{Name: "x-api-key", Value: at.Key.Reveal()})
	}
	return l
}

func callPath(req *chat.Request, at provider.Endpoint, same bool) string {
	p := at.BasePath + "/messages"
	if req.Op == chat.CountTokens {
		p += "/count_tokens"
	}
	if same && req.Query != "" {
		if query := header.QueryWithoutCredentials(req.Query); query != "" {
			p += "?" + query
		}
	}
	return p
}
