package semantic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
)

// Embedder turns texts into vectors of length 1. Tag names the model, and is "" until the model is in memory; vectors of different tags are not
// comparable. Threshold is the cosine at which two texts mean the same. Safe for concurrent use.
type Embedder interface {
	Embed(ctx context.Context, text string) ([]float32, error)
	Threshold() float64
	Tag() string
}

// Model is an embedder that is loaded and checked before it is used. Safe for concurrent use.
type Model struct {
	Embedder Embedder
	Log      *slog.Logger

	mu        sync.Mutex
	state     state
	nextCheck time.Time // when a model that was unavailable is tried again
}

type state uint8

const (
	unknown state = iota
	checking
	usable
	unusable
)

// recheck is the interval in which a model that is unavailable is tried again.
const recheck = 30 * time.Second

// ErrUnfit is the error of a model whose vectors do not distinguish texts of different meanings.
var ErrUnfit = errors.New("the embedding model does not tell texts apart")

// Ready reports whether the model can be used. The first call loads it in the background, which may take seconds.
func (m *Model) Ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == unknown && !time.Now().Before(m.nextCheck) {
		m.state = checking
		guard.Go(func() { _ = m.Check() })
	}
	return m.state == usable
}

// Check loads and checks the model, and blocks until that is done.
func (m *Model) Check() (err error) {
	state := unknown // if the embedder panics
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.state, m.nextCheck = state, time.Now().Add(recheck)
	}()
	switch err = m.probe(); {
	case err == nil:
		state = usable
	case errors.Is(err, ErrUnfit):
		state = unusable
		m.Log.Error("the semantic cache is off", "error", err)
	default:
		m.Log.Warn("the semantic cache is off for now", "error", err)
	}
	return err
}

// probes are texts of different meanings.
var probes = [...]string{"What is the capital of France?", "Delete all my files.", "The cat sleeps on the warm roof."}

// maxProbeCosine is the highest cosine of two probes with which a model is used. MiniLM's is 0.1.
const maxProbeCosine = 0.7

// probe embeds the probes (K-62).
func (m *Model) probe() error {
	var vectors [len(probes)][]float32
	for i, text := range probes {
		v, err := m.Embedder.Embed(context.Background(), text)
		if err != nil {
			return err
		}
		if length := Cosine(v, v); math.Abs(length-1) > 0.01 {
			return fmt.Errorf("%w: a vector has length %.3f, not 1", ErrUnfit, math.Sqrt(length))
		}
		for _, other := range vectors[:i] {
			if c := Cosine(v, other); c > maxProbeCosine {
				return fmt.Errorf("%w: the cosine of two probes is %.3f", ErrUnfit, c)
			}
		}
		vectors[i] = v
	}
	return nil
}

// Cosine is that of two vectors of length 1; 0 if their dimensions differ.
func Cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return float64(s0+s1) + float64(s2+s3)
}

// Match is a row and the cosine of its text and the question.
type Match struct {
	Row
	Similarity float64
}

// Question is a turn that is compared with rows.
type Question struct {
	Tenant policy.Account
	Text   string

	Vector []float32 // nil until it is first compared
	Tag    string
}

// Rank returns the rows with their similarity to a question, most similar first. It computes the vectors that are missing; errors are those of the embedder.
func (ix *Index) Rank(ctx context.Context, e Embedder, q *Question, rows []Row) ([]Match, error) {
	others := func(r Row) bool { return r.Text != q.Text }
	if slices.ContainsFunc(rows, others) {
		if err := q.embed(ctx, e); err != nil {
			return nil, err
		}
		ix.recall(ctx, q, rows)
	}
	out := make([]Match, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		if !others(*r) {
			out = append(out, Match{*r, 1})
			continue
		}
		if q.needsVector(r) {
			v, err := e.Embed(ctx, Plain(r.Text))
			if err != nil {
				return nil, err
			}
			ix.setVector(q, r, v)
			if ix.vectors != nil {
				ix.vectors.Put(q.Tag, Plain(r.Text), v)
			}
		}
		out = append(out, Match{*r, Cosine(q.Vector, r.Vector)})
	}
	slices.SortStableFunc(out, func(a, b Match) int {
		switch {
		case a.Similarity > b.Similarity:
			return -1
		case a.Similarity < b.Similarity:
			return 1
		}
		return 0
	})
	return out, nil
}

// recall loads missing vectors of rows from the vector store.
func (ix *Index) recall(ctx context.Context, q *Question, rows []Row) {
	if ix.vectors == nil {
		return
	}
	var missing []*Row
	var texts []string
	for i := range rows {
		if r := &rows[i]; q.needsVector(r) {
			missing, texts = append(missing, r), append(texts, Plain(r.Text))
		}
	}
	if len(missing) == 0 {
		return
	}
	for i, v := range ix.vectors.Lookup(ctx, q.Tag, texts) {
		if v != nil {
			ix.setVector(q, missing[i], v)
		}
	}
}

// needsVector reports whether a row needs a vector of the question's model to be compared with it.
func (q *Question) needsVector(r *Row) bool {
	return r.Text != q.Text && (r.Vector == nil || r.Tag != q.Tag)
}

func (ix *Index) setVector(q *Question, r *Row, v []float32) {
	r.Vector, r.Tag = v, q.Tag
	ix.Embedded(q.Tenant, r.Key, v, q.Tag)
}

func (q *Question) embed(ctx context.Context, e Embedder) (err error) {
	if q.Vector != nil && q.Tag == e.Tag() {
		return nil
	}
	q.Vector, err = e.Embed(ctx, Plain(q.Text))
	q.Tag = e.Tag()
	return err
}

// Row is the row of the question for its stored answer.
func (q *Question) Row(e *cache.Entry) *Row {
	return &Row{Key: e.Key, Text: q.Text, Vector: q.Vector, Tag: q.Tag, Expires: e.Expires}
}
