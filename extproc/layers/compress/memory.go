package compress

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/clock"
)

const (
	maxConversations = 20_000
	maxSummaries     = 4_000
	maxNoteBytes     = 32 << 20 // of all summaries together
	noteLifetime     = 2 * time.Hour
)

// Memory holds the layer's state of conversations, in this process: keyed hashes of their prefixes, and the summaries that replace some. Make one with
// NewMemory. Safe for concurrent use.
type Memory struct {
	secret [32]byte

	mu            sync.Mutex
	conversations *simplelru.LRU[key, lastSent]
	notes         *simplelru.LRU[key, *note]
	bytes         int
	busy          map[key]bool // prefixes that are being summarised
}

// key is a keyed hash of a prefix of a conversation, of one account and model.
type key [16]byte

// lastSent describes the last request of a conversation.
type lastSent struct {
	horizon int       // see plan.horizon
	at      time.Time // when it was sent
	retry   int       // number of the model's answer from which a summary is tried again; 0 for any
}

// note is a summary that replaces turns of a conversation.
type note struct {
	from, to int // turns
	text     string
	used     time.Time
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	m := &Memory{busy: map[key]bool{}}
	_, _ = rand.Read(m.secret[:])                                               // never fails (crypto/rand)
	m.conversations, _ = simplelru.NewLRU[key, lastSent](maxConversations, nil) // only fails for sizes below 1
	m.notes, _ = simplelru.NewLRU(maxSummaries, m.onEvict)                      // see above
	return m
}

// onEvict subtracts a removed summary from the bytes.
func (m *Memory) onEvict(_ key, n *note) { m.bytes -= len(n.text) }

// keysOf are the keys of a conversation up to and including each of its turns. System prompts in their own member count as its beginning, wherever they are in
// the document. Cache marks are not part of the keys, since clients move them from request to request.
func (m *Memory) keysOf(x *pipeline.Exchange, t *transcript.Transcript) []key {
	h := hasher{Hash: hmac.New(sha256.New, m.secret[:])}
	h.text(string(x.Principal.Account))
	if len(x.Found) > 0 {
		h.text(string(x.Found[0].Model))
	}
	for i := range t.Turns {
		if isPrompt(t, i) {
			h.turn(t, i)
		}
	}
	out := make([]key, len(t.Turns))
	for i := range t.Turns {
		if !isPrompt(t, i) {
			h.turn(t, i)
		}
		h.buf = h.Sum(h.buf[:0])
		out[i] = key(h.buf[:len(key{})])
	}
	return out
}

// isPrompt reports whether a turn is a system prompt in its own member.
func isPrompt(t *transcript.Transcript, turn int) bool {
	return t.Turns[turn].Role == chat.RoleSystem && !t.Removable(turn)
}

// hasher hashes parts of a conversation.
type hasher struct {
	hash.Hash

	buf []byte // reused
}

// turn adds a turn's texts and calls.
func (h *hasher) turn(t *transcript.Transcript, i int) {
	turn := &t.Turns[i]
	h.text(string(turn.Role))
	for _, c := range turn.Calls {
		h.text(c.Name)
	}
	for k := turn.First; k < turn.End; k++ {
		at := &t.Texts[k]
		h.text(at.Call)
		h.buf = binary.LittleEndian.AppendUint64(append(h.buf[:0], byte(at.Kind)), uint64(len(at.Value.Raw)))
		_, _ = h.Write(h.buf)        // never fails
		_, _ = h.Write(at.Value.Raw) // the same
	}
}

// text adds a text with its length.
func (h *hasher) text(s string) {
	h.buf = append(binary.LittleEndian.AppendUint64(h.buf[:0], uint64(len(s))), s...)
	_, _ = h.Write(h.buf) // never fails
}

// maxNewTurns bounds the turns that a request may have more than the previous one.
const maxNewTurns = 64

// last is the last request that is a prefix of the conversation; ok is false if none is known.
func (m *Memory) last(keys []key) (w lastSent, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(keys) - 1; i >= max(0, len(keys)-maxNewTurns); i-- {
		if w, ok = m.conversations.Get(keys[i]); ok {
			return w, true
		}
	}
	return lastSent{}, false
}

// noteSent records the request of a conversation that is sent now.
func (m *Memory) noteSent(keys []key, w lastSent) {
	if len(keys) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w.at = clock.Now()
	m.conversations.Add(keys[len(keys)-1], w)
}

// findSummary is the summary for the longest prefix of a conversation that has one; nil for none.
func (m *Memory) findSummary(keys []key) *note {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := clock.Now()
	for _, k := range slices.Backward(keys) {
		n, ok := m.notes.Get(k)
		switch {
		case !ok:
		case now.Sub(n.used) > noteLifetime:
			m.notes.Remove(k)
		default:
			n.used = now
			found := *n
			return &found
		}
	}
	return nil
}

// addSummary stores a summary.
func (m *Memory) addSummary(k key, n note) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes.Remove(k)
	n.used = clock.Now()
	m.bytes += len(n.text)
	m.notes.Add(k, &n)
	for m.bytes > maxNoteBytes {
		m.notes.RemoveOldest()
	}
}

// beginSummary reports whether no other request is summarising these turns; if so, the caller must call endSummary.
func (m *Memory) beginSummary(k key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[k] {
		return false
	}
	m.busy[k] = true
	return true
}

func (m *Memory) endSummary(k key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.busy, k)
}
