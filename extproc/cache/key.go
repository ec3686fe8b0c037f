package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Key names a question: two requests of one tenant have the same key when no provider could tell them apart by what they ask.
type Key [sha256.Size]byte

// idBytes is how much of a key its tenant is shown.
const idBytes = 8

// ID is the part of the key that its tenant sees and may name the entry by.
func (k Key) ID() string { return hex.EncodeToString(k[:idBytes]) }

// keyVersion changes whenever what goes into a key does.
const keyVersion = 4

// KeyOf is the key of a tenant's request.
//
// White space, the order of members and the spelling of numbers and escapes do not matter, and neither does whether the answer
// is streamed. A request that the canonical form says completely has the same key in every dialect. Any other is keyed by its
// own JSON, and then by its dialect and form as well: its answer may hold things that only pass from a provider of the same
// dialect to a client that wants the same form.
func KeyOf(tenant policy.Account, r *chat.Request) Key {
	buf, _ := keyBuffers.Get().(*[]byte)
	w := writer{b: (*buf)[:0]}
	w.uint(keyVersion)
	w.text(string(tenant))
	w.request(r)
	k := Key(sha256.Sum256(w.b))
	if *buf = w.b; cap(w.b) <= maxPooledBuffer {
		keyBuffers.Put(buf)
	}
	return k
}

const maxPooledBuffer = 1 << 20

var keyBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

// defaultVersion is the anthropic-version that every client sends.
const defaultVersion = "2023-06-01"

// The forms of a key.
const (
	formCanonical = 'c'
	formDocument  = 'd'
)

func (w *writer) request(r *chat.Request) {
	w.uint(uint64(r.Op))
	w.text(r.Provider)
	w.text(r.Model)
	w.profile(r.Profile)
	w.text(r.Check)
	doc := edited(r)
	w.left = mostOrdered * len(doc.Bytes)
	if c := canonical(r, &doc); c != nil {
		w.byte(formCanonical)
		w.limits(r)
		w.conversation(c)
		return
	}
	w.byte(formDocument)
	w.text(string(r.Dialect))
	w.bool(r.Stream)
	w.text(r.Version)
	w.strings(sortedSet(r.Betas))
	w.text(r.Query)
	w.document(&doc)
}

// edited is the request's document as every attempt sends it.
func edited(r *chat.Request) jsonx.Doc {
	if r.Edit.Empty() {
		return r.Doc
	}
	doc, err := jsonx.Scan(r.Edit.AppendTo(nil, &r.Doc))
	if err != nil { // edits make JSON of JSON
		return r.Doc
	}
	return doc
}

// canonical is what a request says if it says nothing else.
func canonical(r *chat.Request, doc *jsonx.Doc) *chat.Conversation {
	if len(r.Betas) > 0 || r.Query != "" || (r.Version != "" && r.Version != defaultVersion) || !covered(r, doc) {
		return nil
	}
	c, err := r.Conversation()
	if err != nil { // its provider will say what is wrong with it
		return nil
	}
	return c
}

// limits are what the dialects read in their first pass.
func (w *writer) limits(r *chat.Request) {
	w.uint(uint64(max(0, r.MaxTokens)))
	w.uint(uint64(max(0, r.Choices)))
	w.bool(r.Thinking)
}

// notAsked are the top-level members that say how to answer, not what.
var notAsked = map[string]bool{"model": true, "stream": true, "stream_options": true}

// document writes a request's own members.
func (w *writer) document(doc *jsonx.Doc) {
	members := make([]member, 0, len(doc.Members))
	for i := range doc.Members {
		if m := &doc.Members[i]; !notAsked[m.Key] && m.Kind != jsonx.Null {
			members = append(members, member{key: m.Key, value: jsonx.Value{Raw: doc.Bytes[m.Start:m.End]}})
		}
	}
	w.members(members, 1)
}

func sortedSet(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}
