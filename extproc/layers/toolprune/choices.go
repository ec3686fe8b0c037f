package toolprune

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/clock"
)

const (
	maxChoices = 20_000
	lifetime   = 2 * time.Hour // since a conversation's last request

	maxAgents     = 4_000
	agentLifetime = 24 * time.Hour // since an agent's last tick
)

// Choices stores the tools that conversations keep, in this process. Make one with NewChoices. Safe for concurrent use.
type Choices struct {
	secret [32]byte
	kept   *lru.Cache[[16]byte, choice]
	sent   *lru.Cache[[16]byte, time.Time] // when a list of tools was last received, and when a pruned one was last sent

	mu     sync.Mutex // makes reading and writing an agent atomic
	agents *lru.Cache[[16]byte, ticks]
}

// ticks describes the ticks of an agent.
type ticks struct {
	kind  string // of the last one
	mixed bool   // there were several kinds
	until time.Time
}

// cacheLifetime is the lifetime of unused entries of providers' prompt caches.
const cacheLifetime = 5 * time.Minute

type choice struct {
	names []string // sorted
	until time.Time
}

func (c *choice) has(name string) bool {
	_, ok := slices.BinarySearch(c.names, name)
	return ok
}

// NewChoices returns an empty memory.
func NewChoices() *Choices {
	kept, _ := lru.New[[16]byte, choice](maxChoices) // only fails for sizes below 1
	agents, _ := lru.New[[16]byte, ticks](maxAgents)
	sent, _ := lru.New[[16]byte, time.Time](maxChoices)
	c := &Choices{kept: kept, agents: agents, sent: sent}
	_, _ = rand.Read(c.secret[:]) // never fails (crypto/rand)
	return c
}

// breaksCache reports whether the choice causes a miss in the provider's prompt cache: an earlier request had the same whole list, and none this part of it.
func (c *Choices) breaksCache(x *pipeline.Exchange, t *transcript.Transcript, keep []bool) bool {
	k := key{[]string{string(x.Principal.Account), x.Request.Model}}
	for i := range t.Tools {
		k.parts = append(k.parts, t.Tools[i].Name)
	}
	whole := c.sentRecently(k)
	k.parts = append(k.parts, "")
	k.parts = append(k.parts, names(t, keep)...)
	return !c.sentRecently(k) && whole
}

// sentRecently reports whether a list of tools was sent within cacheLifetime, and records that it is sent now.
func (c *Choices) sentRecently(k key) bool {
	sum, now := c.sum(k), clock.Now()
	at, ok := c.sent.Get(sum)
	c.sent.Add(sum, now)
	return ok && now.Sub(at) < cacheLifetime
}

// key identifies a conversation of an account with one set of tools.
type key struct {
	parts []string
}

// tickPart is the index of the tick's kind in the parts of a key.
const tickPart = 1

// keyOf identifies the conversation: by its session, or by its system prompt and first user message.
func keyOf(x *pipeline.Exchange, t *transcript.Transcript) key {
	k := key{[]string{string(x.Principal.Account), x.Hints.TickType, x.Hints.SessionID}}
	if x.Hints.SessionID == "" {
		k.parts = append(k.parts, opening(t)...)
	}
	return k.with(t)
}

// with is the key with the names of the request's tools.
func (k key) with(t *transcript.Transcript) key {
	tools := make([]string, len(t.Tools))
	for i := range t.Tools {
		tools[i] = t.Tools[i].Name
	}
	slices.Sort(tools)
	k.parts = append(k.parts, tools...)
	return k
}

// agentOf identifies the agent whose tick a request is, at a model and with one set of tools.
func agentOf(x *pipeline.Exchange, t *transcript.Transcript) key {
	k := key{[]string{"agent", string(x.Principal.Account), x.Hints.GolemID, string(x.Found[0].Provider), string(x.Found[0].Model)}}
	return k.with(t)
}

// opening is the system texts up to the first text of the user, and that text.
func opening(t *transcript.Transcript) (out []string) {
	for i := range t.Texts {
		switch at := &t.Texts[i]; {
		case at.Turn < 0:
		case at.Kind == transcript.User:
			return append(out, t.String(i))
		case at.Kind == transcript.System:
			out = append(out, t.String(i))
		}
	}
	return out
}

func (c *Choices) sum(k key) [16]byte {
	m := hmac.New(sha256.New, c.secret[:])
	for _, p := range k.parts {
		writeText(m, p)
	}
	return [16]byte(m.Sum(nil)[:16])
}

func writeText(m hash.Hash, s string) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
	_, _ = m.Write(n[:]) // never fails
	_, _ = m.Write([]byte(s))
}

// find returns the tools that a conversation keeps.
func (c *Choices) find(k key) (*choice, bool) {
	sum := c.sum(k)
	kept, ok := c.kept.Get(sum)
	if !ok || clock.Now().After(kept.until) {
		return nil, false
	}
	kept.until = clock.Now().Add(lifetime)
	c.kept.Add(sum, kept)
	return &kept, true
}

func (c *Choices) store(k key, names []string) {
	slices.Sort(names)
	c.kept.Add(c.sum(k), choice{names, clock.Now().Add(lifetime)})
}

// hasMixedTicks records an agent's tick, and reports whether its ticks are of several kinds.
func (c *Choices) hasMixedTicks(agent key, kind string) bool {
	sum := c.sum(agent)
	c.mu.Lock()
	defer c.mu.Unlock()
	previous, ok := c.agents.Get(sum)
	now := clock.Now()
	ok = ok && now.Before(previous.until)
	current := ticks{kind, ok && (previous.mixed || previous.kind != kind), now.Add(agentLifetime)}
	c.agents.Add(sum, current)
	return current.mixed
}

// matches reports whether a tool's name, in lower case and without slashes, fits a pattern. Most patterns are a word between two stars.
func matches(pattern, name string) bool {
	if word, ok := strings.CutPrefix(pattern, "*"); ok {
		if word, ok = strings.CutSuffix(word, "*"); ok && !strings.ContainsAny(word, `*?[\`) {
			return strings.Contains(name, word)
		}
	}
	ok, _ := path.Match(pattern, name)
	return ok
}
