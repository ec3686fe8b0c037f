package semeval_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/semeval"
	"bardo.money/gateway/e2e/semeval/model"
)

// measured compares the pairs of a half with the real model.
func measured(t *testing.T, test bool) semeval.Result {
	t.Helper()
	pairs, err := semeval.Pairs()
	if err != nil {
		t.Fatal(err)
	}
	host, embedder, err := model.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := semeval.Measure(t.Context(), embedder, embedder.Threshold(), semeval.Half(pairs, test))
	if err != nil {
		t.Fatalf("run `make models`: %v", err)
	}
	return r
}

// TestK59NoLookAlikeIsTakenForAnother, in either half, and four of ten paraphrases are.
func TestK59NoLookAlikeIsTakenForAnother(t *testing.T) {
	for half, r := range map[string]semeval.Result{"test": measured(t, true), "tuning": measured(t, false)} {
		for _, wrong := range r.Wrong {
			t.Errorf("%s half: %s", half, wrong)
		}
		if c := r.By["paraphrase"]; float64(c.Hits) < 0.4*float64(c.Pairs) {
			t.Errorf("%s half: %d of %d paraphrases are hits", half, c.Hits, c.Pairs)
		}
		if c := r.By["typing"]; c.Hits != c.Pairs {
			t.Errorf("%s half: %d of %d typed otherwise are hits", half, c.Hits, c.Pairs)
		}
	}
}

// TestTheFormComesFirstForAReason: without it the model takes many look-alikes for the same.
func TestTheFormComesFirstForAReason(t *testing.T) {
	r := measured(t, true)
	similar, pairs := 0, 0
	for name, c := range r.By {
		if name != "paraphrase" && name != "typing" {
			similar, pairs = similar+c.Similar, pairs+c.Pairs
		}
	}
	if float64(similar) < 0.3*float64(pairs) {
		t.Errorf("%d of %d look-alikes are similar: the document says more", similar, pairs)
	}
}

func TestThePairs(t *testing.T) {
	pairs, err := semeval.Pairs()
	if err != nil {
		t.Fatal(err)
	}
	by, seen := map[string]int{}, map[string]bool{}
	for _, p := range pairs {
		by[p.Category]++
		if p.First == p.Second {
			t.Errorf("%s: %q twice", p.Category, p.First)
		}
		seen[p.First+"\n"+p.Second] = true
	}
	for _, name := range semeval.Categories {
		if by[name] < 12 {
			t.Errorf("%s has %d pairs", name, by[name])
		}
	}
	if test := len(semeval.Half(pairs, true)); len(pairs) < 550 || len(seen) < 500 || test < 250 || len(pairs)-test < 250 {
		t.Errorf("%d pairs, %d different ones, %d for the test", len(pairs), len(seen), test)
	}
}

// TestTheFiguresOfTheDocument: a quantised model is not quite the same on every processor, so that a few pairs at the threshold may differ.
func TestTheFiguresOfTheDocument(t *testing.T) {
	const may = 3
	page, err := os.ReadFile("../../docs/caching.md")
	if err != nil {
		t.Fatal(err)
	}
	r := measured(t, true)
	for _, name := range semeval.Categories {
		_, row, _ := strings.Cut(string(page), "\n| "+name+" |")
		row, _, _ = strings.Cut(row, "|\n")
		c, said := r.By[name], semeval.Count{}
		if _, err := fmt.Sscanf(row, "%d | %d | %d", &said.Pairs, &said.Similar, &said.Hits); err != nil {
			t.Errorf("docs/caching.md has no figures of %s: %v", name, err)
		}
		if said.Pairs != c.Pairs || math.Abs(float64(said.Similar-c.Similar)) > may || math.Abs(float64(said.Hits-c.Hits)) > may || said.Hits > 0 != (c.Hits > 0) {
			t.Errorf("docs/caching.md says %+v of %s, measured are %+v", said, name, c)
		}
	}
}
