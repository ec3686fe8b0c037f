package dryrun

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// filterByPrice moves candidates without a known price for this request to the rejected ones.
func (e *Result) filterByPrice(rt *runtime.Config, req *chat.Request, found []policy.Resolution) []policy.Resolution {
	left, refused := rt.Priced(req, found, rt.Resolver.Direct)
	for _, u := range refused {
		e.Refused = append(e.Refused, resolve.Refusal{Provider: u.Provider, Model: string(u.Model), Reason: u.Error()})
	}
	if len(left) == 0 && len(refused) > 0 {
		e.Error = publicError(refused[0].Fault())
	}
	return left
}

// filterByContent moves candidates whose format cannot express the request's content to the rejected ones.
func (e *Result) filterByContent(rt *runtime.Config, req *chat.Request, found []policy.Resolution) (left []policy.Resolution) {
	for i := range found {
		to := &found[i]
		if reason := rt.UnservedReason(req, to); reason != "" {
			e.Refused = append(e.Refused, resolve.Refusal{Provider: to.Provider, Model: string(to.Model), Reason: reason})
			e.Error = publicError(request.UnservedFault(req))
			continue
		}
		if u := rt.UnsupportedContent(req, to); u != nil {
			e.Refused = append(e.Refused, resolve.Refusal{Provider: to.Provider, Model: string(to.Model), Reason: u.Error()})
			e.Error = publicError(u.Fault())
			continue
		}
		left = append(left, *to)
	}
	if len(left) > 0 {
		e.Error = ""
	}
	return left
}
