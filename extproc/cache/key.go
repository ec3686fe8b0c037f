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

// Key identifies a request: two requests of a tenant have the same key if a provider would see no difference in content.
type Key [sha256.Size]byte

// idBytes is the length of the public part of a key.
const idBytes = 8

// ID is the public prefix of the key in hex, by which clients refer to an entry.
func (k Key) ID() string { return hex.EncodeToString(k[:idBytes]) }

// keyVersion must be incremented whenever the input of the hash changes.
const keyVersion = 4

// KeyOf is the key of a tenant's request.
//
// White space, the order of members, the notation of numbers and escapes, and streaming do not change the key. A request that chat's
// canonical form represents completely has the same key in every dialect. Any other request is keyed by its own JSON, its dialect and
// whether it streams, because its answer may have members that only clients of that dialect and format can get.
func KeyOf(tenant policy.Account, r *chat.Request) Key {
	return hashed(tenant, func(w *writer) { w.request(r) })
}

// hashed is the hash of a tenant and of the output of write.
func hashed(tenant policy.Account, write func(*writer)) Key {
	buf, _ := keyBuffers.Get().(*[]byte)
	w := writer{b: (*buf)[:0]}
	w.uint(keyVersion)
	w.text(string(tenant))
	write(&w)
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

// What a key is computed from: the canonical conversation, the same without its last message, or the request's own document.
const (
	keyedCanonical = 'c'
	keyedTurn      = 't'
	keyedDocument  = 'd'
)

// head writes the properties of the request outside of the conversation.
func (w *writer) head(r *chat.Request) {
	w.uint(uint64(r.Op))
	w.text(r.Provider)
	w.text(r.Model)
	w.profile(r.Profile)
	w.text(r.Check)
}

func (w *writer) request(r *chat.Request) {
	w.head(r)
	doc := editedDoc(r)
	w.sortBudget = maxSortPasses * len(doc.Bytes)
	if c := canonical(r, &doc); c != nil {
		w.byte(keyedCanonical)
		w.limits(r)
		w.conversation(c)
		return
	}
	w.byte(keyedDocument)
	w.text(string(r.Dialect))
	w.bool(r.Stream)
	w.text(r.Version)
	w.strings(sortedSet(r.Betas))
	w.text(r.Query)
	w.document(&doc)
}

// editedDoc is the request's document with the gateway's edits applied.
func editedDoc(r *chat.Request) jsonx.Doc {
	if r.Edit.Empty() {
		return r.Doc
	}
	doc, err := jsonx.Scan(r.Edit.AppendTo(nil, &r.Doc))
	if err != nil { // cannot happen: edits keep a document valid
		return r.Doc
	}
	return doc
}

// canonical is the conversation of a request that it represents completely, nil for all others.
func canonical(r *chat.Request, doc *jsonx.Doc) *chat.Conversation {
	if len(r.Betas) > 0 || r.Query != "" || (r.Version != "" && r.Version != defaultVersion) || !covered(r, doc) {
		return nil
	}
	c, err := r.Conversation()
	if err != nil { // an invalid request: the provider reports the error
		return nil
	}
	return c
}

// limits writes the fields that dialects parse before the conversation.
func (w *writer) limits(r *chat.Request) {
	w.uint(uint64(max(0, r.MaxTokens)))
	w.uint(uint64(max(0, r.Choices)))
	w.bool(r.Thinking)
}

// ignoredMembers are the top-level members that are not part of a document's key: the model is written separately.
var ignoredMembers = map[string]bool{"model": true, "stream": true, "stream_options": true}

// document writes the top-level members of a request, without null ones.
func (w *writer) document(doc *jsonx.Doc) {
	members := make([]member, 0, len(doc.Members))
	for i := range doc.Members {
		if m := &doc.Members[i]; !ignoredMembers[m.Key] && m.Kind != jsonx.Null {
			members = append(members, member{key: m.Key, value: doc.Value(i)})
		}
	}
	w.members(members, 1)
}

func sortedSet(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}
