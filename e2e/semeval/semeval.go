// Package semeval measures how often the semantic cache takes two questions for the same, rightly and wrongly: labelled pairs go through the guard and the
// embedding model as questions of requests do.
package semeval

import (
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"bardo.money/gateway/extproc/cache/semantic"
)

//go:embed testdata/pairs.txt
var files embed.FS

// Pair is two questions.
type Pair struct {
	Category      string
	First, Second string
	Same          bool // they mean the same
	Test          bool // of the half that nothing was tuned with
}

// Pairs are all pairs, written and made.
func Pairs() ([]Pair, error) {
	all, err := files.ReadFile("testdata/pairs.txt")
	if err != nil {
		return nil, err
	}
	var out []Pair
	for line := range strings.Lines(string(all)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 3 || !slices.Contains(Categories, parts[0]) {
			return nil, fmt.Errorf("%q: expected category | question | question", line)
		}
		out = append(out, pair(parts[0], parts[1], parts[2]))
	}
	return append(out, made()...), nil
}

// Categories of pairs. Those of the first two mean the same.
var Categories = []string{"paraphrase", "typing", "number", "negation", "direction", "opposite", "entity", "date", "unit", "aspect", "language"}

func pair(category, first, second string) Pair {
	sum := sha256.Sum256([]byte(first + "\n" + second))
	return Pair{category, first, second, category == "paraphrase" || category == "typing", sum[0]&1 == 1}
}

// Half returns the pairs for the test, or for tuning.
func Half(pairs []Pair, test bool) (half []Pair) {
	for _, p := range pairs {
		if p.Test == test {
			half = append(half, p)
		}
	}
	return half
}

// Count is what became of the pairs of a category.
type Count struct {
	Pairs   int
	Similar int // taken for the same by the model's threshold alone
	Hits    int // by guard and threshold
	Forms   int // by the guard alone
}

// Result is what became of the pairs.
type Result struct {
	By    map[string]Count
	Wrong []string // pairs that were taken for the same and are not, with their similarity
	Lost  []string // pairs that mean the same and were not taken for it
}

// Measure compares the pairs.
func Measure(ctx context.Context, e semantic.Embedder, threshold float64, pairs []Pair) (Result, error) {
	r := Result{By: map[string]Count{}}
	for _, p := range pairs {
		a, err := e.Embed(ctx, semantic.Plain(p.First))
		if err != nil {
			return r, err
		}
		b, err := e.Embed(ctx, semantic.Plain(p.Second))
		if err != nil {
			return r, err
		}
		r.add(&p, semantic.Cosine(a, b), threshold)
	}
	return r, nil
}

func (r *Result) add(p *Pair, similarity, threshold float64) {
	c := r.By[p.Category]
	c.Pairs++
	one, other := semantic.FormOf(p.First), semantic.FormOf(p.Second)
	similar := similarity >= threshold
	if similar {
		c.Similar++
	}
	if one == other {
		c.Forms++
	}
	hit := similar && one == other
	if hit {
		c.Hits++
	}
	r.By[p.Category] = c
	switch line := fmt.Sprintf("%.3f %s: %s | %s\n        %s\n        %s", similarity, p.Category, p.First, p.Second, one, other); {
	case hit && !p.Same:
		r.Wrong = append(r.Wrong, line)
	case !hit && p.Same:
		r.Lost = append(r.Lost, line)
	}
}

// Write prints the table; with details, every pair that went wrong or was lost, too.
func (r *Result) Write(w io.Writer, details bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CATEGORY\tPAIRS\tSIMILAR\tSAME FORM\tHITS")
	for _, name := range Categories {
		c := r.By[name]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\n", name, c.Pairs, c.Similar, c.Forms, c.Hits)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nwrong hits: %d\n", len(r.Wrong))
	for _, line := range r.Wrong {
		fmt.Fprintln(w, line)
	}
	if !details {
		return nil
	}
	fmt.Fprintf(w, "\nlost hits: %d\n", len(r.Lost))
	for _, line := range r.Lost {
		fmt.Fprintln(w, line)
	}
	return nil
}
