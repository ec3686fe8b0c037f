package request

import (
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Requests that other gateways serve.

// IsGateway reports whether a provider is another gateway.
func (v *View) IsGateway(id policy.ProviderID) bool {
	_, ok := v.Config.Provider(id).Adapter.(provider.Gateway)
	return ok
}

// IsRelayed reports whether all candidates are other gateways, and the request has no hints with texts, which they do not get. They get the request's hints and apply them: the parameters of a subsystem, the schema of its
// answers, verification and escalation.
func (v *View) IsRelayed() bool {
	for i := range v.Found {
		if !v.IsGateway(v.Found[i].Provider) {
			return false
		}
	}
	return len(v.Found) > 0 && !v.Hints.HaveTexts()
}

// ForGateway returns the headers of a call of another gateway; nil for any other provider. The error is a fault.
func (v *View) ForGateway(id policy.ProviderID) (header.List, error) {
	if !v.IsGateway(id) {
		return nil, nil
	}
	text, err := hint.Forwarded(v.Header, v.Request.Doc.Get(wire.HintKey), v.Principal.Account, v.IsRelayed())
	if err != nil {
		return nil, err
	}
	return header.List{{Name: header.Forwarded, Value: text}}, nil
}
