// Package endpoint is the table of the gateway's HTTP endpoints: methods and paths, what each requires of its caller, and its handler. It serves
// nothing itself.
package endpoint

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/extproc/modality"
	"bardo.money/gateway/extproc/passthrough"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/session"
)

// Class is the requirement of an endpoint on its caller.
type Class uint8

// The classes of endpoints.
const (
	Open     Class = iota // nothing
	Lookup                // identity
	Generate              // identity and payment
)

// Endpoint is one entry of the HTTP interface. Without a local handler, a provider serves it.
type Endpoint struct {
	Method   string
	Path     string // a trailing "/" matches one more segment
	Suffix   string // suffix of the path, as in Google's API: ":generateContent"
	Leaf     bool   // nothing after Path may contain a slash
	Class    Class
	Op       chat.Op
	Local    func(*api.Server, context.Context, *api.Caller) (stream.Reply, error)
	MaxBody  int64                          // > 0: the local handler reads a body of at most this many bytes
	Stored   bool                           // about a resource that a provider stores: needs a user's own key
	Paid     bool                           // also available to payers of single requests, without a key
	Compact  bool                           // session compaction: its transcript is summarised
	Page     bool                           // a page of the dashboard
	MCP      bool                           // a message to MCP servers
	Metadata bool                           // the description of an MCP endpoint for clients that log in by OAuth
	Realtime bool                           // realtime sessions, over WebSocket
	Modality *modality.Operation            // an endpoint of package modality: the request is sent unchanged
	Detect   func(body []byte) chat.Dialect // detects the request's format; nil: path and headers determine it
}

var endpoints = append([]Endpoint{
	{Method: http.MethodPost, Path: "/v1/chat/completions", Class: Generate},
	{Method: http.MethodPost, Path: "/v1/messages", Class: Generate},
	{Method: http.MethodPost, Path: "/v1/completions", Class: Generate, Detect: completions.Detect},
	{Method: http.MethodPost, Path: "/v1/responses", Class: Generate},
	{Method: http.MethodPost, Path: "/v1/embeddings", Class: Generate, Op: chat.Embed},
	{Method: http.MethodPost, Path: "/v1/messages/count_tokens", Class: Lookup, Op: chat.CountTokens},
	{Method: http.MethodPost, Path: "/v1/responses/input_tokens", Class: Lookup, Op: chat.CountTokens},
	{Method: http.MethodPost, Path: "/tokenize", Class: Lookup, Local: (*api.Server).Tokenize, MaxBody: api.MaxTokenizeBody},
	{Method: http.MethodPost, Path: "/v1/tokenize", Class: Lookup, Local: (*api.Server).Tokenize, MaxBody: api.MaxTokenizeBody},
	{Method: http.MethodPost, Path: "/v1beta/models/", Suffix: ":generateContent", Class: Generate},
	{Method: http.MethodPost, Path: "/v1beta/models/", Suffix: ":streamGenerateContent", Class: Generate},
	{Method: http.MethodPost, Path: "/v1beta/models/", Suffix: ":countTokens", Class: Lookup, Op: chat.CountTokens},
	{Method: http.MethodGet, Path: "/v1beta/models", Class: Lookup, Local: (*api.Server).GeminiModels},
	{Method: http.MethodGet, Path: "/v1beta/models/", Class: Lookup, Local: (*api.Server).GeminiModel},
	{Method: http.MethodGet, Path: "/v1/models", Class: Lookup, Local: (*api.Server).Models},
	{Method: http.MethodGet, Path: "/v1/models/", Class: Lookup, Local: (*api.Server).Model},
	{Method: http.MethodGet, Path: "/v1/schemas", Class: Lookup, Local: (*api.Server).Schemas},
	{Method: http.MethodGet, Path: "/v1/schemas/", Class: Lookup, Local: (*api.Server).Schema},
	{Method: http.MethodGet, Path: "/v1/balance", Class: Lookup, Local: (*api.Server).Balance},
	{Method: http.MethodGet, Path: "/v1/usage", Class: Lookup, Local: (*api.Server).Usage},
	{Method: http.MethodGet, Path: "/v1/requests/", Suffix: "/reasoning", Class: Lookup, Local: (*api.Server).Reasoning},
	{Method: http.MethodGet, Path: "/v1/requests/", Suffix: "/answer", Class: Lookup, Local: (*api.Server).Answer},
	{Method: http.MethodGet, Path: "/v1/requests/", Leaf: true, Class: Lookup, Local: (*api.Server).Request, Paid: true},
	{Method: http.MethodDelete, Path: "/v1/requests/", Leaf: true, Class: Lookup, Local: (*api.Server).Cancel},
	{Method: http.MethodPost, Path: "/v1/requests/", Suffix: "/feedback", Class: Lookup, Local: (*api.Server).Feedback, MaxBody: api.MaxFeedbackBody},
	{Method: http.MethodPost, Path: "/v1/sessions", Class: Lookup, Local: (*api.Server).CreateSession, MaxBody: api.MaxSessionBody},
	{Method: http.MethodPost, Path: "/v1/sessions/", Suffix: "/compact", Class: Generate, Compact: true},
	{Method: http.MethodGet, Path: "/v1/sessions/", Class: Lookup, Local: (*api.Server).Session},
	{Method: http.MethodPost, Path: "/v1/sessions/", Class: Lookup, Local: (*api.Server).Session, MaxBody: session.MaxState},
	{Method: http.MethodPut, Path: "/v1/sessions/", Class: Lookup, Local: (*api.Server).Session, MaxBody: session.MaxState},
	{Method: http.MethodDelete, Path: "/v1/sessions/", Class: Lookup, Local: (*api.Server).Session},
	{Method: http.MethodGet, Path: "/v1/identity", Class: Lookup, Local: (*api.Server).Identity},
	{Method: http.MethodPost, Path: "/v1/identity/link", Class: Lookup, Local: (*api.Server).LinkIdentity, MaxBody: api.MaxLinkBody, Paid: true},
	{Method: http.MethodDelete, Path: "/v1/identity/link", Class: Lookup, Local: (*api.Server).UnlinkIdentity},
	{Method: http.MethodGet, Path: "/v1/cache", Class: Lookup, Local: (*api.Server).Cache},
	{Method: http.MethodDelete, Path: "/v1/cache", Class: Lookup, Local: (*api.Server).ClearCache},
	{Method: http.MethodDelete, Path: "/v1/cache/", Class: Lookup, Local: (*api.Server).ClearCache},
	{Method: http.MethodGet, Path: "/v1/events", Class: Lookup, Local: (*api.Server).StreamEvents},
	{Method: http.MethodGet, Path: "/venice/status", Class: Lookup, Local: (*api.Server).VeniceStatus},
	{Method: http.MethodGet, Path: "/venice/telemetry", Class: Lookup, Local: (*api.Server).VeniceTelemetry},
	{Method: http.MethodGet, Path: "/venice/attestations", Class: Lookup, Local: (*api.Server).VeniceAttestations},
	{Method: http.MethodPost, Path: api.StreamTokenPath, Class: Lookup, Local: (*api.Server).VeniceStreamToken},
	{Method: http.MethodPost, Path: "/venice/cache/advance", Class: Lookup, Local: (*api.Server).AdvanceEpoch, MaxBody: api.MaxEpochBody},
	{Method: http.MethodGet, Path: api.StreamPath, Class: Lookup, Local: (*api.Server).VeniceStream},
	{Method: http.MethodPost, Path: mcp.Path, Class: Lookup, MCP: true},
	{Method: http.MethodDelete, Path: mcp.Path, Class: Lookup, MCP: true},
	{Method: http.MethodPost, Path: mcp.Path + "/", Leaf: true, Class: Lookup, MCP: true},
	{Method: http.MethodDelete, Path: mcp.Path + "/", Leaf: true, Class: Lookup, MCP: true},
	{Method: http.MethodGet, Path: mcp.MetadataPath + mcp.Path, Class: Open, Metadata: true},
	{Method: http.MethodGet, Path: mcp.MetadataPath + mcp.Path + "/", Leaf: true, Class: Open, Metadata: true},
	{Method: http.MethodGet, Path: modality.RealtimePath, Class: Generate, Op: chat.Modality, Realtime: true},
	{Method: http.MethodGet, Path: "/", Class: Open, Local: (*api.Server).Welcome},
	{Method: http.MethodGet, Path: "/ui", Class: Open, Page: true},
	{Method: http.MethodGet, Path: "/ui/", Class: Open, Page: true},
	{Method: http.MethodPost, Path: "/ui/", Class: Open, Page: true},
	{Method: http.MethodGet, Path: "/venice", Class: Open, Page: true},
	{Method: http.MethodGet, Path: "/healthz", Class: Open, Local: (*api.Server).Alive},
	{Method: http.MethodGet, Path: "/readyz", Class: Open, Local: (*api.Server).Ready},
}, modalities()...)

// modalities returns the endpoints of package modality.
func modalities() (list []Endpoint) {
	for _, o := range modality.Operations() {
		list = append(list, Endpoint{Method: http.MethodPost, Path: o.Path(), Class: Generate, Op: chat.Modality, Modality: &o})
	}
	return list
}

// modalityOperation returns the operation that requests to an endpoint of package modality count as.
func modalityOperation(o *modality.Operation) telemetry.Operation {
	switch o.Feature { //nolint:exhaustive // the features of operations
	case policy.ImageGeneration:
		return telemetry.Images
	case policy.Speech:
		return telemetry.Speech
	case policy.Moderation:
		return telemetry.Moderation
	case policy.Rerank:
		return telemetry.Rerank
	case policy.Realtime:
		return telemetry.Realtime
	}
	return telemetry.Transcription
}

// Operation returns the operation that a request to this endpoint counts as.
func (e Endpoint) Operation() telemetry.Operation {
	switch {
	case e.Local != nil, e.Page, e.Metadata:
		return telemetry.Lookup
	case e.MCP:
		return telemetry.MCP
	case e.Stored:
		return telemetry.Passthrough
	case e.Realtime:
		return telemetry.Realtime
	case e.Modality != nil:
		return modalityOperation(e.Modality)
	case e.Op == chat.CountTokens:
		return telemetry.CountTokens
	case e.Op == chat.Embed:
		return telemetry.Embeddings
	}
	return telemetry.Chat
}

// Find matches a folded path. HEAD is served where GET is.
func Find(hd *stream.Head) (Endpoint, error) {
	method := hd.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, e := range endpoints {
		if e.Method == method && e.matches(hd.Path) {
			return e, nil
		}
	}
	if e, ok := findStored(method, hd.Path); ok {
		return e, nil
	}
	if verb := googleVerb(hd); verb != "" {
		return Endpoint{}, fault.Newf(fault.NotFound, "this version of the gateway does not serve %s of Google's API%s", fault.Clip(verb), alternativeTo(verb))
	}
	if takes := Methods(hd.Path); takes != "" {
		return Endpoint{}, fault.Newf(fault.MethodNotAllowed, "%s takes %s, not %s", fault.Clip(hd.Path), takes, fault.Clip(hd.Method))
	}
	if isUnserved(hd.Path) {
		return Endpoint{}, fault.Newf(fault.NotFound, "this version of the gateway does not serve %s: use /v1/chat/completions, /v1/responses or /v1/messages", fault.Clip(hd.Path))
	}
	return Endpoint{}, fault.Newf(fault.NotFound, "there is no endpoint %s %s%s", fault.Clip(hd.Method), fault.Clip(hd.Path), suggestion(hd.Path))
}

// findStored returns the endpoint of a stored resource.
func findStored(method, path string) (Endpoint, bool) {
	if !slices.Contains(passthrough.Methods(path), method) || path == "/v1/responses" {
		return Endpoint{}, false
	}
	e := Endpoint{Method: method, Path: path, Class: Lookup, Stored: true}
	if method != http.MethodGet && method != http.MethodHead {
		e.Class = Generate
	}
	return e, true
}

// googleVerb returns the verb of a call of one of Google's models, as in "models/m:embedContent"; "" for any other request.
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

// alternativeTo returns what replaces a verb of Google's that is not supported.
func alternativeTo(verb string) string {
	if strings.Contains(strings.ToLower(verb), "embed") {
		return ": use /v1/embeddings"
	}
	return ": use " + strings.Join(stream.GoogleVerbs, ", ")
}

// suggestion returns the endpoint of which a path is probably a misspelling.
func suggestion(path string) string {
	var paths []string
	for _, e := range endpoints {
		if e.Path != "/" && !slices.Contains(paths, e.Path) {
			paths = append(paths, e.Path)
		}
	}
	if like := near.Names(path, paths, 1); len(like) > 0 {
		if strings.HasPrefix(like[0], "/v1") && strings.HasSuffix(like[0], "/") { // the resource's id follows
			like[0] += "{id}"
		}
		return "; did you mean " + like[0] + "?"
	}
	return "; a generation goes to /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages or /v1beta/models/{model}:generateContent"
}

// Methods lists the methods of a path, as in an Allow header; "" for an unknown path.
func Methods(path string) string {
	var methods []string
	for _, e := range endpoints {
		if e.matches(path) && !slices.Contains(methods, e.Method) {
			methods = append(methods, e.Method)
			if e.Method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
	}
	if methods == nil {
		methods = passthrough.Methods(path)
	}
	return strings.Join(methods, ", ")
}

// unserved are parts of the providers' APIs that clients may expect here and that are not supported.
var unserved = []string{
	"/v1/images", "/v1/audio", "/v1/videos", "/v1/fine_tuning", "/v1/assistants", "/v1/threads", "/v1/vector_stores",
	"/venice",
}

func isUnserved(path string) bool {
	return slices.ContainsFunc(unserved, func(u string) bool { return path == u || strings.HasPrefix(path, u+"/") })
}

func (e Endpoint) matches(path string) bool {
	if !strings.HasSuffix(e.Path, "/") || e.Path == "/" {
		return path == e.Path
	}
	rest, ok := strings.CutPrefix(path, e.Path)
	rest, ends := strings.CutSuffix(rest, e.Suffix)
	return ok && ends && rest != "" && (!e.Leaf || !strings.Contains(rest, "/"))
}
