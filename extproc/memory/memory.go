// Package memory searches what an agent has stored in its session (C-17): texts are split into passages, whose vectors, by the local model, are
// compared with a question's. It does not know requests or HTTP.
package memory

import (
	"cmp"
	"context"
	"slices"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/session"
)

// Embedder is a local model that turns texts into vectors of length 1. Vectors of different tags are not comparable. Safe for concurrent use.
type Embedder interface {
	Embed(ctx context.Context, text string) ([]float32, error)
	Tag() string
}

// Memory is the store of agents' documents. Safe for concurrent use.
type Memory struct {
	Store    session.Memory
	Embedder Embedder
}

// maxRenewed is the maximum number of missing or outdated vectors that one search makes.
const maxRenewed = 8

// Put stores a document with the vectors of its passages. Vectors that cannot be made now are made by a later search.
func (m *Memory) Put(ctx context.Context, session string, d *session.Document) error {
	d.Passages = passages(d.Text)
	for i := range d.Passages {
		if m.embed(ctx, &d.Passages[i], d) != nil {
			break
		}
	}
	return m.Store.Remember(ctx, session, d)
}

func passages(text string) []session.Passage {
	spans := split(text)
	out := make([]session.Passage, len(spans))
	for i, s := range spans {
		out[i] = session.Passage{N: i, Start: s.start, Stop: s.stop}
	}
	return out
}

// embed makes the vector of a passage, which includes its document's title.
func (m *Memory) embed(ctx context.Context, p *session.Passage, d *session.Document) error {
	text := d.Text[p.Start:p.Stop]
	if d.Title != "" {
		text = d.Title + "\n" + text
	}
	v, err := m.Embedder.Embed(ctx, text)
	if err == nil {
		p.Vector, p.Tag = v, m.Embedder.Tag()
	}
	return err
}

// Found is a passage that is similar to a question.
type Found struct {
	session.Document         // its document, without the text
	Text             string  // text of the passage
	Score            float64 // cosine
}

// Search finds the passages of an account's session that are most similar to a question: at most k, with a score of at least minScore, the best
// first. The error is the store's or the model's.
func (m *Memory) Search(ctx context.Context, account policy.Account, id, question string, k int, minScore float64) ([]Found, error) {
	all, err := m.Store.Passages(ctx, account, id)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	query, err := m.Embedder.Embed(ctx, question)
	if err != nil {
		return nil, err
	}
	r := reader{m: m, session: id, read: map[string]*session.Document{}}
	if err := r.renew(ctx, all); err != nil {
		return nil, err
	}
	return r.texts(ctx, rank(all, query, m.Embedder.Tag(), k, minScore))
}

// ranked is a passage with its score.
type ranked struct {
	*session.Passage

	score float64
}

// rank sorts the passages with vectors of the current model by score, without those below minScore.
func rank(all []session.Passage, query []float32, tag string, k int, minScore float64) (out []ranked) {
	for i := range all {
		p := &all[i]
		if p.Tag != tag || tag == "" || len(p.Vector) != len(query) {
			continue
		}
		if score := dot(p.Vector, query); score >= minScore {
			out = append(out, ranked{p, score})
		}
	}
	slices.SortStableFunc(out, func(a, b ranked) int { return cmp.Compare(b.score, a.score) })
	return out[:min(len(out), k)]
}

func dot(a, b []float32) (sum float64) {
	for i, f := range a {
		sum += float64(f) * float64(b[i])
	}
	return sum
}

// reader reads documents of a session, each once.
type reader struct {
	m       *Memory
	session string
	read    map[string]*session.Document
}

func (r *reader) document(ctx context.Context, key string) (*session.Document, error) {
	if d := r.read[key]; d != nil {
		return d, nil
	}
	d, err := r.m.Store.Document(ctx, r.session, key)
	if err != nil {
		return nil, err
	}
	r.read[key] = &d
	return &d, nil
}

// renew makes some of the missing or outdated vectors. A document that was replaced meanwhile is unchanged.
func (r *reader) renew(ctx context.Context, all []session.Passage) error {
	tag, left := r.m.Embedder.Tag(), maxRenewed
	for i := range all {
		p := &all[i]
		if p.Tag == tag {
			continue
		}
		if left--; left < 0 {
			return nil
		}
		d, err := r.document(ctx, p.Key)
		if err != nil || p.Stop > len(d.Text) {
			continue
		}
		if err := r.m.embed(ctx, p, d); err != nil {
			return err
		}
		if err := r.m.Store.SetVector(ctx, r.session, p); err != nil {
			return err
		}
	}
	return nil
}

// texts returns the texts of passages. A passage that was removed meanwhile is omitted.
func (r *reader) texts(ctx context.Context, list []ranked) (out []Found, err error) {
	for _, p := range list {
		d, err := r.document(ctx, p.Key)
		if err != nil || p.Stop > len(d.Text) {
			continue
		}
		f := Found{Document: *d, Text: d.Text[p.Start:p.Stop], Score: p.score}
		f.Document.Text = ""
		out = append(out, f)
	}
	return out, ctx.Err()
}
