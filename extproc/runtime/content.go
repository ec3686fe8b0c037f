package runtime

import (
	"errors"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// UnsupportedContent returns the first content of a request that a candidate's format cannot express; nil if there is none. A candidate of the
// client's format gets the request unchanged. A request that cannot be parsed is rejected when it is encoded.
func (rt *Config) UnsupportedContent(req *chat.Request, to *policy.Resolution) *wire.Unsupported {
	p, ok := rt.Find(to.Provider)
	if !ok {
		return nil
	}
	spoken := p.Adapter.Dialect(*to, p.Endpoint, req.Dialect)
	if spoken == req.Dialect {
		return nil
	}
	c, err := req.Conversation()
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	u, _ := errors.AsType[*wire.Unsupported](wire.TargetOf(spoken, to).CheckContent(c, req.Dialect))
	return u
}
