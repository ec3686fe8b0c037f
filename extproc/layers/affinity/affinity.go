// Package affinity is layer L6: it prefers the provider, key and endpoint that served a conversation before, because their prompt cache has the
// conversation's prefix. It stores keyed hashes of a bounded number of prefixes for five minutes. Health has priority over it.
//
// The memory is local to the process (K-92), unless gateways share a store (Shared): without one, its hashes are keyed with a secret of the process, and
// several gateways may prefer different providers and endpoints for one conversation. A load balancer in front of several gateways should then route a
// conversation to one of them, for instance by the client's key.
package affinity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/clock"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Name is the layer's name.
const Name = "l6"

// Limits of the memory.
const (
	lifetime    = 5 * time.Minute
	maxPrefixes = 100_000 // prefixes, about 100 bytes each

	// minPrefix is the shortest prefix in bytes that is stored: providers cache no prefixes below about 1,024 tokens, and a short first
	// message must not decide where the conversation goes.
	minPrefix = 4 << 10

	budget = time.Millisecond
	// deadlineInterval is how many bytes are hashed between checks of the deadline; fewer take far less time than the budget.
	deadlineInterval = 1 << 20
)

// Layer is the affinity layer. Safe for concurrent use.
type Layer struct {
	Memory *Memory
	Spread func(policy.ProviderID) bool // reports whether a provider has several keys or endpoints
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Budgeted  = Layer{}
	_ pipeline.Waiting   = Layer{}
	_ pipeline.Finisher  = Layer{}
)

// Shared is a store of where conversations were served, which several gateways share. Safe for concurrent use.
type Shared interface {
	// Secret is the same for all gateways that share the store.
	Secret() []byte
	// Limit is the time limit of Served.
	Limit() time.Duration
	// Served returns the value that SetServed stored for each prefix, nil for an unknown one. An error means that the store did not answer in time.
	Served(ctx context.Context, prefixes [][16]byte) ([][]byte, error)
	// SetServed asynchronously stores a value for a lifetime. It does not block.
	SetServed(prefix [16]byte, value []byte, life time.Duration)
}

// Memory holds the known prefixes across changes of the configuration. Make one with New; safe for concurrent use.
type Memory struct {
	seed   uint64
	secret [32]byte
	places *lru.Cache[prefixHash, place]
	shared Shared // nil: the memory is not shared
}

// prefixHash identifies a prefix of a tenant's conversation with one model. It is keyed with a secret of the process, or of the gateways that share a store, so
// that tenants cannot compute or share hashes.
type prefixHash = [16]byte

type place struct {
	provider policy.ProviderID
	key      keyring.ID
	until    time.Time
}

// New returns an empty memory, with a store that several gateways share, or nil.
func New(shared Shared) *Memory {
	places, _ := lru.New[prefixHash, place](maxPrefixes) // only fails for sizes below 1
	m := &Memory{places: places, shared: shared}
	if shared == nil {
		_, _ = rand.Read(m.secret[:]) // never fails (crypto/rand)
	} else {
		m.secret = sha256.Sum256(shared.Secret())
	}
	seed := sha256.Sum256(m.secret[:])
	m.seed = binary.LittleEndian.Uint64(seed[:])
	return m
}

// find returns the place of the longest known prefix. The shared store has priority: another gateway may have served the conversation since.
func (m *Memory) find(ctx context.Context, prefixes []prefixHash) (place, bool) {
	if m.shared != nil && len(prefixes) > 0 {
		if values, err := m.shared.Served(ctx, prefixes); err == nil {
			for _, v := range slices.Backward(values) {
				if provider, key, ok := strings.Cut(string(v), "\x00"); ok {
					return place{provider: policy.ProviderID(provider), key: keyring.ID(key)}, true
				}
			}
		}
	}
	for _, p := range slices.Backward(prefixes) {
		if at, ok := m.places.Get(p); ok && !clock.Now().After(at.until) {
			return at, true
		}
	}
	return place{}, false
}

// store records where a conversation was served.
func (m *Memory) store(prefix prefixHash, at place) {
	m.places.Add(prefix, at)
	if m.shared != nil {
		m.shared.SetServed(prefix, []byte(string(at.provider)+"\x00"+string(at.key)), lifetime)
	}
}

// Len is the number of stored prefixes.
func (m *Memory) Len() int { return m.places.Len() }

// Name is "l6".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles implements pipeline.Layer.
func (Layer) Profiles() []string { return profiles }

// Budget is the time limit of the lookup, after which the request is routed without affinity.
func (l Layer) Budget() time.Duration {
	if l.Memory.shared != nil {
		return budget + l.Memory.shared.Limit()
	}
	return budget
}

// Waits reports whether the request may wait for a store that gateways share.
func (l Layer) Waits(x *pipeline.Exchange) bool { return l.Memory.shared != nil && l.Applies(x) }

// Applies reports whether there is a choice: several providers, or several keys or endpoints at one.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	if x.Request.Op != chat.Generate || len(x.Request.Doc.Bytes) < minPrefix || len(x.Found) == 0 || x.ForSealed() {
		return false
	}
	return len(x.Found) > 1 || l.Spread(x.Found[0].Provider)
}

// state is the layer's state for an exchange: the hashes of its conversation's prefixes, shortest first.
type state struct{ prefixes []prefixHash }

var slot = pipeline.NewSlot[state]()

// Request looks up the longest known prefix.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	prefixes, err := l.prefixes(ctx, x)
	if err != nil {
		return err
	}
	slot.Of(x).prefixes = prefixes
	if p, ok := l.Memory.find(ctx, prefixes); ok {
		x.Affinity.Provider, x.Affinity.Key = p.provider, p.key
	}
	if len(prefixes) > 0 {
		x.Affinity.Hash = binary.LittleEndian.Uint64(prefixes[0][:]) | 1 // never 0
	}
	return nil
}

// Finish stores the provider and key of a complete answer, for the shortest and the longest prefix.
func (l Layer) Finish(x *pipeline.Exchange, by policy.ProviderID, key keyring.ID) {
	s, p := slot.In(x), place{by, key, clock.Now().Add(lifetime)}
	if s == nil {
		return
	}
	prefixes := s.prefixes
	if n := len(prefixes); n > 0 {
		l.Memory.store(prefixes[0], p)
		if n > 1 {
			l.Memory.store(prefixes[n-1], p)
		}
	}
}

// A client that moves its cache_control marks from message to message changes the bytes of earlier messages: such a conversation is only
// recognised by its system prompt and tools.

// lastMessages is the number of the last messages at which prefixes end that are looked up: as many as a turn with some tool calls adds.
const lastMessages = 12

// prefixes are the hashes of a conversation's prefixes, shortest first: tools and system prompt, and the conversation up to each of its last
// messages. Prefixes shorter than minPrefix are left out.
func (l Layer) prefixes(ctx context.Context, x *pipeline.Exchange) ([]prefixHash, error) {
	doc := &x.Request.Doc
	tenant := l.tenant(x)
	h := xxhash.NewWithSeed(l.Memory.seed)
	size := 0
	add := func(raw []byte) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(raw)))
		_, _ = h.Write(n[:]) // never fails
		_, _ = h.Write(raw)
		size += len(raw)
	}
	for _, key := range []string{"tools", "system", "systemInstruction", "instructions"} {
		add(doc.Get(key).Raw)
	}
	turns := messagesOf(doc)
	n := len(turns)
	for n > 0 && isSystem(turns[len(turns)-n]) { // in OpenAI's format the first messages are the system prompt
		add(turns[len(turns)-n].Raw)
		n--
	}
	var out []prefixHash
	addHash := func(at uint64) {
		if size >= minPrefix {
			out = append(out, tenant.hash(h.Sum64(), at))
		}
	}
	addHash(0)
	next := deadlineInterval
	for i := len(turns) - n; i < len(turns); i++ {
		if size >= next {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			next = size + deadlineInterval
		}
		add(turns[i].Raw)
		if i >= len(turns)-lastMessages {
			addHash(1)
		}
	}
	return out, nil
}

func messagesOf(doc *jsonx.Doc) []jsonx.Value {
	for _, key := range []string{"messages", "contents", "input"} {
		var out []jsonx.Value
		for _, v := range doc.Get(key).Each {
			out = append(out, v)
		}
		if out != nil {
			return out
		}
	}
	return nil
}

func isSystem(v jsonx.Value) bool {
	role := v.Get("role")
	return role.Equal("system") || role.Equal("developer")
}

// tenantKey is the secret of one tenant's hashes for one model.
type tenantKey [sha256.Size]byte

func (l Layer) tenant(x *pipeline.Exchange) tenantKey {
	m := hmac.New(sha256.New, l.Memory.secret[:])
	_, _ = m.Write([]byte(x.Principal.Account))
	_, _ = m.Write([]byte{0})
	_, _ = m.Write([]byte(x.Found[0].Model))
	return tenantKey(m.Sum(nil))
}

func (k tenantKey) hash(sum, at uint64) prefixHash {
	var b [sha256.Size + 16]byte
	copy(b[:], k[:])
	binary.LittleEndian.PutUint64(b[sha256.Size:], sum)
	binary.LittleEndian.PutUint64(b[sha256.Size+8:], at)
	full := sha256.Sum256(b[:])
	return prefixHash(full[:16])
}
