// Package affinity is the layer that sends a conversation back to where it was served before, so that what a provider, one of its keys or
// one of its endpoints keeps of its beginning is used again. It remembers for five minutes, by keyed hashes alone, a bounded number of
// beginnings. It knows nothing of health, which comes first.
//
// What is remembered stays in this process (K-92): two gateways do not agree where a conversation belongs, and each may warm a place of its
// own, also among the endpoints of one provider, since their hashes have different secrets. Whoever balances over several gateways keeps a
// conversation at one of them, by the client's key for instance.
package affinity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Name is the layer's.
const Name = "l6"

// The bounds of what is remembered.
const (
	lifetime = 5 * time.Minute
	most     = 100_000 // beginnings, of some 100 bytes each

	// shortest is the least length in bytes of a beginning that is worth remembering: providers cache nothing shorter than about
	// 1,024 tokens, and a trivial first message must not decide where what follows it goes.
	shortest = 4 << 10

	budget = time.Millisecond
	// between is how many bytes are hashed between two looks at the time. What is hashed in less than the budget by far is not looked at.
	between = 1 << 20
)

// Layer finds and remembers. Safe for concurrent use.
type Layer struct {
	Memory *Memory
	Spread func(policy.ProviderID) bool // which providers have several keys or endpoints
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Budgeted  = Layer{}
	_ pipeline.Finisher  = Layer{}
)

// Memory is what is remembered. It outlives changes of the configuration. Make one with New; safe for concurrent use.
type Memory struct {
	seed   maphash.Seed
	secret [32]byte
	warm   *lru.Cache[mark, place]
}

// mark is a beginning of one tenant's conversations with one model: what another tenant says has other marks, which nobody can work
// out without the process's secret.
type mark = [16]byte

type place struct {
	provider policy.ProviderID
	key      keyring.ID
	until    time.Time
}

// New makes a memory of nothing.
func New() *Memory {
	warm, _ := lru.New[mark, place](most) // fails for a size of nothing
	m := &Memory{seed: maphash.MakeSeed(), warm: warm}
	_, _ = rand.Read(m.secret[:]) // never fails (crypto/rand)
	return m
}

// Len is how many beginnings are remembered.
func (m *Memory) Len() int { return m.warm.Len() }

// Name is "l6".
func (Layer) Name() string { return Name }

// Budget is what looking for the conversation may take. Without it, its next turn goes where any other request would.
func (Layer) Budget() time.Duration { return budget }

// Applies says so where there is a choice: several providers, or several places at one.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	if x.Request.Op != chat.Generate || len(x.Request.Doc.Bytes) < shortest || len(x.Found) == 0 {
		return false
	}
	return len(x.Found) > 1 || l.Spread(x.Found[0].Provider)
}

// Request looks up the longest beginning that was served before.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	marks, err := l.marks(ctx, x)
	if err != nil {
		return err
	}
	x.Affinity.Marks = marks
	for _, m := range slices.Backward(marks) {
		p, ok := l.Memory.warm.Get(m)
		if !ok || time.Now().After(p.until) {
			continue
		}
		x.Affinity.Provider, x.Affinity.Key = p.provider, p.key
		break
	}
	if len(marks) > 0 {
		x.Affinity.Hash = binary.LittleEndian.Uint64(marks[0][:]) | 1 // never 0
	}
	return nil
}

// Finish remembers where a complete answer came from.
func (l Layer) Finish(x *pipeline.Exchange, by policy.ProviderID, key keyring.ID) {
	marks, p := x.Affinity.Marks, place{by, key, time.Now().Add(lifetime)}
	if n := len(marks); n > 0 {
		l.Memory.warm.Add(marks[0], p)
		if n > 1 {
			l.Memory.warm.Add(marks[n-1], p)
		}
	}
}

// A client that moves its marks for the provider's cache from message to message changes what earlier ones look like; it is known by its
// system prompt and tools alone.

// lookBack is how many messages from the end are ends of beginnings that are looked for: those that a turn with some calls of tools adds.
const lookBack = 12

// marks are the beginnings of a conversation that are worth a look, shortest first: the system prompt with the tools, and the
// conversation up to each of its last messages. A beginning that is too short has none.
func (l Layer) marks(ctx context.Context, x *pipeline.Exchange) ([]mark, error) {
	doc := &x.Request.Doc
	tenant := l.tenant(x)
	var h maphash.Hash
	h.SetSeed(l.Memory.seed)
	size := 0
	add := func(raw []byte) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(raw)))
		_, _ = h.Write(n[:]) // a hash takes everything
		_, _ = h.Write(raw)
		size += len(raw)
	}
	for _, key := range []string{"tools", "system", "systemInstruction", "instructions"} {
		add(doc.Get(key).Raw)
	}
	turns := turnsOf(doc)
	n := len(turns)
	for n > 0 && isSystem(turns[len(turns)-n]) { // OpenAI's system prompt is the first messages
		add(turns[len(turns)-n].Raw)
		n--
	}
	var out []mark
	keep := func(at uint64) {
		if size >= shortest {
			out = append(out, tenant.mark(h.Sum64(), at))
		}
	}
	keep(0)
	next := between
	for i := len(turns) - n; i < len(turns); i++ {
		if size >= next {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			next = size + between
		}
		add(turns[i].Raw)
		if i >= len(turns)-lookBack {
			keep(1)
		}
	}
	return out, nil
}

func turnsOf(doc *jsonx.Doc) []jsonx.Value {
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

// tenantKey is the secret of one tenant's marks for one model.
type tenantKey [sha256.Size]byte

func (l Layer) tenant(x *pipeline.Exchange) tenantKey {
	m := hmac.New(sha256.New, l.Memory.secret[:])
	_, _ = m.Write([]byte(x.Principal.Account))
	_, _ = m.Write([]byte{0})
	_, _ = m.Write([]byte(x.Found[0].Model))
	return tenantKey(m.Sum(nil))
}

func (k tenantKey) mark(sum, at uint64) mark {
	var b [sha256.Size + 16]byte
	copy(b[:], k[:])
	binary.LittleEndian.PutUint64(b[sha256.Size:], sum)
	binary.LittleEndian.PutUint64(b[sha256.Size+8:], at)
	full := sha256.Sum256(b[:])
	return mark(full[:16])
}
