// Package promptcache plays a provider's cache of prompts: it says how many tokens of a request were read from the cache and written to it.
package promptcache

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"sync"

	"bardo.money/gateway/internal/rawjson"
)

// Cache is a provider's cache of the beginnings of prompts. It counts four bytes of JSON as a token. Safe for concurrent use.
type Cache struct {
	least  int  // tokens of the shortest beginning that is stored
	marked bool // as Anthropic's, which stores the beginnings that a request marks; else as OpenAI's, which stores all

	mu     sync.Mutex
	known  map[[sha256.Size]byte]bool // marked: beginnings that ended at a mark
	before [][]byte                   // else: every prompt
}

// New returns an empty cache that stores beginnings of at least so many tokens. marked is whether a request marks them, as in Anthropic's Messages.
func New(least int, marked bool) *Cache {
	return &Cache{least: least, marked: marked, known: map[[sha256.Size]byte]bool{}}
}

// Usage is a request's input in tokens. Input is what was neither read nor written.
type Usage struct{ Input, Cached, Write5m, Write1h int }

// segment is one block of a prompt.
type segment struct {
	text []byte
	ttl  string // of the mark behind it; "": none
}

// prompt is what a request has a model read, in the order in which the provider caches it.
func (c *Cache) prompt(o rawjson.Object) (head string, segments []segment) {
	if c.marked {
		return anthropicPrompt(o)
	}
	for _, key := range []string{"tools", "instructions", "messages", "input"} {
		for _, raw := range elements(o[key]) {
			segments = append(segments, segment{text: compacted(raw)})
		}
	}
	return o.Str("model"), segments
}

// anthropicPrompt is the tools, the system prompt and the messages. What a request says of thinking and of the choice of a tool
// stands before its messages: another value of either makes other messages of them.
func anthropicPrompt(o rawjson.Object) (head string, segments []segment) {
	add := func(role string, raw json.RawMessage) {
		for _, block := range elements(raw) {
			segments = append(segments, blockOf(role, block))
		}
	}
	add("tools", o["tools"])
	add("system", o["system"])
	segments = append(segments, segment{text: append(compacted(o["thinking"]), compacted(o["tool_choice"])...)})
	for _, m := range o.List("messages") {
		add(m.Str("role"), m["content"])
	}
	if o.Has("cache_control") { // the API marks the last block itself
		segments[len(segments)-1].ttl = cmp.Or(o.Object("cache_control").Str("ttl"), "5m")
	}
	return o.Str("model"), segments
}

// blockOf is a block without its mark; a text alone is a block of text.
func blockOf(role string, raw json.RawMessage) segment {
	b, err := rawjson.Parse(raw)
	if err != nil {
		b = rawjson.Object{"type": json.RawMessage(`"text"`), "text": raw}
	}
	s := segment{}
	if b.Has("cache_control") {
		s.ttl = cmp.Or(b.Object("cache_control").Str("ttl"), "5m")
	}
	delete(b, "cache_control")
	text, _ := json.Marshal(b) // of what was parsed
	s.text = append([]byte(role), text...)
	return s
}

// elements are those of an array, else the value itself; none where there is none.
func elements(raw json.RawMessage) (list []json.RawMessage) {
	if len(raw) == 0 || json.Unmarshal(raw, &list) == nil {
		return list
	}
	return []json.RawMessage{raw}
}

func compacted(raw json.RawMessage) []byte {
	var b bytes.Buffer
	_ = json.Compact(&b, raw) // of what was parsed
	return b.Bytes()
}

// Serve returns the usage of a request's input, and stores its beginnings for those that follow.
func (c *Cache) Serve(body []byte) Usage {
	o, _ := rawjson.Parse(body) // it was checked
	head, segments := c.prompt(o)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.marked {
		return c.atMarks(head, segments)
	}
	return c.automatic(head, segments)
}

// lookBack is how many blocks before a mark Anthropic looks for what it knows.
const lookBack = 20

// atMarks is Anthropic's: it keeps what ends at a mark, and finds it again up to lookBack blocks before a later one.
func (c *Cache) atMarks(head string, segments []segment) (u Usage) {
	sums := make([][sha256.Size]byte, len(segments))
	ends := make([]int, len(segments))
	sum, size := sha256.Sum256([]byte(head)), 0
	for i, s := range segments {
		sum = sha256.Sum256(append(sum[:], s.text...))
		size += len(s.text)
		sums[i], ends[i] = sum, size/4
	}
	for i, s := range segments {
		for j := i; s.ttl != "" && j >= 0 && j > i-lookBack; j-- {
			if c.known[sums[j]] {
				u.Cached = max(u.Cached, ends[j])
				break
			}
		}
	}
	last := u.Cached
	for i, s := range segments {
		if s.ttl == "" || ends[i] < c.least {
			continue
		}
		c.known[sums[i]] = true
		if added := ends[i] - last; added > 0 {
			last = ends[i]
			if s.ttl == "1h" {
				u.Write1h += added
			} else {
				u.Write5m += added
			}
		}
	}
	u.Input = size/4 - last
	return u
}

// OpenAI caches by itself from 1,024 tokens on, in steps of 128.
const cacheStep = 128

// automatic is OpenAI's: the longest beginning that any request before had, too.
func (c *Cache) automatic(head string, segments []segment) (u Usage) {
	text := []byte(head)
	for _, s := range segments {
		text = append(text, s.text...)
	}
	for _, b := range c.before {
		n := 0
		for n < min(len(b), len(text)) && b[n] == text[n] {
			n++
		}
		u.Cached = max(u.Cached, n/4/cacheStep*cacheStep)
	}
	if u.Cached < c.least {
		u.Cached = 0
	}
	c.before = append(c.before, text)
	u.Input = len(text)/4 - u.Cached
	return u
}
