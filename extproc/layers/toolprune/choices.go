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
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/clock"
)

const (
	maxChoices = 20_000
	lifetime   = 2 * time.Hour // since a conversation's last request
)

// Choices remembers the tools that conversations keep, in this process. Make one with NewChoices. Safe for concurrent use.
type Choices struct {
	secret [32]byte
	kept   *lru.Cache[[16]byte, choice]
}

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
	c := &Choices{kept: kept}
	_, _ = rand.Read(c.secret[:]) // never fails (crypto/rand)
	return c
}

// key identifies a conversation of an account with one set of tools.
type key struct {
	parts []string
}

// keyOf identifies the conversation: by its session, or by its system prompt and first user message.
func keyOf(x *pipeline.Exchange, t *transcript.Transcript) key {
	k := key{[]string{string(x.Principal.Account), x.Hints.TickType, x.Hints.SessionID}}
	if x.Hints.SessionID == "" {
		k.parts = append(k.parts, opening(t)...)
	}
	var tools []string
	for i := range t.Tools {
		tools = append(tools, t.Tools[i].Name)
	}
	slices.Sort(tools)
	k.parts = append(k.parts, tools...)
	return k
}

// opening is the texts up to the first one of the user's.
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

// find returns what a conversation keeps.
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

// matches reports whether a tool's name fits a pattern, in lower case. A name may have slashes.
func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, strings.ReplaceAll(strings.ToLower(name), "/", "."))
	return ok
}
