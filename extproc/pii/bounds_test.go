package pii

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/internal/racetest"
)

// words is a detector of words of varying length, whose spans chain with those of another one.
type words struct {
	t            Type
	from, length int
}

// Find implements Detector.
func (w words) Find(_ context.Context, text string, out []Span) ([]Span, error) {
	for i := w.from; i+w.length <= len(text); i += w.length {
		out = append(out, Span{i, i + w.length - i/w.length%3, w.t, 1})
	}
	return out, nil
}

// TestValuesThatOverlapInALongChainAreResolved like one by one, and in time proportional to their number.
func TestValuesThatOverlapInALongChainAreResolved(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", racetest.Less(8<<20))
	got, err := NewScanner(words{Email, 0, 12}, words{Phone, 5, 12}, words{"OWN", 9, 15}).Find(t.Context(), text)
	if err != nil || len(got) < len(text)/12 {
		t.Fatalf("%d spans, %v", len(got), err)
	}
	for i := range got[1:] {
		if got[i].End > got[i+1].Start {
			t.Fatalf("%+v overlaps %+v", got[i], got[i+1])
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var all []Span
		for range 1 + r.IntN(12) {
			from := r.IntN(200)
			all = append(all, Span{from, from + 1 + r.IntN(80), Builtin[r.IntN(len(Builtin))], 1})
		}
		if got, want := Resolve(all, 300), oneByOne(all); !slices.Equal(got, want) {
			t.Fatalf("%+v: %+v, want %+v", all, got, want)
		}
	}
}

// oneByOne is the definition of Resolve.
func oneByOne(all []Span) (kept []Span) {
	all = slices.Clone(all)
	slices.SortFunc(all, byRank)
	for _, s := range all {
		if !slices.ContainsFunc(kept, func(k Span) bool { return k.Start < s.End && s.Start < k.End }) {
			kept = append(kept, s)
		}
	}
	slices.SortFunc(kept, func(a, b Span) int { return a.Start - b.Start })
	return kept
}

// TestF01KnownValuesAreLookedForInProportion: with many values that have common prefixes, and texts with many of these prefixes, the comparisons are bounded, and
// Exhausted reports that. A text of eight megabytes with many values is masked completely.
func TestF01KnownValuesAreLookedForInProportion(t *testing.T) {
	t.Parallel()
	v := NewVault(TenantKey([]byte("s"), "t"))
	for n := range 2000 {
		v.Holder(Secret, "sk-a"+strings.Repeat("b-", n))
	}
	text := strings.Repeat("sk-a"+strings.Repeat("b-", 1500)+"! ", 1000)
	v.Mask(text, nil)
	if limit := freeWork + workPerByte*len(text) + 8000; !v.Exhausted() || v.work > limit {
		t.Errorf("exhausted %v, %d bytes were compared, at most %d may be", v.Exhausted(), v.work, limit)
	}

	v = NewVault(TenantKey([]byte("s"), "t"))
	var b strings.Builder
	for n := 0; b.Len() < 8<<20; n++ {
		fmt.Fprintf(&b, "user%d@example.org wrote to user and user%d. ", n, n)
	}
	spans, err := NewScanner(Detectors{Types: Default}).Find(t.Context(), b.String())
	if err != nil {
		t.Fatal(err)
	}
	masked := v.Mask(b.String(), spans)
	if v.Exhausted() || strings.Contains(masked, "@") || v.Len() < 100_000 {
		t.Errorf("exhausted %v, %d values", v.Exhausted(), v.Len())
	}
	if v.Restore(masked) != b.String() {
		t.Error("the text is not restored")
	}
}

// TestTheMemoIsBoundedByValues, also for texts with many of them.
func TestTheMemoIsBoundedByValues(t *testing.T) {
	t.Parallel()
	m := NewMemo(NewScanner(words{Email, 0, 8}))
	const each = 50_000
	for n := range 3 * memoSpans / each {
		text := fmt.Sprintf("%06d", n) + strings.Repeat("x", 8*each)
		for range 2 {
			if spans, err := m.Find(t.Context(), text); err != nil || len(spans) < each {
				t.Fatal(len(spans), err)
			}
		}
	}
	sum := 0
	for _, spans := range m.cache.Values() {
		sum += len(spans)
	}
	if n := m.spans.Load(); sum > memoSpans || int64(sum) != n || n == 0 {
		t.Errorf("%d values are remembered, %d are counted", sum, n)
	}
}
