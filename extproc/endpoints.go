package extproc

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/internal/telemetry"
)

// class is what an endpoint asks of its caller.
type class uint8

const (
	classOpen     class = iota // nothing
	classLookup                // who it is
	classGenerate              // who it is, and money
)

// endpoint is one entry of the HTTP surface. Without a local handler, a provider answers.
type endpoint struct {
	method string
	path   string // a trailing "/" stands for one more segment
	verb   string // what the path ends in, in Google's habit: ":generateContent"
	class  class
	op     chat.Op
	local  func(*api.Server, context.Context, *api.Caller) (stream.Reply, error)
	kept   bool                           // about what a provider keeps: a user's own key answers
	detect func(body []byte) chat.Dialect // finds out the request's format; nil: the path and the headers say it
}

var endpoints = []endpoint{
	{method: http.MethodPost, path: "/v1/chat/completions", class: classGenerate},
	{method: http.MethodPost, path: "/v1/messages", class: classGenerate},
	{method: http.MethodPost, path: "/v1/completions", class: classGenerate, detect: completions.Detect},
	{method: http.MethodPost, path: "/v1/responses", class: classGenerate},
	{method: http.MethodPost, path: "/v1/embeddings", class: classGenerate, op: chat.Embed},
	{method: http.MethodPost, path: "/v1/messages/count_tokens", class: classLookup, op: chat.CountTokens},
	{method: http.MethodPost, path: "/v1/responses/input_tokens", class: classLookup, op: chat.CountTokens},
	{method: http.MethodPost, path: "/v1beta/models/", verb: ":generateContent", class: classGenerate},
	{method: http.MethodPost, path: "/v1beta/models/", verb: ":streamGenerateContent", class: classGenerate},
	{method: http.MethodPost, path: "/v1beta/models/", verb: ":countTokens", class: classLookup, op: chat.CountTokens},
	{method: http.MethodGet, path: "/v1beta/models", class: classLookup, local: (*api.Server).GeminiModels},
	{method: http.MethodGet, path: "/v1beta/models/", class: classLookup, local: (*api.Server).GeminiModel},
	{method: http.MethodGet, path: "/v1/models", class: classLookup, local: (*api.Server).Models},
	{method: http.MethodGet, path: "/v1/models/", class: classLookup, local: (*api.Server).Model},
	{method: http.MethodGet, path: "/v1/schemas", class: classLookup, local: (*api.Server).Schemas},
	{method: http.MethodGet, path: "/v1/schemas/", class: classLookup, local: (*api.Server).Schema},
	{method: http.MethodGet, path: "/v1/balance", class: classLookup, local: (*api.Server).Balance},
	{method: http.MethodGet, path: "/v1/usage", class: classLookup, local: (*api.Server).Usage},
	{method: http.MethodGet, path: "/v1/requests/", verb: "/reasoning", class: classLookup, local: (*api.Server).Reasoning},
	{method: http.MethodGet, path: "/v1/requests/", class: classLookup, local: (*api.Server).Request},
	{method: http.MethodGet, path: "/v1/cache", class: classLookup, local: (*api.Server).Cache},
	{method: http.MethodDelete, path: "/v1/cache", class: classLookup, local: (*api.Server).ClearCache},
	{method: http.MethodDelete, path: "/v1/cache/", class: classLookup, local: (*api.Server).ClearCache},
	{method: http.MethodGet, path: "/", class: classOpen, local: (*api.Server).Welcome},
	{method: http.MethodGet, path: "/healthz", class: classOpen, local: (*api.Server).Alive},
	{method: http.MethodGet, path: "/readyz", class: classOpen, local: (*api.Server).Ready},
}

// operation is what a request to this endpoint counts as.
func (e endpoint) operation() telemetry.Operation {
	switch {
	case e.local != nil:
		return telemetry.Lookup
	case e.kept:
		return telemetry.Passthrough
	case e.op == chat.CountTokens:
		return telemetry.CountTokens
	case e.op == chat.Embed:
		return telemetry.Embeddings
	}
	return telemetry.Chat
}

// findEndpoint matches a folded path. HEAD is served wherever GET is.
func findEndpoint(hd *stream.Head) (endpoint, error) {
	method := hd.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, e := range endpoints {
		if e.method == method && e.matches(hd.Path) {
			return e, nil
		}
	}
	if e, ok := findKept(method, hd.Path); ok {
		return e, nil
	}
	if verb := googleVerb(hd); verb != "" {
		return endpoint{}, fault.Newf(fault.NotFound, "this version of the gateway does not serve %s of Google's API%s", fault.Clip(verb), insteadOf(verb))
	}
	if takes := allowed(hd.Path); takes != "" {
		return endpoint{}, fault.Newf(fault.MethodNotAllowed, "%s takes %s, not %s", fault.Clip(hd.Path), takes, fault.Clip(hd.Method))
	}
	if isUnserved(hd.Path) {
		return endpoint{}, fault.Newf(fault.NotFound, "this version of the gateway does not serve %s: use /v1/chat/completions, /v1/responses or /v1/messages", fault.Clip(hd.Path))
	}
	return endpoint{}, fault.Newf(fault.NotFound, "there is no endpoint %s %s%s", fault.Clip(hd.Method), fault.Clip(hd.Path), meant(hd.Path))
}

// googleVerb is what a call of one of Google's models asks of it, as in "models/m:embedContent"; "" for another request.
func googleVerb(hd *stream.Head) string {
	rest, ok := strings.CutPrefix(hd.Path, "/v1beta/models/")
	if !ok {
		rest, ok = strings.CutPrefix(hd.Path, "/v1/models/")
	}
	at := strings.LastIndexByte(rest, ':')
	if !ok || at < 1 || hd.Method != http.MethodPost {
		return ""
	}
	return rest[at:]
}

// insteadOf says what serves in the place of a verb of Google's that is not served.
func insteadOf(verb string) string {
	if strings.Contains(strings.ToLower(verb), "embed") {
		return ": use /v1/embeddings"
	}
	return ": use " + strings.Join(stream.GoogleVerbs, ", ")
}

// meant names the endpoint that a path is probably a misspelling of.
func meant(path string) string {
	var paths []string
	for _, e := range endpoints {
		if e.path != "/" && !slices.Contains(paths, e.path) {
			paths = append(paths, e.path)
		}
	}
	if like := near.Names(path, paths, 1); len(like) > 0 {
		return "; did you mean " + like[0] + "?"
	}
	return "; a generation goes to /v1/chat/completions, /v1/completions, /v1/responses or /v1/messages"
}

// allowed lists the methods of a path, as an Allow header does; "" for a path that there is not.
func allowed(path string) string {
	var methods []string
	for _, e := range endpoints {
		if e.matches(path) && !slices.Contains(methods, e.method) {
			methods = append(methods, e.method)
			if e.method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
	}
	if methods == nil {
		methods = keptMethods(path)
	}
	return strings.Join(methods, ", ")
}

// unserved are parts of the providers' APIs that clients may expect here and that this version lacks.
var unserved = []string{
	"/v1/images", "/v1/audio",
	"/v1/moderations", "/v1/realtime", "/v1/identity", "/v1/events", "/venice", "/ui",
}

func isUnserved(path string) bool {
	return slices.ContainsFunc(unserved, func(u string) bool { return path == u || strings.HasPrefix(path, u+"/") })
}

func (e endpoint) matches(path string) bool {
	if !strings.HasSuffix(e.path, "/") || e.path == "/" {
		return path == e.path
	}
	rest, ok := strings.CutPrefix(path, e.path)
	rest, ends := strings.CutSuffix(rest, e.verb)
	return ok && ends && rest != ""
}

// countsUpstream reports whether the first candidate counts tokens itself.
func (x *exchange) countsUpstream() bool {
	p := x.rt.Providers[x.Order[0].Provider]
	return p.CountsTokens && p.Adapter.Dialect(x.Order[0], p.Endpoint, x.Request.Dialect) == x.Request.Dialect
}

// countReply answers a token count from the gateway's own estimate.
func (x *exchange) countReply() stream.Reply {
	body := []byte(`{"input_tokens":`)
	switch x.Request.Dialect { //nolint:exhaustive // the others say it alike
	case chat.Responses:
		body = []byte(`{"object":"response.input_tokens","input_tokens":`)
	case chat.Gemini:
		body = []byte(`{"totalTokens":`)
	}
	r := x.head.JSON(append(strconv.AppendInt(body, x.Request.InputTokens, 10), '}'))
	r.Header = append(r.Header, x.idHeaders()...)
	r.Header = append(r.Header, header.Field{Name: "x-bardo-degraded", Value: "estimated"})
	return r
}
