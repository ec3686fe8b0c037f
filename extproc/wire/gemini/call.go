package gemini

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// NewCall writes one attempt at a provider that speaks this format. The error is a fault.
func NewCall(buf []byte, req *chat.Request, to policy.Resolution, at provider.Endpoint) (*provider.Call, error) {
	if req.Op == chat.CountTokens && req.Dialect != chat.Gemini {
		return nil, fault.Newf(fault.InvalidRequest, "tokens can be counted for requests of this format only")
	}
	path, err := callPath(req, to, at)
	if err != nil {
		return nil, err
	}
	o := RequestOptions{
		MaxOutput: to.MaxOutput, WebSearch: slices.Contains(to.Features, policy.WebSearch), Levels: to.Efforts, NoSignatures: to.Without.Thinking,
		SchemaAlone: to.SchemaAlone,
		Always:      to.Thinks == policy.ThinksAlways,
		NoThought:   to.Control == policy.ControlNone || to.Control == policy.ControlAlways,
	}
	body, degraded, err := EncodeRequest(buf, req, o)
	if err != nil {
		return nil, err
	}
	return &provider.Call{Path: path, Header: callHeaders(at), Body: body, Degraded: degraded}, nil
}

// Ping lists the models of a provider that speaks this format.
func Ping(at provider.Endpoint) *provider.Call {
	return &provider.Call{Path: at.BasePath + "/models", Header: callHeaders(at)}
}

func callHeaders(at provider.Endpoint) header.List {
	if !at.Key.IsSet() {
		return nil
	}
	return header.List{{Name: "x-goog-api-key", Value: at.Key.Reveal()}}
}

// callPath returns the path of a call. It contains the model's name, which must not contain path elements: clients may name any model.
func callPath(req *chat.Request, to policy.Resolution, at provider.Endpoint) (string, error) {
	name := strings.TrimPrefix(cmp.Or(to.Upstream, string(to.Model)), "models/")
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			f := fault.Newf(fault.InvalidRequest, "%q is not a model of this provider", name)
			f.Param = "model"
			return "", f
		}
	}
	path := at.BasePath + "/models/" + strings.ReplaceAll(url.PathEscape(name), "%2F", "/") + ":"
	switch {
	case req.Op == chat.CountTokens:
		return path + "countTokens", nil
	case req.Stream:
		return path + streamed + "?alt=sse", nil
	}
	return path + generate, nil
}

// Amend returns the resolution for another attempt after a provider of this format refused a request: without the history's signatures, if
// the provider refused these. ok is false if the error is about something else, or if they were already removed.
func Amend(to policy.Resolution, e *chat.ProviderError) (amended policy.Resolution, ok bool) {
	message := strings.ToLower(e.Message)
	if e.Status != 400 || to.Without.Thinking || !strings.Contains(message, "signature") {
		return to, false
	}
	to.Without.Thinking = true
	return to, true
}
