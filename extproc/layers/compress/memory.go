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
	maxTalks     = 20_000
	maxSummaries = 4_000
	maxNoteBytes = 32 << 20 // of all summaries together
	noteLifetime = 2 * time.Hour
)

// Memory is what the layer remembers of conversations, in this process: keyed hashes of their beginnings, and the summaries that stand in place of some. Make
// one with NewMemory. Safe for concurrent use.
type Memory struct {
	secret [32]byte

	mu    sync.Mutex
	talks *simplelru.LRU[key, talk]
	notes *simplelru.LRU[key, *note]
	bytes int
	busy  map[key]bool // prefixes that are being summarised
}

// key is a keyed hash of the beginning of a conversation, of one account and model.
type key [16]byte

// talk is how a conversation was last sent.
type talk struct {
	horizon int       // see plan.horizon
	at      time.Time // when
	retry   int       // the answer of the model from which a summary is tried again; 0 for any
}

// note is a summary in the place of turns of a conversation.
type note struct {
	from, to int // turns
	text     string
	used     time.Time
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	m := &Memory{busy: map[key]bool{}}
	_, _ = rand.Read(m.secret[:])                            // never fails (crypto/rand)
	m.talks, _ = simplelru.NewLRU[key, talk](maxTalks, nil)  // only fails for sizes below 1
	m.notes, _ = simplelru.NewLRU(maxSummaries, m.forgotten) // see above
	return m
}

// forgotten notes that a summary is no longer held.
func (m *Memory) forgotten(_ key, n *note) { m.bytes -= len(n.text) }

// keysOf are the keys of a conversation up to each of its turns, that turn included. System prompts with a member of their own count as its beginning, wherever
// they stand in the document. What a client changes of its marks for the provider's cache from request to request is no part of the keys.
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
		h.room = h.Sum(h.room[:0])
		out[i] = key(h.room[:len(key{})])
	}
	return out
}

// isPrompt reports whether a turn is a system prompt with a member of its own.
func isPrompt(t *transcript.Transcript, turn int) bool {
	return t.Turns[turn].Role == chat.RoleSystem && !t.Removable(turn)
}

// hasher hashes parts of a conversation.
type hasher struct {
	hash.Hash

	room []byte // reused
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
		h.room = binary.LittleEndian.AppendUint64(append(h.room[:0], byte(at.Kind)), uint64(len(at.Value.Raw)))
		_, _ = h.Write(h.room)       // never fails
		_, _ = h.Write(at.Value.Raw) // the same
	}
}

// text adds a text with its length.
func (h *hasher) text(s string) {
	h.room = append(binary.LittleEndian.AppendUint64(h.room[:0], uint64(len(s))), s...)
	_, _ = h.Write(h.room) // never fails
}

// backTalk is how many turns a request may have more than the one before it.
const backTalk = 64

// last is how the conversation was sent in the last request that it begins with; ok is false if that is not known.
func (m *Memory) last(keys []key) (w talk, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(keys) - 1; i >= max(0, len(keys)-backTalk); i-- {
		if w, ok = m.talks.Get(keys[i]); ok {
			return w, true
		}
	}
	return talk{}, false
}

// sent notes how the conversation is sent now.
func (m *Memory) sent(keys []key, w talk) {
	if len(keys) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w.at = clock.Now()
	m.talks.Add(keys[len(keys)-1], w)
}

// find is the summary of the longest beginning of a conversation that has one; nil for none.
func (m *Memory) find(keys []key) *note {
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

// add keeps a summary.
func (m *Memory) add(k key, n note) {
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

// begin reports whether nobody else summarises these turns right now; the caller calls end.
func (m *Memory) begin(k key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[k] {
		return false
	}
	m.busy[k] = true
	return true
}

func (m *Memory) end(k key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.busy, k)
}
