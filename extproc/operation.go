package extproc

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Requests for something else than the next turn of a conversation. They go to providers that have the endpoint, with the bytes that came,
// and no layer, profile or form has anything to say about them.

// verbatim reports whether the request goes to its provider with its own bytes.
func (x *exchange) verbatim() bool {
	return x.Request.Op == chat.Embed || x.Request.Dialect == chat.Completions
}

// windowless are candidates as what a request may cost there is bounded: without the windows of their models, for one that may hold more than
// one prompt, as each has a window of its own, and does not bound what all of them take.
func (x *exchange) windowless(candidates []policy.Resolution) []policy.Resolution {
	if !x.verbatim() && !x.widens() {
		return candidates
	}
	list := slices.Clone(candidates)
	for i := range list {
		if x.verbatim() {
			list[i].Context = 0
			continue
		}
		list[i].Context = x.windowOf(&list[i])
	}
	return list
}

// windowOf is the window of a candidate for this request, in tokens; 0 for an unknown one.
func (x *exchange) windowOf(to *policy.Resolution) int {
	if to.Context > 0 && x.widens() {
		return max(to.Context, wideWindow)
	}
	return to.Context
}

// wideWindow is the window that a flag of Anthropic's opens of models whose usual one is smaller.
const (
	wideWindow = 1_000_000
	wideFlag   = "context-1m-"
)

// widens reports whether the request asks for it.
func (x *exchange) widens() bool {
	return slices.ContainsFunc(x.Request.Betas, func(flag string) bool { return strings.HasPrefix(flag, wideFlag) })
}

// unserved is why a candidate has nothing to answer a request with: its model makes something else, or its provider lacks the endpoint;
// "" if it has.
func (rt *Runtime) unserved(req *chat.Request, to *policy.Resolution) string {
	p, ok := rt.Providers[to.Provider]
	switch {
	case !ok:
	case req.Op == chat.Embed && p.Adapter.Dialect(*to, p.Endpoint, req.Dialect) != req.Dialect:
		return "the model makes no embeddings there"
	case req.NoTurn != nil && p.Adapter.Dialect(*to, p.Endpoint, req.Dialect) != req.Dialect:
		return "a turn of a conversation cannot say what the request asks for"
	case req.Op != chat.Embed && slices.Contains(to.Features, policy.Embeddings):
		return "the model makes embeddings alone"
	}
	return ""
}

// unservedFault tells the caller that no candidate has an answer to the request.
func unservedFault(req *chat.Request) *fault.Fault {
	if req.NoTurn != nil {
		return fault.From(req.NoTurn)
	}
	f := fault.Newf(fault.InvalidRequest, "the model %q makes embeddings, which are asked for at /v1/embeddings", fault.Clip(req.Model))
	if req.Op == chat.Embed {
		f.Public = fmt.Sprintf("the model %q makes no embeddings", fault.Clip(req.Model))
		if intent.Auto(req.Model) {
			f.Public = "embeddings are made by a model that the request names: those of two models cannot be compared"
		}
	}
	f.Param = "model"
	return f
}

// meetOperation leaves out the candidates that have nothing to answer the request with. The error is a fault.
func (x *exchange) meetOperation() error {
	if x.Request.Op == chat.Embed && intent.Auto(x.Request.Model) {
		return unservedFault(x.Request)
	}
	x.Found = slices.DeleteFunc(x.Found, func(to policy.Resolution) bool { return x.rt.unserved(x.Request, &to) != "" })
	if len(x.Found) == 0 {
		return unservedFault(x.Request)
	}
	x.takeTurn()
	return nil
}

// takeTurn has a prompt that no candidate's provider completes be a conversation, with all that the gateway does for one.
func (x *exchange) takeTurn() {
	if x.Request.Turn == nil || slices.ContainsFunc(x.Found, func(to policy.Resolution) bool { return x.spokenTo(&to) == chat.Completions }) {
		return
	}
	x.Request = x.Request.Turn
}

// turnInstead reports whether a provider turned out not to complete prompts, and is to be asked for a turn of a conversation.
func (x *exchange) turnInstead(to *policy.Resolution, f *upstream.Failure) bool {
	if x.Request.Turn == nil || x.spokenTo(to) != chat.Completions || f.Kind != upstream.ByStatus {
		return false
	}
	lacks := f.Status == http.StatusNotFound || f.Status == http.StatusMethodNotAllowed
	to.Without.Completions = lacks
	return lacks
}
