// Package conversation remembers which model serves a conversation whose model is left to the gateway, so that its later turns stay there.
// A conversation is known by what it begins with, which clients send again with each turn, or by the session that its caller names. What is
// remembered are keyed hashes per account, a bounded number of them, in this process only.
package conversation

import (
	"hash/maphash"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

const (
	most     = 100_000       // turns that are remembered, of some 150 bytes each
	lifetime = 2 * time.Hour // since the last turn
	warm     = 5 * time.Minute
	lookBack = 8 // earlier turns of the user that are looked for
)

// Memory is what is remembered. Make one with New; a nil one remembers nothing. Safe for concurrent use.
type Memory struct {
	seed   maphash.Seed
	places *lru.Cache[uint64, place]
}

type place struct {
	at    time.Time
	where policy.Kept
}

// New makes a memory of nothing.
func New() *Memory {
	places, _ := lru.New[uint64, place](most) // fails for a size of nothing
	return &Memory{seed: maphash.MakeSeed(), places: places}
}

// Turn is one request of a conversation: its own mark, and those by which it is found. The zero value is of no conversation.
type Turn struct {
	marks   [lookBack]uint64 // of the beginnings up to the user's earlier turns, the latest first; 0: none
	own     uint64           // of the whole
	session uint64
}

// Turn is how a request is known. model is the name by which its caller leaves the model to the gateway, session its session or "".
func (m *Memory) Turn(account policy.Account, model, session string, c *chat.Conversation) (t Turn) {
	if m == nil || c == nil {
		return t
	}
	var h maphash.Hash
	h.SetSeed(m.seed)
	write := func(s string) {
		_, _ = h.WriteString(s) // a hash takes everything
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
	parts(c.System, write)
	for i := range c.Messages {
		write(string(c.Messages[i].Role))
		parts(c.Messages[i].Parts, write)
		if c.Messages[i].Role != chat.RoleUser {
			continue
		}
		copy(t.marks[1:], t.marks[:])
		t.marks[0], t.own = t.own, h.Sum64()|1
	}
	return t
}

// parts writes what identifies the content of a message, without what clients change from turn to turn.
func parts(list []chat.Part, write func(string)) {
	for i := range list {
		p := &list[i]
		write(p.Text)
		write(p.Tool.ID)
		write(p.Tool.Name)
		write(p.Tool.Args)
		write(p.URL)
		write(p.File)
		write(p.Data)
		parts(p.Parts, write)
	}
}

// Find is where the conversation was served, the zero value if that is not known. Its tokens count as long as a provider's cache may hold
// them.
func (m *Memory) Find(t *Turn) policy.Kept {
	if m == nil {
		return policy.Kept{}
	}
	for _, mark := range append(t.marks[:], t.session) {
		p, ok := m.places.Get(mark)
		switch age := time.Since(p.at); {
		case mark == 0 || !ok || age > lifetime:
			continue
		case age > warm:
			p.where.Tokens = 0
		}
		return p.where
	}
	return policy.Kept{}
}

// Keep remembers where a turn was served.
func (m *Memory) Keep(t *Turn, where policy.Kept) {
	if m == nil || t.own == 0 {
		return
	}
	p := place{time.Now(), where}
	m.places.Add(t.own, p)
	if t.session != 0 {
		m.places.Add(t.session, p)
	}
}

// Len is how many turns are remembered.
func (m *Memory) Len() int { return m.places.Len() }
