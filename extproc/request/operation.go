package request

import (
	"fmt"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Verbatim reports whether the client's body is sent without parsing a conversation from it: embeddings and legacy completions.
func (v *View) Verbatim() bool {
	return v.Request.Op == chat.Embed || v.Request.Dialect == chat.Completions
}

// WithoutWindows returns the candidates with the context windows that bound the request's cost: 0 (unknown) for a request that may hold several
// prompts, each of which has the whole window, and the enlarged window under Anthropic's long-context flag.
func (v *View) WithoutWindows(candidates []policy.Resolution) []policy.Resolution {
	if !v.Verbatim() && !v.wantsLongContext() {
		return candidates
	}
	list := slices.Clone(candidates)
	for i := range list {
		if v.Verbatim() {
			list[i].Context = 0
			continue
		}
		list[i].Context = v.WindowAt(&list[i])
	}
	return list
}

// WindowAt returns a candidate's context window for this request, in tokens; 0: unknown.
func (v *View) WindowAt(to *policy.Resolution) int {
	if to.Context > 0 && v.wantsLongContext() {
		return max(to.Context, longContext)
	}
	return to.Context
}

// longContext is the context window, in tokens, of a request with Anthropic's long-context beta flag.
const (
	longContext     = 1_000_000
	longContextFlag = "context-1m-"
)

// wantsLongContext reports whether the request has that flag.
func (v *View) wantsLongContext() bool {
	return slices.ContainsFunc(v.Request.Betas, func(flag string) bool { return strings.HasPrefix(flag, longContextFlag) })
}

// UnservedFault returns the client's error when no candidate serves the request's endpoint.
func UnservedFault(req *chat.Request) *fault.Fault {
	if req.TurnError != nil {
		return fault.From(req.TurnError)
	}
	f := fault.Newf(fault.InvalidRequest, "the model %q makes embeddings, which are asked for at /v1/embeddings", fault.Clip(req.Model))
	if req.Op == chat.Embed {
		f.Public = fmt.Sprintf("the model %q makes no embeddings: GET /v1/models shows which have the capability %s", fault.Clip(req.Model), policy.Embeddings)
		if intent.Auto(req.Model) {
			f.Public = "embeddings are made by a model that the request names: those of two models cannot be compared"
		}
	}
	f.Param = "model"
	return f
}

// endpointOf returns the endpoint of a model that does not generate text; "" for embeddings, which have a message of their own in UnservedFault.
func endpointOf(special policy.Feature) string {
	switch special { //nolint:exhaustive // the features of such models
	case policy.Moderation:
		return "/v1/moderations"
	case policy.Rerank:
		return "/v1/rerank"
	case policy.ImageGeneration:
		return "/v1/images/generations"
	case policy.Speech:
		return "/v1/audio/speech"
	case policy.Transcription:
		return "/v1/audio/transcriptions"
	case policy.Realtime:
		return "/v1/realtime"
	}
	return ""
}

// unservedFaultAs is UnservedFault that names the endpoint of a model with a special feature.
func unservedFaultAs(req *chat.Request, special policy.Feature) *fault.Fault {
	f := UnservedFault(req)
	if path := endpointOf(special); path != "" && req.TurnError == nil {
		f.Public = fmt.Sprintf("the model %q is for %s alone: use %s", fault.Clip(req.Model), special, path)
	}
	return f
}

// FilterByOperation removes the candidates that do not serve the request's endpoint. The error, if none is left, is a fault.
func (v *View) FilterByOperation() error {
	if v.Request.Op == chat.Embed && intent.Auto(v.Request.Model) {
		return UnservedFault(v.Request)
	}
	if v.Request.Op == chat.Embed {
		if err := v.FilterByOccasion(policy.Embeddings); err != nil {
			return err
		}
	}
	var special policy.Feature
	v.Found = slices.DeleteFunc(v.Found, func(to policy.Resolution) bool {
		special = policy.Special(to.Features)
		return v.Config.UnservedReason(v.Request, &to) != ""
	})
	if len(v.Found) == 0 {
		return unservedFaultAs(v.Request, special)
	}
	v.useChatTurn()
	return nil
}

// useChatTurn replaces a legacy completion by a chat request if no candidate's provider has /completions.
func (v *View) useChatTurn() {
	if v.Request.Turn == nil || slices.ContainsFunc(v.Found, func(to policy.Resolution) bool { return v.DialectAt(&to) == chat.Completions }) {
		return
	}
	v.Request = v.Request.Turn
}

// DialectAt returns the format of requests to a candidate.
func (v *View) DialectAt(to *policy.Resolution) chat.Dialect {
	p := v.Config.Provider(to.Provider)
	return p.Adapter.Dialect(*to, p.Endpoint, v.Request.Dialect)
}

// AnyProvider reports whether the request refers to nothing that a provider stores: no earlier response, conversation or cached content.
func (v *View) AnyProvider() bool {
	if v.NamesStored {
		return false
	}
	for _, m := range [...]string{"previous_response_id", "conversation", "cachedContent", "cached_content"} {
		if !v.Request.Doc.Get(m).IsNull() {
			return false
		}
	}
	return true
}

// InStoredConversation reports whether the request continues a conversation that its provider stores (OpenAI's Responses API).
func (v *View) InStoredConversation() bool {
	return v.Request.Dialect == chat.Responses && !v.Request.Doc.Get("conversation").IsNull()
}

// StoredAt reports whether a candidate's provider stores the request and its answer so that later requests can continue from them.
func (v *View) StoredAt(to *policy.Resolution) bool {
	p := v.Config.Provider(to.Provider)
	if v.Request.Dialect != chat.Responses || !p.Endpoint.Responses || p.Adapter.Dialect(*to, p.Endpoint, chat.Responses) != chat.Responses {
		return false
	}
	store, stated := v.Request.Doc.Get("store").Bool()
	return store || !stated
}
