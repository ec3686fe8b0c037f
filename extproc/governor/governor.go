// Package governor adjusts settings of the context layers by their measured effect (C-12). For each kind of task it tries values of three knobs on a
// tenth of the conversations, and uses the best one for the others: the history size in bytes from which histories are shortened (L5), the number of
// tools that a request keeps (L4), and the minimum similarity of a stored answer's question (L2). It never leaves the safe range of values: the last
// two only become stricter.
//
// It observes the request (what the layer saved, whether the request was sent again, whether its answer violated the schema, whether its caller
// disabled layers), the conversation (omitted parts that had to be fetched again), and the regime (callers' feedback). Observations are counted by
// task and regime, in the memory of one process, of limited size. It knows numbers and names of tasks, and no content; it does not know requests or
// layers.
package governor

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/internal/clock"
	"bardo.money/gateway/policy"
)

// Mode is the governor's mode of operation.
type Mode string

// The modes.
const (
	Off    Mode = "off"    // nothing is counted or changed
	Report Mode = "report" // outcomes are counted, and changes are reported but not made
	On     Mode = "on"     // values are tried and changed
)

// Knob is one of the settings.
type Knob uint8

// The knobs.
const (
	Compression Knob = iota // policy.Knobs.CompressFrom
	Tools                   // policy.Knobs.MaxTools
	Semantic                // policy.Knobs.Similarity, in thousandths
	knobs
)

var knobNames = [knobs]string{Compression: "compression", Tools: "tools", Semantic: "semantic"}

// String returns the knob's name in the configuration.
func (k Knob) String() string { return knobNames[k] }

var knobLayers = [knobs]string{Compression: "l5", Tools: "l4", Semantic: "l2"}

// Options are the governor's configuration. The zero value is off.
type Options struct {
	Mode   Mode
	Freeze []string     // names of knobs that must not change
	Base   policy.Knobs // configured values; zero: the layers' defaults
}

// The layers' defaults, with which the governor starts.
const (
	baseCompression = 16 << 10
	baseTools       = 12
	baseSimilarity  = 920
	mostSimilarity  = 990
)

const (
	explored  = 10 // one conversation in this many tries a value for a knob
	maxTasks  = 128
	maxRegime = 16 // regimes of a task; further ones count as other
	maxTalks  = 20_000
	maxRated  = 20_000
	lifetime  = 2 * time.Hour // of a conversation's values, after its last request
	other     = "other"
)

// Change is a change of a knob's value for a kind of task.
type Change struct {
	Task    string  `json:"task"`
	Knob    string  `json:"knob"`
	Layer   string  `json:"layer"`
	From    int     `json:"from"`
	To      int     `json:"to"`
	Before  float64 `json:"mean_reward_before"`
	After   float64 `json:"mean_reward_after"`
	Trials  int64   `json:"trials"` // of the new value
	Applied bool    `json:"applied"`
}

// Governor adjusts the knobs. Make one with New; nil is off. Safe for concurrent use.
type Governor struct {
	// Changed is called for every change. It must not block. Set it before the first request.
	Changed func(*Change)

	enabled atomic.Bool

	mu     sync.Mutex
	o      Options
	frozen [knobs]bool
	values [knobs][]int // values to try, in ascending order
	random *rand.Rand
	tasks  *lru.Cache[string, *task]
	talks  *lru.Cache[uint64, conversationState]
	rated  *lru.Cache[string, rating]
}

// conversationState is the state of a conversation.
type conversationState struct {
	task  string
	tried [knobs]int // indexes into values
	until time.Time
	last  uint64 // hash of its last request
}

// rating is the state of an answered request for later feedback.
type rating struct {
	task, regime string
	tried        [knobs]int
	size         int      // size of the request
	hit          float64  // credit of a semantic cache hit
	adjustment   float64  // change of the credit by the caller's feedback
	wrong        bool     // its caller removed the answer as wrong
	layers       []string // layers that changed or answered the request
}

// New returns a governor that is off. It is deterministic for a seed and a sequence of calls.
func New(seed uint64) *Governor {
	tasks, _ := lru.New[string, *task](maxTasks) // fails only for sizes below 1, as do the following
	talks, _ := lru.New[uint64, conversationState](maxTalks)
	rated, _ := lru.New[string, rating](maxRated)
	g := &Governor{random: rand.New(rand.NewPCG(seed, 1)), tasks: tasks, talks: talks, rated: rated} //nolint:gosec // it chooses what is tried
	g.Configure(Options{})
	return g
}

// Configure applies options. Observations are kept unless the configured values change.
func (g *Governor) Configure(o Options) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o.Mode == "" {
		o.Mode = Off
	}
	values := valuesOf(&o.Base)
	if g.values[Compression] != nil && !slices.EqualFunc(values[:], g.values[:], slices.Equal[[]int]) {
		g.tasks.Purge()
		g.talks.Purge()
		g.rated.Purge()
	}
	g.o, g.values = o, values
	g.enabled.Store(o.Mode != Off)
	for k := range knobs {
		g.frozen[k] = slices.Contains(o.Freeze, k.String())
	}
}

// valuesOf returns the values to try of each knob, including the configured one. They are the safe range: prompts are shortened from 8 KiB at the
// least, no more tools are kept than configured, and the similarity is not lowered.
func valuesOf(b *policy.Knobs) (v [knobs][]int) {
	at := base(b)
	v[Compression] = []int{at[Compression] / 2, at[Compression], 2 * at[Compression], 4 * at[Compression]}
	v[Tools] = []int{max(1, at[Tools]/2), max(1, 3*at[Tools]/4), at[Tools]}
	v[Semantic] = []int{at[Semantic], min(at[Semantic]+20, max(at[Semantic], mostSimilarity)), min(at[Semantic]+40, max(at[Semantic], mostSimilarity))}
	for k := range v {
		v[k] = slices.Compact(v[k])
	}
	return v
}

// base returns the indexes of the configured values.
func base(b *policy.Knobs) (at [knobs]int) {
	at = [knobs]int{Compression: baseCompression, Tools: baseTools, Semantic: baseSimilarity}
	if b.CompressFrom > 0 {
		at[Compression] = b.CompressFrom
	}
	if b.MaxTools > 0 {
		at[Tools] = b.MaxTools
	}
	if b.Similarity > 0 {
		at[Semantic] = int(b.Similarity*1000 + 0.5)
	}
	return at
}

// Choice is the values for one request. The zero value is a request that the governor does not know.
type Choice struct {
	Knobs  policy.Knobs // for the layers; zero unless the mode is On
	Again  bool         // a repetition of the conversation's last request
	task   string
	tried  [knobs]int
	active bool
}

// Active reports whether the request's outcome is to be observed.
func (c *Choice) Active() bool { return c.active }

// Choose returns the values for a request: those of its conversation, which keeps them, because a changing prompt costs more in the provider's cache
// than any of them saves. conversation and request are hashes; 0 is a request without a conversation.
func (g *Governor) Choose(name string, conversation, request uint64) (c Choice) {
	if !g.Enabled() {
		return c
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if name == "" {
		name = other
	}
	t := g.task(name)
	now := clock.Now()
	talked, ok := g.talks.Get(conversation)
	if ok = ok && conversation != 0 && talked.task == name && now.Before(talked.until); !ok {
		talked = conversationState{task: name, tried: g.draw(t)}
	}
	c = Choice{task: name, tried: talked.tried, active: true, Again: ok && talked.last == request}
	talked.until, talked.last = now.Add(lifetime), request
	if conversation != 0 {
		g.talks.Add(conversation, talked)
	}
	if g.o.Mode == On {
		c.Knobs = g.knobsOf(&c.tried)
	}
	return c
}

// draw chooses the values of a new conversation: for each knob the best one, or occasionally a random one.
func (g *Governor) draw(t *task) (tried [knobs]int) {
	for k := range knobs {
		tried[k] = t.best[k]
		if g.random.IntN(explored) == 0 && g.o.Mode == On && !g.frozen[k] {
			tried[k] = g.random.IntN(len(g.values[k]))
		}
		if g.o.Mode == Report {
			tried[k] = g.configured(k)
		}
	}
	return tried
}

// configured returns the index of a knob's configured value.
func (g *Governor) configured(k Knob) int {
	return max(0, slices.Index(g.values[k], base(&g.o.Base)[k]))
}

func (g *Governor) knobsOf(tried *[knobs]int) policy.Knobs {
	return policy.Knobs{
		CompressFrom: g.values[Compression][tried[Compression]], MaxTools: g.values[Tools][tried[Tools]],
		Similarity: float64(g.values[Semantic][tried[Semantic]]) / 1000,
	}
}

// task returns the state of a kind of task.
func (g *Governor) task(name string) *task {
	t, ok := g.tasks.Get(name)
	if !ok {
		t = &task{regimes: map[string]*Outcomes{}}
		for k := range knobs {
			t.best[k] = g.configured(k)
			t.arms[k] = make([]arm, len(g.values[k]))
			t.gaps = make([]gap, len(g.values[Compression]))
		}
		g.tasks.Add(name, t)
	}
	return t
}

// Enabled reports whether anything is counted.
func (g *Governor) Enabled() bool { return g != nil && g.enabled.Load() }
