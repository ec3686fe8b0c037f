package cache

import (
	"bytes"
	"math"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// shape is JSON of which the canonical form says everything. What is not listed here counts as unsaid, so that a member that nobody
// thought of makes two keys of one question, never one key of two.
type shape struct {
	is      func(jsonx.Value) bool // a test of values without structure
	each    *shape                 // of an array
	members map[string]*shape      // of an object
	tag     string                 // the member that decides which kind of object it is
	kinds   map[string]*shape
	or      *shape // the other way to write it
}

// covered reports whether the canonical form says all that a request asks.
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
		if s, ok := top.members[m.Key]; !ok || !s.covers(jsonx.Value{Raw: doc.Bytes[m.Start:m.End]}) {
			return false
		}
	}
	switch r.Dialect { //nolint:exhaustive // the others say nothing twice
	case chat.OpenAI:
		return plainOpenAI(doc)
	case chat.Responses:
		return plainResponses(doc)
	}
	return true
}

// plainResponses reports whether a request says a turn of the assistant's in one message: the canonical form joins several.
func plainResponses(doc *jsonx.Doc) bool {
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

// plainOpenAI reports whether a request says nothing twice: the canonical form keeps one limit, and one system prompt.
func plainOpenAI(doc *jsonx.Doc) bool {
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

// covers reports whether a value has the shape. Null is the same as nothing.
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

// object reports whether an object has only the shape's members, each once: of two, a provider may read the other one.
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

// Values without structure. Whole ones go into the canonical form as they are.
var (
	whole   = &shape{is: func(v jsonx.Value) bool { return v.Exists() }}
	object  = &shape{is: func(v jsonx.Value) bool { return v.Kind() == jsonx.Object }}
	number  = &shape{is: func(v jsonx.Value) bool { return v.Kind() == jsonx.Number }}
	truth   = &shape{is: func(v jsonx.Value) bool { return v.Kind() == jsonx.Bool }}
	text    = &shape{is: func(v jsonx.Value) bool { return v.Kind() == jsonx.String && !lossy(v) }}
	located = &shape{is: isLocation} // a URL, or data in one
	tokens  = &shape{is: isCount}
	hint    = whole // a word to the gateway, which no provider sees
	mark    = whole // of a provider's prompt cache
)

// isLocation reports whether a URL survives being taken apart: one of data has a media type and says that it is base64, no more.
func isLocation(v jsonx.Value) bool {
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

func isCount(v jsonx.Value) bool {
	n, ok := v.Int()
	return ok && n > 0 && n <= math.MaxInt32
}

// of is an object of these members, given in pairs of name and shape.
func of(members map[string]*shape) *shape { return &shape{members: members} }

// word is one of a few strings.
func word(known ...string) *shape {
	return &shape{is: func(v jsonx.Value) bool { return slices.ContainsFunc(known, v.Equal) }}
}

func listOf(s *shape) *shape { return &shape{each: s} }

func either(a, b *shape) *shape {
	first := *a
	first.or = b
	return &first
}
