package align

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/jsonx"
)

const (
	maxStreams       = 2048
	maxVariants      = 4 // of a stream's prompt: agents without an id share a stream
	maxConversations = 20_000
	lifetime         = 5 * time.Minute // of a provider's cache entry after it was last read
)

// Memory holds the layer's state of requests, in this process: hashes of the parts of system prompts, and of prefixes of conversations. Make one with NewMemory.
// Safe for concurrent use.
type Memory struct {
	secret [32]byte

	mu            sync.Mutex
	streams       *simplelru.LRU[streamKey, *stream]
	conversations *simplelru.LRU[streamKey, conversation]
}

// streamKey is a keyed hash of the common properties of a stream of requests: account, model, and subsystem or beginning of the prompt.
type streamKey [16]byte

// stream is the state of the requests with one key.
type stream struct {
	last            time.Time
	lateRequests    int        // requests in a row that came after the cache entry of the previous one had expired
	variants        []*variant // of the system prompt, most recent first
	order           uint64     // toolList.order of the last tools
	set             uint64     // toolList.set of the last tools
	changed         int        // requests in a row with other tools
	sortTools       bool
	lastHash        uint64      // hash of the last request
	lastObservation observation // of the last request
}

// variant is one of the system prompts of a stream, in its last version.
type variant struct {
	units  []uint64 // hashes
	stable int      // units that repeat
	longer int      // requests in a row that repeated more units
	needed int      // value of longer from which these units count as stable
}

// conversation is the turns of a conversation's last request.
type conversation struct {
	turns int
	hash  uint64
}

// observation is the result of comparing a request with the previous ones.
type observation struct {
	stable    int  // units of the system prompt that repeat
	repeats   bool // they and the tools are those of the previous request
	pays      bool // the next request is expected to read what is cached for this one
	continues bool // the conversation's last request is a prefix of this one
	sortTools bool // the tools were received in several orders
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	m := &Memory{}
	_, _ = rand.Read(m.secret[:])                                                         // never fails (crypto/rand)
	m.streams, _ = simplelru.NewLRU[streamKey, *stream](maxStreams, nil)                  // only fails for sizes below 1
	m.conversations, _ = simplelru.NewLRU[streamKey, conversation](maxConversations, nil) // see above
	return m
}

// keyOf identifies the stream of a request. Requests without a subsystem have one stream for each beginning of the prompt and set of tools.
func (m *Memory) keyOf(x *pipeline.Exchange, p *prompt, tools *toolList) streamKey {
	mac := hmac.New(sha256.New, m.secret[:])
	write := func(s string) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		_, _ = mac.Write(n[:]) // never fails
		_, _ = mac.Write([]byte(s))
	}
	for _, s := range [...]string{string(x.Principal.Account), string(x.Found[0].Model), x.Hints.GolemID, x.Hints.Subsystem, x.Hints.SessionID} {
		write(s)
	}
	if x.Hints.Subsystem == "" {
		write(p.opening)
		_ = binary.Write(mac, binary.LittleEndian, tools.set)
	}
	return streamKey(mac.Sum(nil)[:16])
}

// observe compares a request with the previous one, and stores it. sums are hashes of its turns, each including all before it.
func (m *Memory) observe(key streamKey, now time.Time, p *prompt, tools *toolList, sums []uint64) observation {
	changing := 0
	if !m.knows(key) { // computed without the lock, since a long prompt takes a while
		changing = p.changing()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, known := m.streams.Get(key)
	if !known {
		s = &stream{variants: []*variant{{stable: changing, needed: minNeed}}, order: tools.order, set: tools.set}
		m.streams.Add(key, s)
	}
	late := known && now.Sub(s.last) > lifetime
	whole := p.sum()*31 + tools.order
	if n := len(sums); n > 0 {
		whole = whole*31 + sums[n-1]
	}
	s.countLate(late)
	s.last = now
	if known && whole == s.lastHash { // the same request is sent as before (K-25)
		out := s.lastObservation
		out.pays = out.pays && s.lateRequests < maxLate
		return out
	}
	out := s.observe(known, p, tools)
	out.continues = m.continues(key, sums) && out.repeats
	s.lastHash, s.lastObservation = whole, out
	return out
}

func (m *Memory) knows(key streamKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.streams.Contains(key)
}

const (
	minNeed = 2
	maxNeed = 64

	maxLate    = 2 // late requests in a row after which the next ones are expected to be late, too
	maxChanged = 2 // requests in a row with other tools, which precede the system prompt, after which nothing is expected to repeat
)

// countLate counts the late requests in a row.
func (s *stream) countLate(is bool) {
	if !is {
		s.lateRequests = 0
		return
	}
	s.lateRequests++
}

func (s *stream) observe(known bool, p *prompt, tools *toolList) (out observation) {
	v, common := s.variants[0], 0
	if known {
		v, common = s.variantOf(p)
	}
	if tools.set == s.set {
		s.sortTools = s.sortTools || tools.order != s.order
		s.changed = 0
	} else {
		s.changed++
	}
	out.stable = min(v.stable, len(p.units))
	out.repeats = known && s.changed == 0 && common >= out.stable && out.stable > 0
	out.pays = s.lateRequests < maxLate && s.changed < maxChanged
	out.sortTools = s.sortTools
	s.order, s.set = tools.order, tools.set
	v.units = v.units[:0]
	for i := range p.units {
		v.units = append(v.units, p.units[i].hash)
	}
	return out
}

// variantOf is the variant that a prompt continues, which becomes the first, and the units that they have in common. A prompt with less than the stable part of
// the nearest variant becomes a new one, whose stable part is what they have in common.
func (s *stream) variantOf(p *prompt) (v *variant, common int) {
	nearest := 0
	for i, v := range s.variants {
		if n := v.common(p); n > common {
			nearest, common = i, n
		}
	}
	v = s.variants[nearest]
	switch {
	case common < v.stable && common < len(p.units):
		v = &variant{stable: common, needed: min(2*v.needed, maxNeed)}
		s.variants = s.variants[:min(len(s.variants), maxVariants-1)]
		s.variants = slices.Insert(s.variants, 0, v)
		return v, common
	case common <= v.stable:
		v.longer = 0
	default:
		if v.longer++; v.longer >= v.needed {
			v.stable, v.longer = common, 0
		}
	}
	s.variants = slices.Insert(slices.Delete(s.variants, nearest, nearest+1), 0, v)
	return v, common
}

// common is the number of units at the beginning that the prompt and the variant have in common.
func (v *variant) common(p *prompt) (n int) {
	for n < min(len(v.units), len(p.units)) && v.units[n] == p.units[n].hash {
		n++
	}
	return n
}

// continues reports whether the turns of the conversation's last request are the first ones of this one, and stores these. A conversation is identified by its
// stream and its first turn.
func (m *Memory) continues(key streamKey, sums []uint64) bool {
	if len(sums) == 0 {
		return false
	}
	mac := hmac.New(sha256.New, m.secret[:])
	_, _ = mac.Write(key[:]) // never fails
	_ = binary.Write(mac, binary.LittleEndian, sums[0])
	id := streamKey(mac.Sum(nil)[:16])
	last, known := m.conversations.Get(id)
	m.conversations.Add(id, conversation{len(sums), sums[len(sums)-1]})
	return known && last.turns < len(sums) && sums[last.turns-1] == last.hash
}

// sumsOf are hashes of turns, each including all before it.
func sumsOf(turns []jsonx.Value) []uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	sums := make([]uint64, len(turns))
	for i := range turns {
		_, _ = h.Write(turns[i].Raw) // never fails
		_ = h.WriteByte(0)
		sums[i] = h.Sum64()
	}
	return sums
}

func hashOf(raw []byte) uint64 { return maphash.Bytes(seed, raw) }
