// Package injectioneval measures how well instructions for a model are found: labelled texts go through the detector with the local classifier, as layer l8
// uses it, and recall and precision are counted by kind of text.
package injectioneval

import (
	"context"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"bardo.money/gateway/extproc/injection"
)

//go:embed testdata/*.txt
var files embed.FS

// The parts of the labelled set. Patterns, weights and threshold were chosen with the one, and the figures are of the other.
const (
	Tuning = "tuning"
	Test   = "test"
)

// Text is a labelled text.
type Text struct {
	Kind      string
	Source    injection.Source
	Injection bool // it holds instructions that it should not hold
	Text      string
}

// Texts reads a part of the labelled set.
func Texts(part string) ([]Text, error) {
	all, err := files.ReadFile("testdata/" + part + ".txt")
	if err != nil {
		return nil, err
	}
	var out []Text
	for line := range strings.Lines(string(all)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		t, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("%.60s: %w", line, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func parse(line string) (t Text, err error) {
	head, text, ok := strings.Cut(line, " | ")
	fields := strings.Fields(head)
	if !ok || len(fields) != 3 || fields[2] != "+" && fields[2] != "-" {
		return t, fmt.Errorf("expected: kind source label | text")
	}
	t.Kind, t.Injection = fields[0], fields[2] == "+"
	i := slices.IndexFunc(injection.Sources(), func(s injection.Source) bool { return s.String() == fields[1] })
	if i < 0 {
		return t, fmt.Errorf("there is no source %q", fields[1])
	}
	t.Source = injection.Sources()[i]
	t.Text, err = written(strings.ReplaceAll(text, `\n`, "\n"))
	return t, err
}

// Outcome is what was found in a text.
type Outcome struct {
	Text

	Finding injection.Finding
	Score   float64
	Found   bool // it counts as an injection
}

// Measure looks into texts, with the default threshold.
func Measure(ctx context.Context, c injection.Classifier, texts []Text) ([]Outcome, error) {
	d := injection.NewDetector(c, 0, func(error) bool { return false })
	out := make([]Outcome, len(texts))
	for i, t := range texts {
		f, err := d.Find(ctx, t.Text)
		if err != nil {
			return nil, err
		}
		score := f.Score(t.Source)
		out[i] = Outcome{Text: t, Finding: f, Score: score, Found: score >= injection.DefaultThreshold}
	}
	return out, nil
}

// Row are the figures of a kind of text.
type Row struct {
	Kind                 string
	Injections, Harmless int // texts
	Found, False         int // of either, those that count as injections
}

// Recall is the share of the injections that were found.
func (r *Row) Recall() float64 { return share(r.Found, r.Injections) }

// Precision is the share of what was found that is one.
func (r *Row) Precision() float64 { return share(r.Found, r.Found+r.False) }

func share(a, b int) float64 {
	if b == 0 {
		return 1
	}
	return float64(a) / float64(b)
}

// All is the kind of the row for all texts.
const All = "all"

// Rows are the figures by kind, in the set's order, and of all texts.
func Rows(of []Outcome) []Row {
	rows, all := []Row(nil), Row{Kind: All}
	for i := range of {
		o := &of[i]
		at := slices.IndexFunc(rows, func(r Row) bool { return r.Kind == o.Kind })
		if at < 0 {
			at = len(rows)
			rows = append(rows, Row{Kind: o.Kind})
		}
		for _, r := range []*Row{&rows[at], &all} {
			r.add(o)
		}
	}
	return append(rows, all)
}

func (r *Row) add(o *Outcome) {
	switch {
	case o.Injection && o.Found:
		r.Injections, r.Found = r.Injections+1, r.Found+1
	case o.Injection:
		r.Injections++
	case o.Found:
		r.Harmless, r.False = r.Harmless+1, r.False+1
	default:
		r.Harmless++
	}
}

// Write prints the figures, and with all every text that was judged wrongly.
func Write(w io.Writer, of []Outcome, all bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tINJECTIONS\tFOUND\tRECALL\tHARMLESS\tFALSE\tPRECISION")
	for _, r := range Rows(of) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.2f\t%d\t%d\t%.2f\n", r.Kind, r.Injections, r.Found, r.Recall(), r.Harmless, r.False, r.Precision())
	}
	if err := t.Flush(); err != nil || !all {
		return err
	}
	for i := range of {
		if o := &of[i]; o.Injection != o.Found {
			fmt.Fprintf(w, "%.2f (patterns %.2f %v, model %.2f) %s %s: %s\n", o.Score, o.Finding.Pattern, o.Finding.Kinds.Names(), o.Finding.Model, o.Kind, o.Source, o.Text.Text)
		}
	}
	return nil
}
