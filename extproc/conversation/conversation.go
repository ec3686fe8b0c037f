// Package conversation remembers which model serves a conversation with model auto, so that later turns use the same one. A conversation is
// recognised by its earlier turns, which clients send again with each request, or by a session id. It stores a bounded number of keyed hashes
// per account, in this process only.
package conversation

import (
	"hash/maphash"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/clock"
	"bardo.money/gateway/policy"
)

const (
	maxTurns      = 100_000       // about 150 bytes each
	lifetime      = 2 * time.Hour // since the last turn
	cacheLifetime = 5 * time.Minute
	maxLookups    = 8 // earlier user messages by which a conversation is looked up
)

// Memory maps turns to models. Make one with New; nil is always empty. Safe for concurrent use.
type Memory struct {
	seed    maphash.Seed
	entries *lru.Cache[uint64, entry]
}

type entry struct {
	at    time.Time
	where policy.ServedBy
}

// New returns an empty memory.
func New() *Memory {
	places, _ := lru.New[uint64, entry](maxTurns) // only fails for sizes below 1
	return &Memory{seed: maphash.MakeSeed(), entries: places}
}

// Turn identifies one request of a conversation. The zero value belongs to no conversation.
type Turn struct {
	earlier [maxLookups]uint64 // hashes of the prefixes up to earlier user messages, latest first; 0 means none
	own     uint64             // hash of the whole conversation
	session uint64
}

// Turn computes a request's identity. model is the requested name (auto or a preset), session the session id or "".
func (m *Memory) Turn(account policy.Account, model, session string, c *chat.Conversation) (t Turn) {
	if m == nil || c == nil {
		return t
	}
	var h maphash.Hash
	h.SetSeed(m.seed)
	write := func(s string) {
		_, _ = h.WriteString(s) // never fails
		_ = h.WriteByte(0)
	}
	write(string(account))
	write(model)
	if session != "" {
		s := h
		_, _ = s.WriteString("session ")
		_, _ = s.WriteString(session)
		t.session = s.Sum64() | 1
	}
	hashParts(c.System, write)
	for i := range c.Messages {
		write(string(c.Messages[i].Role))
		hashParts(c.Messages[i].Parts, write)
		if c.Messages[i].Role != chat.RoleUser {
			continue
		}
		copy(t.earlier[1:], t.earlier[:])
		t.earlier[0], t.own = t.own, h.Sum64()|1
	}
	return t
}

// hashParts writes the content of a message, without cache_control and other members that clients change from turn to turn.
func hashParts(list []chat.Part, write func(string)) {
	for i := range list {
		p := &list[i]
		write(p.Text)
		write(p.Tool.ID)
		write(p.Tool.Name)
		write(p.Tool.Args)
		write(p.URL)
		write(p.File)
		write(p.Data)
		hashParts(p.Parts, write)
	}
}

// Find returns where the conversation was served, the zero value if unknown. Tokens is zero once the provider's prompt cache has expired.
func (m *Memory) Find(t *Turn) policy.ServedBy {
	if m == nil {
		return policy.ServedBy{}
	}
	for _, mark := range append(t.earlier[:], t.session) {
		if mark == 0 {
			continue
		}
		p, ok := m.entries.Get(mark)
		if !ok {
			continue
		}
		switch age := clock.Since(p.at); {
		case age > lifetime:
			continue
		case age > cacheLifetime:
			p.where.Tokens = 0
		}
		return p.where
	}
	return policy.ServedBy{}
}

// Record stores where a turn was served.
func (m *Memory) Record(t *Turn, where policy.ServedBy) {
	if m == nil || t.own == 0 {
		return
	}
	p := entry{clock.Now(), where}
	m.entries.Add(t.own, p)
	if t.session != 0 {
		m.entries.Add(t.session, p)
	}
}

// Len returns the number of stored turns.
func (m *Memory) Len() int { return m.entries.Len() }
