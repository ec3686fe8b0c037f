// Package anthropic calls Anthropic's own API, and servers that offer the same one.
package anthropic

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	wire "bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// version is the API version that requests are written for.
const version = "2023-06-01"

// Adapter speaks the Messages API. The zero value is ready.
type Adapter struct{}

var _ provider.Adapter = Adapter{}

// Name is the provider's kind.
func (Adapter) Name() string { return "anthropic" }

// Dialect is always Anthropic's.
func (Adapter) Dialect(provider.Endpoint, chat.Dialect) chat.Dialect { return chat.Anthropic }

// Encode writes one attempt. A client of the same dialect has its query and its beta features passed on.
func (Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	same := req.Dialect == chat.Anthropic
	if req.Op == chat.CountTokens && !same {
		return nil, fault.New(fault.InvalidRequest, "tokens can be counted for Messages requests only", nil)
	}
	body, degraded, err := wire.EncodeRequest(buf, req, wire.RequestOptions{
		Model: upstream(to), MaxOutput: to.MaxOutput, Adaptive: to.AdaptiveThinking,
	})
	if err != nil {
		return nil, err
	}
	call := &provider.Call{Path: path(req, at, same), Header: headers(at), Body: body, Degraded: degraded}
	if same && len(req.Betas) > 0 {
		call.Header = append(call.Header, header.Field{Name: "anthropic-beta", Value: strings.Join(req.Betas, ",")})
	}
	return call, nil
}

// headers are what every call carries.
func headers(at provider.Endpoint) header.List {
	l := header.List{{Name: "anthropic-version", Value: version}}
	if at.Key != "" {
		l = append(l, header.Field{Name: "x-api-key", Value: string(at.Key)})
	}
	return l
}

func upstream(to policy.Resolution) string {
	if to.Upstream != "" {
		return to.Upstream
	}
	return string(to.Model)
}

func path(req *chat.Request, at provider.Endpoint, same bool) string {
	p := at.BasePath + "/messages"
	if req.Op == chat.CountTokens {
		p += "/count_tokens"
	}
	if same && req.Query != "" {
		p += "?" + req.Query
	}
	return p
}

// NewDecoder reads the answer of such a call.
func (Adapter) NewDecoder(req *chat.Request, _ provider.Endpoint, status int, h header.List) provider.Decoder {
	return wire.NewDecoder(req, status, h)
}

// Ping lists the provider's models.
func (Adapter) Ping(at provider.Endpoint) *provider.Call {
	return &provider.Call{Path: at.BasePath + "/models", Header: headers(at)}
}
