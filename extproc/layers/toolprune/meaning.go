package toolprune

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/clock"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy"
)

// Embedder is a local model that turns texts into vectors of length 1. Safe for concurrent use.
type Embedder interface {
	Embed(ctx context.Context, text string) ([]float32, error)
	// Tag identifies the model: vectors of different tags are not to be compared.
	Tag() string
}

// VectorStore is a store of vectors that outlives the process, or that several gateways share. Safe for concurrent use.
type VectorStore interface {
	// Lookup returns a model's stored vectors of texts, nil for texts without one. It waits only for a short time limit of its own.
	Lookup(ctx context.Context, tag string, texts []string) [][]float32
	// Put is called with each computed vector. It must not block.
	Put(tag, text string, vector []float32)
}

// Limits of ranking by meaning. A vector of 384 numbers takes 1.5 KiB.
const (
	maxVectors        = 4_096
	maxRanked         = maxVectors / 4        // tools of a request; more are ranked by words
	waitTimeout       = 60 * time.Millisecond // that a request waits
	backgroundTimeout = 5 * time.Second       // for the definitions of one request, also after it has stopped waiting
	maxPending        = 4                     // requests whose definitions are embedded at a time
	offTime           = 10 * time.Second      // after an error, during which tools are ranked by words
	maxDefinition     = 600                   // bytes of a definition that are embedded
	maxQuery          = 1_000                 // bytes of the user's text that are embedded, from its end
)

// Vectors stores vectors of tool definitions, in this process. Make one with NewVectors. Safe for concurrent use.
type Vectors struct {
	vectors  *lru.Cache[[16]byte, []float32]
	offUntil atomic.Int64 // until when the model is not used, in ns since 1970

	mu      sync.Mutex
	pending map[[16]byte]chan struct{} // by a list of definitions that are being embedded; closed when that has ended
}

// NewVectors returns an empty memory.
func NewVectors() *Vectors {
	kept, _ := lru.New[[16]byte, []float32](maxVectors) // only fails for sizes below 1
	return &Vectors{vectors: kept, pending: map[[16]byte]chan struct{}{}}
}

// ready reports whether the model may be used.
func (v *Vectors) ready() bool { return clock.Now().UnixNano() >= v.offUntil.Load() }

// noteFailure disables the model for offTime, unless it is only slow or busy.
func (v *Vectors) noteFailure(err error) {
	if !isTransient(err) {
		v.offUntil.Store(clock.Now().Add(offTime).UnixNano())
	}
}

// isTransient reports whether a model is only slow or busy. Its own time limit may expire before the caller's.
func isTransient(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, models.ErrBusy)
}

// hasModel reports whether a local model may be used.
func (l Layer) hasModel() bool { return l.Embedder != nil && l.Vectors.ready() }

// ranksByMeaning reports whether the tools of a request may be ranked by a local model.
func (l Layer) ranksByMeaning(x *pipeline.Exchange) bool {
	return l.hasModel() && len(l.tasks()[x.Hints.TickType]) == 0
}

// Waits implements pipeline.Waiting: the request waits for the model.
func (l Layer) Waits(x *pipeline.Exchange) bool { return l.ranksByMeaning(x) && l.Applies(x) }

// nearest orders tools by the similarity of their definitions to a text; ok is false if the model is off, or did not embed all definitions in time.
func (l Layer) nearest(ctx context.Context, x *pipeline.Exchange, t *transcript.Transcript, text string) (order []int, ok bool) {
	if !l.hasModel() || len(t.Tools) > maxRanked || strings.TrimSpace(text) == "" {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	query, err := l.Embedder.Embed(ctx, tail(text, maxQuery))
	if err != nil {
		l.Vectors.noteFailure(err)
		if !isTransient(err) {
			return nil, false
		}
	}
	vectors, ok := l.vectors(ctx, x, t) // even without a query vector, for the next conversation
	if err != nil || !ok {
		return nil, false
	}
	scores := make([]float64, len(t.Tools))
	order = make([]int, len(t.Tools))
	for i := range t.Tools {
		order[i], scores[i] = i, dot(query, vectors[i])
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case nearly(scores[a], scores[b]):
			return 0
		case scores[a] > scores[b]:
			return -1
		}
		return 1
	})
	return order, true
}

// vectors are those of the tools' definitions, which are computed once for each account. Missing ones are computed in the background; ok is false if they are not
// ready in time, but the next request will find them.
func (l Layer) vectors(ctx context.Context, x *pipeline.Exchange, t *transcript.Transcript) (all [][]float32, ok bool) {
	all, missing := l.known(x, t)
	if len(missing) == 0 {
		return all, true
	}
	done := l.embedInBackground(x, missing)
	if done == nil {
		return nil, false
	}
	select {
	case <-done:
		all, missing = l.known(x, t)
		return all, len(missing) == 0
	case <-ctx.Done():
		return nil, false
	}
}

// prepare starts embedding the definitions of a request in the background, for when the model searches for a tool.
func (l Layer) prepare(x *pipeline.Exchange, t *transcript.Transcript) {
	if !l.hasModel() || len(t.Tools) > maxRanked {
		return
	}
	if _, missing := l.known(x, t); len(missing) > 0 {
		l.embedInBackground(x, missing)
	}
}

// known are the stored vectors of the tools' definitions, nil for missing ones.
func (l Layer) known(x *pipeline.Exchange, t *transcript.Transcript) (all [][]float32, missing []definition) {
	all = make([][]float32, len(t.Tools))
	for i := range t.Tools {
		d := l.definition(x.Principal.Account, embeddedText(&t.Tools[i]))
		if v, ok := l.Vectors.vectors.Get(d.sum); ok {
			all[i] = v
		} else {
			missing = append(missing, d)
		}
	}
	return all, missing
}

// embedInBackground embeds definitions in a goroutine, unless one already does. The channel that it returns is closed when that ends; it is nil if too many are
// pending.
func (l Layer) embedInBackground(x *pipeline.Exchange, missing []definition) <-chan struct{} {
	last := missing[len(missing)-1].sum // definitions are embedded in order: requests with the same last missing one wait for the same goroutine
	v := l.Vectors
	v.mu.Lock()
	defer v.mu.Unlock()
	if done, ok := v.pending[last]; ok {
		return done
	}
	if len(v.pending) >= maxPending {
		return nil
	}
	store := l.VectorStore
	if x.KeepsNothing() {
		store = nil
	}
	done := make(chan struct{})
	v.pending[last] = done
	guard.Go(func() {
		defer func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			delete(v.pending, last)
			close(done)
		}()
		l.embedAll(store, missing)
	})
	return done
}

// definition is the text of a tool that is embedded.
type definition struct {
	account policy.Account
	text    string
	sum     [16]byte // of account, model and text
}

func (l Layer) definition(account policy.Account, text string) definition {
	return definition{account, text, l.Memory.sum(key{[]string{"vector", string(account), l.Embedder.Tag(), text}})}
}

// embedAll computes and stores vectors of definitions, until the time limit. Those in the store need no model; store may be nil.
func (l Layer) embedAll(store VectorStore, all []definition) {
	ctx, cancel := context.WithTimeout(context.Background(), backgroundTimeout)
	defer cancel()
	if l.Embedder.Tag() == "" { // the first call loads the model, whose tag is needed for sums and for the store
		if _, err := l.Embedder.Embed(ctx, all[0].text); err != nil {
			l.Vectors.noteFailure(err)
			return
		}
		for i := range all {
			all[i] = l.definition(all[i].account, all[i].text)
		}
	}
	if store != nil {
		all = l.loadStored(ctx, store, all)
	}
	for i := range all {
		if l.Vectors.vectors.Contains(all[i].sum) { // embedded meanwhile for another request
			continue
		}
		v, err := l.Embedder.Embed(ctx, all[i].text)
		if err != nil {
			l.Vectors.noteFailure(err)
			return
		}
		l.Vectors.vectors.Add(all[i].sum, v)
		if store != nil {
			store.Put(l.Embedder.Tag(), all[i].text, v)
		}
	}
}

// loadStored loads vectors of definitions from the store, and returns the definitions whose vectors it does not have.
func (l Layer) loadStored(ctx context.Context, store VectorStore, all []definition) (missing []definition) {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].text
	}
	for i, v := range store.Lookup(ctx, l.Embedder.Tag(), texts) {
		if v == nil {
			missing = append(missing, all[i])
		} else {
			l.Vectors.vectors.Add(all[i].sum, v)
		}
	}
	return missing
}

// embeddedText is the text of a tool's vector: the words of its name, and its description.
func embeddedText(tool *transcript.Tool) string {
	description, _ := tool.Description.Str()
	return clipped(strings.NewReplacer("_", " ", "-", " ", ".", " ", "/", " ").Replace(tool.Name)+": "+description, maxDefinition)
}

// tail is the end of a text, of at most maxBytes.
func tail(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-maxBytes:], "")
}

func dot(a, b []float32) (sum float64) {
	for i := range min(len(a), len(b)) {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
