package cache

import (
	"bytes"
	"math"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// shape describes JSON that chat's canonical form represents completely. A request with a member that is not listed is keyed by its own JSON: an unknown member
// can cause a cache miss, never a wrong hit. One of is, each, kinds and members is set.
type shape struct {
	is      func(jsonx.Value) bool // for scalars
	each    *shape                 // for the elements of an array
	members map[string]*shape      // for an object
	tag     string                 // the member whose value selects one of kinds, such as type or role
	kinds   map[string]*shape
	or      *shape // an alternative
}

// covered reports whether the canonical form represents the whole request.
func covered(r *chat.Request, doc *jsonx.Doc) bool {
	var top *shape
	switch r.Dialect {
	case chat.OpenAI:
		top = openAIRequest
	case chat.Anthropic:
		top = anthropicRequest
	case chat.Responses:
		top = responsesRequest
	default:
		return false
	}
	for i := range doc.Members {
		m := &doc.Members[i]
		if m.Kind == jsonx.Null {
			continue
		}
		if s, ok := top.members[m.Key]; !ok || !s.covers(doc.Value(i)) {
			return false
		}
	}
	switch r.Dialect { //nolint:exhaustive // the others have no ambiguous requests
	case chat.OpenAI:
		return unambiguousOpenAI(doc)
	case chat.Responses:
		return unambiguousResponses(doc)
	}
	return true
}

// unambiguousResponses reports whether no two assistant messages follow each other: the canonical form would join them.
func unambiguousResponses(doc *jsonx.Doc) bool {
	before := false
	for _, item := range doc.Get("input").Each {
		assistant := item.Get("role").Equal("assistant")
		if assistant && before {
			return false
		}
		before = assistant
	}
	return true
}

// unambiguousOpenAI reports whether a request has one token limit, and one system message at most, which is the first: the canonical form
// has room for no more.
func unambiguousOpenAI(doc *jsonx.Doc) bool {
	if doc.Find("max_tokens") >= 0 && doc.Find("max_completion_tokens") >= 0 {
		return false
	}
	for i, m := range doc.Get("messages").Each {
		if !m.Get("role").Equal("system") {
			return true
		}
		if i > 0 {
			return false
		}
	}
	return true
}

// covers reports whether a value has the shape. Null counts as absent.
func (s *shape) covers(v jsonx.Value) bool {
	if v.IsNull() {
		return true
	}
	return s.fits(v) || (s.or != nil && s.or.covers(v))
}

func (s *shape) fits(v jsonx.Value) bool {
	switch {
	case s.is != nil:
		return s.is(v)
	case s.each != nil:
		for _, e := range v.Each {
			if !s.each.covers(e) {
				return false
			}
		}
		return v.Kind() == jsonx.Array
	case s.kinds != nil:
		name, _ := v.Get(s.tag).Str()
		kind, ok := s.kinds[name]
		return ok && kind.object(v, s.tag)
	}
	return s.object(v, "")
}

// object reports whether an object has only the shape's members, each once: parsers differ in which duplicate they use.
func (s *shape) object(v jsonx.Value, tag string) bool {
	var seen [24]string
	n := 0
	for key, m := range v.Members {
		inner, ok := s.members[string(key)]
		if n == len(seen) || slices.Contains(seen[:n], string(key)) || (!ok && string(key) != tag) || (ok && !inner.covers(m)) {
			return false
		}
		seen[n] = string(key)
		n++
	}
	return v.Kind() == jsonx.Object
}

// Shapes of single values. anyValue is for members that the canonical form keeps as raw JSON.
var (
	anyValue     = &shape{is: func(v jsonx.Value) bool { return v.Exists() }}
	object       = &shape{is: func(v jsonx.Value) bool { return v.Kind() == jsonx.Object }}
	number       = &shape{is: func(v jsonx.Value) bool { return v.Kind() == jsonx.Number }}
	boolean      = &shape{is: func(v jsonx.Value) bool { return v.Kind() == jsonx.Bool }}
	text         = &shape{is: func(v jsonx.Value) bool { return v.Kind() == jsonx.String && !lossy(v) }}
	urlText      = &shape{is: isURL} // a URL, or a data: URL
	positiveInt  = &shape{is: isPositiveInt}
	gatewayHint  = anyValue // the bardo object, which is not sent to providers
	cacheControl = anyValue // a prompt-cache mark
)

// isURL accepts every URL but data: URLs that are not base64 or have further parameters, which the canonical form would lose.
func isURL(v jsonx.Value) bool {
	s, ok := v.Text(nil)
	if !ok || lossy(v) {
		return false
	}
	rest, isData := bytes.CutPrefix(s, []byte("data:"))
	if !isData {
		return true
	}
	meta, _, ok := bytes.Cut(rest, []byte(","))
	media, base64 := bytes.CutSuffix(meta, []byte(";base64"))
	return ok && base64 && bytes.IndexByte(media, ';') < 0
}

func isPositiveInt(v jsonx.Value) bool {
	n, ok := v.Int()
	return ok && n > 0 && n <= math.MaxInt32
}

// objectOf is an object with these optional members and no others.
func objectOf(members map[string]*shape) *shape { return &shape{members: members} }

// oneOf is one of these strings.
func oneOf(values ...string) *shape {
	return &shape{is: func(v jsonx.Value) bool { return slices.ContainsFunc(values, v.Equal) }}
}

func listOf(s *shape) *shape { return &shape{each: s} }

func either(a, b *shape) *shape {
	first := *a
	first.or = b
	return &first
}
