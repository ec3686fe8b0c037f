package models

import (
	"context"
	"math"
	"slices"

	"bardo.money/gateway/models/manifest"
)

// Tokenizer splits texts into tokens. Safe for concurrent use.
type Tokenizer interface {
	// Encode returns a text's tokens without its frame, only the first limit of them if limit is above 0.
	Encode(text string, limit int) []int32
	// Frame returns the special tokens before and after a text.
	Frame() (before, after int32)
	// Unknown returns the token for text without another one.
	Unknown() int32
}

// reader encodes texts as inputs, and decodes outputs.
type reader struct {
	model *manifest.Model
	words Tokenizer
	pool  *Pool
}

// frame adds the special tokens around tokens.
func (r *reader) frame(tokens []int32) []int64 {
	before, after := r.words.Frame()
	ids := make([]int64, 0, len(tokens)+2)
	ids = append(ids, int64(before))
	for _, t := range tokens {
		ids = append(ids, int64(t))
	}
	return append(ids, int64(after))
}

// embed returns a text's vector. A text that is longer than the model's window is cut.
func (r *reader) embed(ctx context.Context, text string) (v Vector, err error) {
	most := r.model.Window - 2
	tokens := r.words.Encode(r.model.Prefix+text, most+1)
	if v.Cut = len(tokens) > most; v.Cut {
		tokens = tokens[:most]
	}
	ids := r.frame(tokens)
	v.Tokens = len(ids)
	if v.Values, err = r.pool.Do(ctx, ids); err != nil {
		return Vector{}, err
	}
	if r.model.Pooling != "" {
		v.Values = mean(v.Values, r.model.Dimensions)
	}
	return v, nil
}

// mean returns the mean of rows, scaled to length 1.
func mean(rows []float32, width int) []float32 {
	sum, length := make([]float64, width), 0.0
	for i, x := range rows {
		sum[i%width] += float64(x)
	}
	for _, x := range sum {
		length += x * x
	}
	out := make([]float32, width)
	for i, x := range sum {
		out[i] = float32(x / math.Max(math.Sqrt(length), 1e-12))
	}
	return out
}

// score returns the largest score of a text's overlapping windows.
func (r *reader) score(ctx context.Context, text string) (float64, error) {
	highest := 0.0
	for w := range windows(r.words.Encode(r.model.Prefix+text, 0), r.model.Window-2, r.model.Overlap) {
		if r.model.Degenerate && degenerate(w, r.words.Unknown()) {
			continue
		}
		out, err := r.pool.Do(ctx, r.frame(w))
		if err != nil {
			return 0, err
		}
		highest = max(highest, probability(r.model, out))
	}
	return highest, nil
}

// windows yields the parts of a text of at most size tokens, each beginning overlap tokens before the end of the previous one. Without an overlap,
// there is one. A text without tokens has none.
func windows(tokens []int32, size, overlap int) func(yield func([]int32) bool) {
	return func(yield func([]int32) bool) {
		for len(tokens) > 0 {
			n := min(size, len(tokens))
			if !yield(tokens[:n]) || n == len(tokens) || overlap == 0 {
				return
			}
			tokens = tokens[n-overlap:]
		}
	}
}

// A text is degenerate, as the classifier's publisher defines it, if it has at least three tokens of at most four kinds, and two thirds of them are
// the same token, other than the unknown one.
const (
	minTokens = 3
	maxKinds  = 4
)

// degenerate reports whether a text is so different from the classifier's training data that its score is meaningless.
func degenerate(tokens []int32, unknown int32) bool {
	if len(tokens) < minTokens {
		return false
	}
	var kinds []int32
	var counts []int
	for _, t := range tokens {
		i := slices.Index(kinds, t)
		if i < 0 {
			if len(kinds) == maxKinds {
				return false
			}
			i = len(kinds)
			kinds, counts = append(kinds, t), append(counts, 0)
		}
		counts[i]++
	}
	most := slices.Max(counts)
	return 3*most >= 2*len(tokens) && kinds[slices.Index(counts, most)] != unknown
}

// probability returns the probability of an injection.
func probability(m *manifest.Model, out []float32) float64 {
	if m.Head == "softmax" {
		return sigmoid((float64(out[1]) - float64(out[0])) / m.Temperature)
	}
	return sigmoid(float64(out[0]) / m.Temperature)
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
