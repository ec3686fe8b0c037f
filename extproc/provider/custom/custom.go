// Package custom calls a server of the operator's choice in the format it is configured with: OpenAI's, as vLLM and most
// others speak it, or Anthropic's. It knows nothing of where keys come from, and needs none.
package custom

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Adapter is the provider of kind "custom".
type Adapter struct{}

var _ provider.Adapter = Adapter{}

// Name is "custom".
func (Adapter) Name() string { return "custom" }

// Dialect is the one the endpoint is configured with, OpenAI's if it says none.
func (Adapter) Dialect(at provider.Endpoint, _ chat.Dialect) chat.Dialect {
	if at.Dialect == chat.Anthropic {
		return chat.Anthropic
	}
	return chat.OpenAI
}

// Encode writes a call in the endpoint's format, with the length limit under the name that the client gave it.
func (a Adapter) Encode(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	if a.Dialect(at, req.Dialect) == chat.Anthropic {
		return encodeAnthropic(buf, req, to, at)
	}
	return encodeOpenAI(buf, req, to, at)
}

func encodeOpenAI(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	if req.Op == chat.CountTokens {
		return nil, cannotCount()
	}
	body, degraded, err := openai.EncodeRequest(buf, req, openai.RequestOptions{Model: upstream(to)})
	if err != nil {
		return nil, err
	}
	call := &provider.Call{Path: at.BasePath + "/chat/completions", Body: body, Degraded: degraded}
	if at.Key != "" {
		call.Header = header.List{{Name: "authorization", Value: "Bearer " + string(at.Key)}}
	}
	return call, nil
}

func encodeAnthropic(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	if req.Op == chat.CountTokens && req.Dialect != chat.Anthropic {
		return nil, cannotCount()
	}
	body, degraded, err := anthropic.EncodeRequest(buf, req, anthropic.RequestOptions{
		Model: upstream(to), MaxOutput: to.MaxOutput, Adaptive: to.AdaptiveThinking,
	})
	if err != nil {
		return nil, err
	}
	call := &provider.Call{Path: at.BasePath + "/messages", Body: body, Degraded: degraded}
	if req.Op == chat.CountTokens {
		call.Path += "/count_tokens"
	}
	if at.Key != "" {
		call.Header = header.List{{Name: "x-api-key", Value: string(at.Key)}}
	}
	call.Header = append(call.Header, header.Field{Name: "anthropic-version", Value: anthropicVersion})
	if req.Dialect != chat.Anthropic {
		return call, nil
	}
	if req.Query != "" {
		call.Path += "?" + req.Query
	}
	if len(req.Betas) > 0 {
		call.Header = append(call.Header, header.Field{Name: "anthropic-beta", Value: strings.Join(req.Betas, ",")})
	}
	return call, nil
}

// anthropicVersion is the version of the Messages API that requests are written for.
const anthropicVersion = "2023-06-01"

func cannotCount() error {
	return fault.New(fault.InvalidRequest, "this provider's format cannot count tokens", nil)
}

func upstream(to policy.Resolution) string {
	if to.Upstream != "" {
		return to.Upstream
	}
	return string(to.Model)
}

// NewDecoder reads the answer of such a call.
func (a Adapter) NewDecoder(req *chat.Request, at provider.Endpoint, status int, h header.List) provider.Decoder {
	if a.Dialect(at, req.Dialect) == chat.Anthropic {
		return anthropic.NewDecoder(req, status, h)
	}
	return openai.NewDecoder(req, status, h)
}

// Ping lists the server's models.
func (a Adapter) Ping(at provider.Endpoint) *provider.Call {
	call := &provider.Call{Path: at.BasePath + "/models"}
	switch {
	case a.Dialect(at, "") == chat.Anthropic:
		call.Header = header.List{{Name: "anthropic-version", Value: anthropicVersion}}
		if at.Key != "" {
			call.Header = append(call.Header, header.Field{Name: "x-api-key", Value: string(at.Key)})
		}
	case at.Key != "":
		call.Header = header.List{{Name: "authorization", Value: "Bearer " + string(at.Key)}}
	}
	return call
}
