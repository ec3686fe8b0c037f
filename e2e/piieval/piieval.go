// Package piieval measures how well personal data and secrets are found: labelled texts go through the built-in detectors, and each type's recall and precision
// is counted. Detectors are changed with the tuning half of the texts in view; the figures of docs/pii.md are of the test half.
package piieval

import (
	"context"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"bardo.money/gateway/extproc/pii"
)

//go:embed testdata/texts.txt
var files embed.FS

// Text is a labelled text.
type Text struct {
	Language string
	Text     string
	Values   []pii.Span // sorted
	Test     bool       // of the half that nothing is tuned with
}

// Half returns the texts for the test, or for tuning.
func Half(texts []Text, test bool) (half []Text) {
	for i := range texts {
		if texts[i].Test == test {
			half = append(half, texts[i])
		}
	}
	return half
}

// Texts reads the labelled set. Of the templates of each type, in the order of the file, every other one is for the test: texts that differ in their values alone are in
// the same half.
func Texts() ([]Text, error) {
	all, err := files.ReadFile("testdata/texts.txt")
	if err != nil {
		return nil, err
	}
	var out []Text
	tests := map[string]bool{} // by template
	last := map[string]bool{}  // of the templates of a type, whether the last one is for the test
	for line := range strings.Lines(strings.ReplaceAll(string(all), "¦", "")) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		t, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("%.60s: %w", line, err)
		}
		name, first := t.template()
		test, known := tests[name]
		if !known {
			test = !last[string(first)]
			tests[name], last[string(first)] = test, test
		}
		t.Test = test
		out = append(out, t)
	}
	return out, nil
}

// template is what texts have in common that differ in values, numbers, hashes, case or punctuation alone: their words, and the types of values in their places. first is
// the type of the first value; "" for a text without values.
func (t *Text) template() (name string, first pii.Type) {
	var plain strings.Builder
	done := 0
	for _, v := range t.Values {
		if first == "" {
			first = v.Type
		}
		plain.WriteString(t.Text[done:v.Start] + " " + string(v.Type) + " ")
		done = v.End
	}
	plain.WriteString(t.Text[done:])
	words := strings.FieldsFunc(strings.ToLower(plain.String()), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = slices.DeleteFunc(words, func(w string) bool { return strings.ContainsFunc(w, unicode.IsDigit) })
	return strings.Join(words, ""), first
}

func parse(line string) (t Text, err error) {
	language, rest, ok := strings.Cut(line, " | ")
	if !ok {
		return t, fmt.Errorf("expected: language | text")
	}
	t.Language = language
	rest = strings.ReplaceAll(rest, `\n`, "\n")
	for {
		before, after, found := strings.Cut(rest, "[[")
		t.Text += before
		if !found {
			return t, nil
		}
		label, behind, closed := strings.Cut(after, "]]")
		name, value, typed := strings.Cut(label, ":")
		if !closed || !typed || !slices.Contains(pii.Builtin, pii.Type(strings.ToUpper(name))) {
			return t, fmt.Errorf("expected [[type:value]]")
		}
		t.Values = append(t.Values, pii.Span{Start: len(t.Text), End: len(t.Text) + len(value), Type: pii.Type(strings.ToUpper(name))})
		t.Text += value
		rest = behind
	}
}

// Count is what was found of a type.
type Count struct{ Labelled, Found, Right int }

// Recall is the share of the labelled values that were found whole, as their type.
func (c Count) Recall() float64 { return share(c.Right, c.Labelled) }

// Precision is the share of what was found that is labelled so.
func (c Count) Precision() float64 { return share(c.Right, c.Found) }

func share(a, b int) float64 {
	if b == 0 {
		return 1
	}
	return float64(a) / float64(b)
}

// Result is what was found.
type Result struct {
	Types  map[pii.Type]Count
	Misses []string // what was not found, and what was found wrongly
}

// Measure searches the texts for all types.
func Measure(ctx context.Context, texts []Text) (Result, error) {
	r := Result{Types: map[pii.Type]Count{}} //nolint:exhaustive // filled below
	s := pii.NewScanner(pii.Detectors{Types: pii.Builtin})
	for i := range texts {
		t := &texts[i]
		found, err := s.Find(ctx, t.Text)
		if err != nil {
			return r, err
		}
		for _, v := range t.Values {
			c := r.Types[v.Type]
			c.Labelled++
			if slices.ContainsFunc(found, func(f pii.Span) bool { return same(f, v) }) {
				c.Right++
			} else {
				r.Misses = append(r.Misses, fmt.Sprintf("%s not found: %s", v.Type, t.Text))
			}
			r.Types[v.Type] = c
		}
		for _, f := range found {
			c := r.Types[f.Type]
			c.Found++
			r.Types[f.Type] = c
			if !slices.ContainsFunc(t.Values, func(v pii.Span) bool { return same(f, v) }) {
				r.Misses = append(r.Misses, fmt.Sprintf("%s is none: %s in %s", f.Type, t.Text[f.Start:f.End], t.Text))
			}
		}
	}
	return r, nil
}

func same(a, b pii.Span) bool { return a.Start == b.Start && a.End == b.End && a.Type == b.Type }

// Rows are the lines of the table in docs/pii.md, by type.
func (r Result) Rows() (rows []string) {
	for _, t := range pii.Builtin {
		c := r.Types[t]
		rows = append(rows, fmt.Sprintf("| `%s` | %d | %.3f | %.3f |", strings.ToLower(string(t)), c.Labelled, c.Recall(), c.Precision()))
	}
	return rows
}

// Write prints the table, and with all every miss.
func (r Result) Write(w io.Writer, all bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TYPE\tLABELLED\tFOUND\tRECALL\tPRECISION")
	for _, typ := range pii.Builtin {
		c := r.Types[typ]
		fmt.Fprintf(t, "%s\t%d\t%d\t%.3f\t%.3f\n", strings.ToLower(string(typ)), c.Labelled, c.Found, c.Recall(), c.Precision())
	}
	if err := t.Flush(); err != nil || !all {
		return err
	}
	_, err := fmt.Fprintln(w, "\n"+strings.Join(r.Misses, "\n"))
	return err
}
