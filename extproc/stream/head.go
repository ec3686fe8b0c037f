package stream

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/origin"
	"bardo.money/gateway/xds/state"
)

// Head is a client's request line and headers, after Envoy normalised the path.
type Head struct {
	Method string
	Path   string // without query, normalised: "/v1/messages"
	Query  string // without "?"
	Host   string
	Header header.List // without pseudo-headers and without the gateway's internal ones
	Forged []string    // names of internal headers that the client sent, which are dropped
	Peer   netip.Addr  // the client's address; invalid if unknown
}

// longRequest is the size of JSON, in bytes, that occupies a thread for milliseconds.
const longRequest = 256 << 10

// IsShort reports whether the request may be parsed on a thread that serves many requests. bodyless is as in Handler.Serve.
func (hd *Head) IsShort(bodyless bool) bool {
	n, err := strconv.ParseInt(hd.Header.Get("content-length"), 10, 64)
	return bodyless || err == nil && n <= longRequest
}

// internalPrefix is the prefix of headers between parts of the gateway. They are removed from clients' requests and never sent to providers.
const internalPrefix = "x-bardo-internal-"

// NewHead parses a request's headers. It modifies and keeps the list. peer is the client's address, with or without its port.
func NewHead(all header.List, peer string) Head {
	var hd Head
	var key string
	kept := all[:0]
	for _, f := range all {
		switch {
		case f.Name == ":method":
			hd.Method = f.Value
		case f.Name == ":path":
			path, query, _ := strings.Cut(f.Value, "?")
			hd.Path, hd.Query = foldPath(path), query
			key = hd.removeKey()
		case f.Name == ":authority" || f.Name == "host":
			hd.Host = f.Value
		case f.Name != "" && f.Name[0] == ':':
		case strings.HasPrefix(f.Name, internalPrefix):
			if f.Name != state.HeaderPath { // Envoy overwrites this one
				hd.Forged = append(hd.Forged, f.Name)
			}
		default:
			kept = append(kept, f)
		}
	}
	if key != "" && !kept.Has(header.GoogleKey) {
		kept = append(kept, header.Field{Name: header.GoogleKey, Value: key})
	}
	hd.Header = kept
	if hd.Header.Has(header.GoogleKey) && isModels(hd.Path) { // Google's clients may use the v1 of its API
		hd.Path = "/v1beta" + strings.TrimPrefix(hd.Path, "/v1")
	}
	hd.Peer = addressOf(peer)
	return hd
}

// addressOf parses "ip" or "ip:port"; it returns the zero address for anything else.
func addressOf(peer string) netip.Addr {
	if at, err := netip.ParseAddr(peer); err == nil {
		return at.Unmap()
	}
	at, _ := netip.ParseAddrPort(peer) // zero on error
	return at.Addr().Unmap()
}

// removeKey removes the key parameter of Google's clients from the query, so that it is not logged or forwarded, and returns the key.
func (hd *Head) removeKey() (key string) {
	if !isGemini(hd.Path) && !isModels(hd.Path) || !strings.Contains(hd.Query, "key=") {
		return ""
	}
	var rest []string
	for field := range strings.SplitSeq(hd.Query, "&") {
		value, isKey := strings.CutPrefix(field, "key=")
		if !isKey {
			rest = append(rest, field)
			continue
		}
		if plain, err := url.QueryUnescape(value); err == nil && key == "" {
			key = plain
		}
	}
	hd.Query = strings.Join(rest, "&")
	return key
}

// isGemini reports whether a path belongs to Google's API.
func isGemini(path string) bool { return path == "/v1beta" || strings.HasPrefix(path, "/v1beta/") }

// isModels reports whether a path is the list of models, which has the same path in Google's v1 and other APIs.
func isModels(path string) bool {
	return path == "/v1/models" || strings.HasPrefix(path, "/v1/models/")
}

// GoogleVerbs are the suffixes of paths in any version of Google's API.
var GoogleVerbs = []string{":generateContent", ":streamGenerateContent", ":countTokens"}

func hasVerb(path string) bool {
	return slices.ContainsFunc(GoogleVerbs, func(verb string) bool { return strings.HasSuffix(path, verb) })
}

// foldPath normalises the paths that result from base URLs with and without /v1: "/v1/v1/messages", "/messages" and "/v1/messages/" become
// "/v1/messages".
func foldPath(p string) string {
	if len(p) > 1 {
		p = strings.TrimSuffix(p, "/")
	}
	for strings.HasPrefix(p, "/v1/v1/") {
		p = p[len("/v1"):]
	}
	if p == "/v1/v1" {
		return "/v1"
	}
	for strings.HasPrefix(p, "/v1/v1beta/") || strings.HasPrefix(p, "/v1beta/v1beta/") || strings.HasPrefix(p, "/v1beta/v1/") {
		p = p[strings.Index(p[1:], "/")+1:]
	}
	if isBare(p) {
		p = "/v1" + p
	}
	if isModels(p) || strings.HasPrefix(p, "/v1beta/models/") {
		p = encodedColon.Replace(p)
	}
	if rest, ok := strings.CutPrefix(p, "/v1/models/"); ok && hasVerb(rest) {
		return "/v1beta/models/" + rest
	}
	return p
}

// encodedColon decodes what some clients encode in a model's name, as in qwen3:8b, and before a verb of Google's API. Envoy decodes only characters that
// need no encoding anywhere.
var encodedColon = strings.NewReplacer("%3A", ":", "%3a", ":")

func isBare(p string) bool {
	if strings.HasPrefix(p, "/v1") {
		return false
	}
	for _, bare := range bareRoots {
		if rest, ok := strings.CutPrefix(p, bare); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// bareRoots are the paths that SDKs request with a base URL without /v1.
var bareRoots = []string{
	"/chat/completions", "/messages", "/models", "/balance", "/cache", "/usage", "/requests", "/schemas",
	"/responses", "/conversations", "/completions", "/embeddings", "/images", "/audio", "/batches", "/files", "/moderations", "/rerank", "/realtime",
}

// Dialect returns the format of the client, in which it expects errors.
func (hd *Head) Dialect() chat.Dialect {
	if isGemini(hd.Path) {
		return chat.Gemini
	}
	if hd.Path == "/v1/embeddings" {
		return chat.Embeddings
	}
	if strings.HasPrefix(hd.Path, "/v1/messages") || hd.Header.Has("anthropic-version") {
		return chat.Anthropic
	}
	if strings.HasPrefix(hd.Path, "/v1/responses") {
		return chat.Responses
	}
	return chat.OpenAI
}

// FromLoopback reports whether a request came over loopback, with this machine in Host, and not from a web page of another origin: a page can make a
// browser send requests to 127.0.0.1, but cannot forge these headers.
func (hd *Head) FromLoopback() bool {
	return hd.Peer.IsLoopback() && (&origin.Rule{}).Refuses(hd.Origin()) == ""
}

// Origin returns the request's host and origin headers.
func (hd *Head) Origin() origin.Request {
	return origin.Request{Host: hd.Host, Origin: hd.Header.Get("origin"), Site: hd.Header.Get("sec-fetch-site")}
}

// FromThisMachine reports whether a request came over loopback and not through a proxy on this machine.
func (hd *Head) FromThisMachine() bool {
	return hd.FromLoopback() && !hd.Header.Has("x-forwarded-for") && !hd.Header.Has("forwarded") && !hd.Header.Has("via") && !hd.Header.Has("x-real-ip")
}

// Arg returns the rest of the path after an endpoint's path, which ends in a slash.
func (hd *Head) Arg(prefix string) string { return strings.TrimPrefix(hd.Path, prefix) }

// JSON returns a reply with status 200 and a JSON body, without the body for a HEAD request.
func (hd *Head) JSON(body []byte) Reply {
	if hd.Method == http.MethodHead {
		body = nil
	}
	return Reply{Status: http.StatusOK, Header: header.List{{Name: "content-type", Value: header.JSON}}, Body: body}
}
