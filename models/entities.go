package models

import (
	"context"
	"fmt"
	"math"
	"strings"
	"unicode"
)

// word is a word of a text, or a punctuation mark, with its tokens.
type word struct {
	start, end int
	tokens     []int32
	label      string  // O, B-TYPE or I-TYPE; "" before the model was run
	score      float64 // the label's probability
}

// outside is the label of a word that belongs to no name.
const outside = "O"

// entities finds the names in a text. A word has the label of its first token.
func (r *reader) entities(ctx context.Context, text string) ([]Entity, error) {
	words, err := r.split(ctx, text)
	if err != nil {
		return nil, err
	}
	for from := 0; from < len(words); {
		to, next := r.window(words, from)
		if err := r.label(ctx, words[from:to]); err != nil {
			return nil, err
		}
		from = next
	}
	return named(words), nil
}

// checkEvery is the number of words after which cancellation is checked.
const checkEvery = 1 << 10

// split splits a text into words, and these into tokens. A word without tokens is left out; one with more tokens than a window is cut.
func (r *reader) split(ctx context.Context, text string) (words []word, err error) {
	add := func(from, to int) {
		if tokens := r.words.Encode(text[from:to], r.model.Window-2); len(tokens) > 0 {
			words = append(words, word{start: from, end: to, tokens: tokens})
		}
	}
	begin := -1
	for i, c := range text {
		inside := unicode.In(c, unicode.L, unicode.M, unicode.N)
		if begin >= 0 && !inside {
			add(begin, i)
			begin = -1
		}
		switch {
		case inside && begin < 0:
			begin = i
		case !inside && !unicode.IsSpace(c):
			add(i, i+len(string(c)))
		}
		if len(words)%checkEvery == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("model %s: %w", r.model.Name, ctx.Err())
		}
	}
	if begin >= 0 {
		add(begin, len(text))
	}
	return words, nil
}

// window returns where the window that begins with a word ends, and where the next one begins: so far before the end that they share the overlap, or
// after the last word.
func (r *reader) window(words []word, from int) (to, next int) {
	room := r.model.Window - 2
	for to = from; to < len(words) && len(words[to].tokens) <= room; to++ {
		room -= len(words[to].tokens)
	}
	if to == len(words) {
		return to, to
	}
	shared := r.model.Overlap
	for next = to; next-1 > from && len(words[next-1].tokens) <= shared; next-- {
		shared -= len(words[next-1].tokens)
	}
	return to, next
}

// label labels the words of a window. If overlapping windows give a word different labels, the most probable label of a name counts.
func (r *reader) label(ctx context.Context, words []word) error {
	var tokens []int32
	for i := range words {
		tokens = append(tokens, words[i].tokens...)
	}
	out, err := r.pool.Do(ctx, r.frame(tokens))
	if err != nil {
		return err
	}
	width := r.model.Dimensions
	if len(out) != width*(len(tokens)+2) {
		return fmt.Errorf("model %s: its output has %d values for %d tokens, expected %d each", r.model.Name, len(out), len(tokens)+2, width)
	}
	at := 1 // after the special token
	for i := range words {
		w := &words[i]
		best, p := mostProbable(out[at*width : (at+1)*width])
		at += len(w.tokens)
		label := r.model.Labels[best]
		if p < r.model.Threshold {
			label = outside
		}
		if w.label == "" || w.label == outside || label != outside && p > w.score {
			w.label, w.score = label, p
		}
	}
	return nil
}

// mostProbable returns the index of the largest logit, and its probability.
func mostProbable(logits []float32) (best int, p float64) {
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - float64(logits[best]))
	}
	return best, 1 / sum
}

// named joins words that belong to one name: a word labelled B-, or with another type, begins the next name.
func named(words []word) (all []Entity) {
	var open *Entity
	for i := range words {
		w := &words[i]
		place, label, ok := strings.Cut(w.label, "-")
		if !ok {
			open = nil
			continue
		}
		if open == nil || open.Label != label || place == "B" {
			all = append(all, Entity{Start: w.start, Label: label, Score: 1})
			open = &all[len(all)-1]
		}
		open.End, open.Score = w.end, min(open.Score, w.score)
	}
	return all
}
