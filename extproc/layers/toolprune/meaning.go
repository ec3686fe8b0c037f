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

// Kept is a store of vectors that outlives the process, or that gateways share.
type Kept interface {
	// Known returns the vectors that a model has made of texts, nil for those that are not known. It does not wait for long.
	Known(ctx context.Context, tag string, texts []string) [][]float32
	// Made is told of a vector. It must not block.
	Made(tag, text string, vector []float32)
}

// Limits of ranking by meaning. A vector of 384 numbers takes 1.5 KiB.
const (
	maxVectors    = 4_096
	maxMeant      = maxVectors / 4        // tools of a request, or words decide
	meaningTime   = 60 * time.Millisecond // that a request waits
	readingTime   = 5 * time.Second       // for the definitions of one request, which go on being read when it does not wait any longer
	maxReading    = 4                     // requests whose definitions are read at a time
	offFor        = 10 * time.Second      // after an error, words decide
	maxDefinition = 600                   // bytes of a definition that its vector stands for
	maxQuestion   = 1_000                 // bytes of the user's text, from its end
)

// Vectors are those of definitions of tools, in this process. Make one with NewVectors. Safe for concurrent use.
type Vectors struct {
	kept *lru.Cache[[16]byte, []float32]
	off  atomic.Int64 // until when the model is not asked, in ns since 1970

	mu      sync.Mutex
	reading map[[16]byte]chan struct{} // by a list of definitions that are read; closed when they were
}

// NewVectors returns an empty memory.
func NewVectors() *Vectors {
	kept, _ := lru.New[[16]byte, []float32](maxVectors) // only fails for sizes below 1
	return &Vectors{kept: kept, reading: map[[16]byte]chan struct{}{}}
}

// ready reports whether the model may be asked.
func (v *Vectors) ready() bool { return clock.Now().UnixNano() >= v.off.Load() }

// failed lets the model rest, unless it is only slow or busy.
func (v *Vectors) failed(err error) {
	if !late(err) {
		v.off.Store(clock.Now().Add(offFor).UnixNano())
	}
}

// late reports whether a model is only slow or busy. Its own clock may say that the time is over before the caller's does.
func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, models.ErrBusy)
}

// hasModel reports whether a local model may be asked.
func (l Layer) hasModel() bool { return l.Embedder != nil && l.Vectors.ready() }

// ranksByMeaning reports whether the tools of a request may be ranked by a local model.
func (l Layer) ranksByMeaning(x *pipeline.Exchange) bool {
	return l.hasModel() && len(l.tasks()[x.Hints.TickType]) == 0
}

// Waits implements pipeline.Waiting: the model is waited for.
func (l Layer) Waits(x *pipeline.Exchange) bool { return l.ranksByMeaning(x) && l.Applies(x) }

// nearest orders tools by the similarity of their definitions to a text; ok is false where the model is off, or has not seen all definitions in time.
func (l Layer) nearest(ctx context.Context, x *pipeline.Exchange, t *transcript.Transcript, text string) (order []int, ok bool) {
	if !l.hasModel() || len(t.Tools) > maxMeant || strings.TrimSpace(text) == "" {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, meaningTime)
	defer cancel()
	asked, err := l.Embedder.Embed(ctx, tail(text, maxQuestion))
	if err != nil {
		l.Vectors.failed(err)
		if !late(err) {
			return nil, false
		}
	}
	vectors, ok := l.vectors(ctx, x, t) // for the next conversation, if there is no question
	if err != nil || !ok {
		return nil, false
	}
	scores := make([]float64, len(t.Tools))
	order = make([]int, len(t.Tools))
	for i := range t.Tools {
		order[i], scores[i] = i, dot(asked, vectors[i])
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

// vectors are those of the tools' definitions, which are made once for each account. Those that are missing are read in a goroutine of their own, so that they
// are there for the next request if this one cannot wait: ok is false then.
func (l Layer) vectors(ctx context.Context, x *pipeline.Exchange, t *transcript.Transcript) (all [][]float32, ok bool) {
	all, missing := l.known(x, t)
	if len(missing) == 0 {
		return all, true
	}
	read := l.readBeside(x, missing)
	if read == nil {
		return nil, false
	}
	select {
	case <-read:
		all, missing = l.known(x, t)
		return all, len(missing) == 0
	case <-ctx.Done():
		return nil, false
	}
}

// prepare has the definitions of a request read beside its call, so that they are known when the model searches for a tool.
func (l Layer) prepare(x *pipeline.Exchange, t *transcript.Transcript) {
	if !l.hasModel() || len(t.Tools) > maxMeant {
		return
	}
	if _, missing := l.known(x, t); len(missing) > 0 {
		l.readBeside(x, missing)
	}
}

// known are the vectors of the tools' definitions, nil for those that are missing.
func (l Layer) known(x *pipeline.Exchange, t *transcript.Transcript) (all [][]float32, missing []definition) {
	all = make([][]float32, len(t.Tools))
	for i := range t.Tools {
		d := l.definition(x.Principal.Account, meaningOf(&t.Tools[i]))
		if v, ok := l.Vectors.kept.Get(d.sum); ok {
			all[i] = v
		} else {
			missing = append(missing, d)
		}
	}
	return all, missing
}

// readBeside reads definitions in a goroutine, or waits for the one that reads them; nil if too many are read already. What it returns is closed when it ends.
func (l Layer) readBeside(x *pipeline.Exchange, missing []definition) <-chan struct{} {
	last := missing[len(missing)-1].sum // definitions are read in their order: whoever lacks the same last one waits for the same
	v := l.Vectors
	v.mu.Lock()
	defer v.mu.Unlock()
	if read, ok := v.reading[last]; ok {
		return read
	}
	if len(v.reading) >= maxReading {
		return nil
	}
	kept := l.Kept
	if x.KeepsNothing() {
		kept = nil
	}
	read := make(chan struct{})
	v.reading[last] = read
	guard.Go(func() {
		defer func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			delete(v.reading, last)
			close(read)
		}()
		l.read(kept, missing)
	})
	return read
}

// definition is one of a tool of a request, whose vector is not known.
type definition struct {
	account policy.Account
	text    string
	sum     [16]byte // of account, model and text
}

func (l Layer) definition(account policy.Account, text string) definition {
	return definition{account, text, l.Memory.sum(key{[]string{"vector", string(account), l.Embedder.Tag(), text}})}
}

// read makes vectors of definitions and keeps them, as far as the model does so in time. Those that the store has need no model; kept is nil for none.
func (l Layer) read(kept Kept, all []definition) {
	ctx, cancel := context.WithTimeout(context.Background(), readingTime)
	defer cancel()
	if l.Embedder.Tag() == "" { // a first call loads the model; until then the store cannot be asked for its vectors, and sums are those of no model
		if _, err := l.Embedder.Embed(ctx, all[0].text); err != nil {
			l.Vectors.failed(err)
			return
		}
		for i := range all {
			all[i] = l.definition(all[i].account, all[i].text)
		}
	}
	if kept != nil {
		all = l.recall(ctx, kept, all)
	}
	for i := range all {
		if l.Vectors.kept.Contains(all[i].sum) { // another request's were read meanwhile
			continue
		}
		v, err := l.Embedder.Embed(ctx, all[i].text)
		if err != nil {
			l.Vectors.failed(err)
			return
		}
		l.Vectors.kept.Add(all[i].sum, v)
		if kept != nil {
			kept.Made(l.Embedder.Tag(), all[i].text, v)
		}
	}
}

// recall takes vectors of definitions from the store, and returns the definitions whose vectors it does not have.
func (l Layer) recall(ctx context.Context, kept Kept, all []definition) (missing []definition) {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].text
	}
	for i, v := range kept.Known(ctx, l.Embedder.Tag(), texts) {
		if v == nil {
			missing = append(missing, all[i])
		} else {
			l.Vectors.kept.Add(all[i].sum, v)
		}
	}
	return missing
}

// meaningOf is what a tool's vector stands for: the words of its name, and its description.
func meaningOf(tool *transcript.Tool) string {
	description, _ := tool.Description.Str()
	return clipped(strings.NewReplacer("_", " ", "-", " ", ".", " ", "/", " ").Replace(tool.Name)+": "+description, maxDefinition)
}

// tail is the end of a text, of at most so many bytes.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-most:], "")
}

func dot(a, b []float32) (sum float64) {
	for i := range min(len(a), len(b)) {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
