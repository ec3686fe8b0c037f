package toolprune

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/clock"
	"bardo.money/gateway/models"
)

// Embedder is a local model that turns texts into vectors of length 1. Safe for concurrent use.
type Embedder interface {
	Embed(ctx context.Context, text string) ([]float32, error)
	// Tag identifies the model: vectors of different tags are not to be compared.
	Tag() string
}

// Limits of ranking by meaning. A vector of 384 numbers takes 1.5 KiB.
const (
	maxVectors    = 4_096
	meaningTime   = 60 * time.Millisecond // for one request; the vectors that it made are kept for the next one
	offFor        = 10 * time.Second      // after an error, words decide
	maxDefinition = 600                   // bytes of a definition that its vector stands for
	maxQuestion   = 1_000                 // bytes of the user's text, from its end
)

// Vectors are those of definitions of tools, in this process. Make one with NewVectors. Safe for concurrent use.
type Vectors struct {
	kept *lru.Cache[[16]byte, []float32]
	off  atomic.Int64 // until when the model is not asked, in ns since 1970
}

// NewVectors returns an empty memory.
func NewVectors() *Vectors {
	kept, _ := lru.New[[16]byte, []float32](maxVectors) // only fails for sizes below 1
	return &Vectors{kept: kept}
}

// ready reports whether the model may be asked.
func (v *Vectors) ready() bool { return clock.Now().UnixNano() >= v.off.Load() }

// failed lets the model rest, unless it is only slow or busy. The model's own clock may say that the time is over before the caller's does.
func (v *Vectors) failed(err error) {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, models.ErrBusy) {
		v.off.Store(clock.Now().Add(offFor).UnixNano())
	}
}

// ranksByMeaning reports whether the tools of a request may be ranked by a local model.
func (l Layer) ranksByMeaning(x *pipeline.Exchange) bool {
	return l.Embedder != nil && l.Vectors.ready() && len(l.tasks()[x.Hints.TickType]) == 0
}

// Waits implements pipeline.Waiting: the model is waited for.
func (l Layer) Waits(x *pipeline.Exchange) bool { return l.ranksByMeaning(x) && l.Applies(x) }

// byMeaning orders tools by the similarity of their definitions to a text; ok is false where the model is off, or has not seen all definitions in time.
func (l Layer) byMeaning(ctx context.Context, x *pipeline.Exchange, t *transcript.Transcript, text string) (order []int, ok bool) {
	if !l.ranksByMeaning(x) || strings.TrimSpace(text) == "" {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, meaningTime)
	defer cancel()
	asked, err := l.Embedder.Embed(ctx, tail(text, maxQuestion))
	if err != nil {
		l.Vectors.failed(err)
		return nil, false
	}
	scores := make([]float64, len(t.Tools))
	order = make([]int, len(t.Tools))
	for i := range t.Tools {
		v, err := l.vector(ctx, x, meaningOf(&t.Tools[i]))
		if err != nil {
			l.Vectors.failed(err)
			return nil, false
		}
		order[i], scores[i] = i, dot(asked, v)
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

// vector is that of a definition, which is made once for each account.
func (l Layer) vector(ctx context.Context, x *pipeline.Exchange, text string) ([]float32, error) {
	sum := l.Memory.sum(key{[]string{"vector", string(x.Principal.Account), l.Embedder.Tag(), text}})
	if v, ok := l.Vectors.kept.Get(sum); ok {
		return v, nil
	}
	v, err := l.Embedder.Embed(ctx, text)
	if err == nil {
		l.Vectors.kept.Add(sum, v)
	}
	return v, err
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
