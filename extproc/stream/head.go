package stream

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/origin"
	"bardo.money/gateway/xds/state"
)

// Head is a client's request line and headers, as Envoy passed them on after normalising the path.
type Head struct {
	Method string
	Path   string // without query, SDK habits folded: "/v1/messages"
	Query  string // without "?"
	Host   string
	Header header.List // without pseudo-headers and without the gateway's internal ones
	Forged []string    // the gateway's internal headers that the client sent
	Peer   netip.Addr  // the client's address; invalid if unknown
}

// internalPrefix begins the names of headers between the gateway's own parts: none comes from a client or goes to a provider.
const internalPrefix = "x-bardo-internal-"

// NewHead folds a request's headers. The list is kept and edited in place.
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
			key = hd.takeKey()
		case f.Name == ":authority" || f.Name == "host":
			hd.Host = f.Value
		case f.Name != "" && f.Name[0] == ':':
		case strings.HasPrefix(f.Name, internalPrefix):
			if f.Name != state.HeaderPath { // this one is overwritten
				hd.Forged = append(hd.Forged, f.Name)
			}
		default:
			kept = append(kept, f)
		}
	}
	if key != "" && !kept.Has(googleKey) {
		kept = append(kept, header.Field{Name: googleKey, Value: key})
	}
	hd.Header = kept
	if hd.Header.Has(googleKey) && isModels(hd.Path) { // Google's clients may ask for the stable version of its API
		hd.Path = "/v1beta" + strings.TrimPrefix(hd.Path, "/v1")
	}
	if ap, err := netip.ParseAddrPort(peer); err == nil {
		hd.Peer = ap.Addr().Unmap()
	}
	return hd
}

// googleKey is where clients of Google's send their key, if not in the query.
const googleKey = "x-goog-api-key"

// takeKey takes a key out of the query, as clients of Google's may send it: nothing behind this place sees it there.
func (hd *Head) takeKey() (key string) {
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

// isGemini reports whether a path is of Google's API.
func isGemini(path string) bool { return path == "/v1beta" || strings.HasPrefix(path, "/v1beta/") }

// isModels reports whether a path is of the list of models, in the version that Google's API shares with others.
func isModels(path string) bool {
	return path == "/v1/models" || strings.HasPrefix(path, "/v1/models/")
}

// GoogleVerbs are what paths of Google's API end in, of whichever version.
var GoogleVerbs = []string{":generateContent", ":streamGenerateContent", ":countTokens"}

func hasVerb(path string) bool {
	return slices.ContainsFunc(GoogleVerbs, func(verb string) bool { return strings.HasSuffix(path, verb) })
}

// foldPath makes one path of what base URLs with and without /v1 lead to: "/v1/v1/messages", "/messages" and
// "/v1/messages/" are "/v1/messages".
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
	for _, bare := range bareRoots {
		if p == bare || strings.HasPrefix(p, bare+"/") {
			p = "/v1" + p
			break
		}
	}
	if rest, ok := strings.CutPrefix(p, "/v1/models/"); ok && hasVerb(rest) {
		return "/v1beta/models/" + rest
	}
	return p
}

// bareRoots are the endpoints that SDKs with a base URL without /v1 ask for.
var bareRoots = []string{
	"/chat/completions", "/messages", "/models", "/balance", "/cache", "/usage", "/requests", "/schemas",
	"/responses", "/conversations", "/completions", "/embeddings", "/images", "/audio", "/batches", "/files", "/moderations",
}

// Dialect is the format in which this client expects errors.
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

// FromLoopback reports whether a request came over loopback, named this machine in Host, and was not sent by a page of
// another origin: a browser can be made to reach 127.0.0.1, but not to lie here.
func (hd *Head) FromLoopback() bool {
	return hd.Peer.IsLoopback() && (&origin.Rule{}).Refuses(hd.Origin()) == ""
}

// Origin is what the request says of where it goes and where it comes from.
func (hd *Head) Origin() origin.Request {
	return origin.Request{Host: hd.Host, Origin: hd.Header.Get("origin"), Site: hd.Header.Get("sec-fetch-site")}
}

// FromThisMachine reports whether a request came over loopback and no proxy on this machine passed it on.
func (hd *Head) FromThisMachine() bool {
	return hd.FromLoopback() && !hd.Header.Has("x-forwarded-for") && !hd.Header.Has("forwarded") && !hd.Header.Has("via") && !hd.Header.Has("x-real-ip")
}

// Arg is the path's last part, behind an endpoint's path that ends in a slash.
func (hd *Head) Arg(prefix string) string { return strings.TrimPrefix(hd.Path, prefix) }

// JSON is a 200 with a JSON body; a HEAD request gets its headers alone.
func (hd *Head) JSON(body []byte) Reply {
	if hd.Method == http.MethodHead {
		body = nil
	}
	return Reply{Status: http.StatusOK, Header: header.List{{Name: "content-type", Value: header.JSON}}, Body: body}
}
