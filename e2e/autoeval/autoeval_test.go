package autoeval_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/autoeval"
)

func measured(t *testing.T) []autoeval.Measured {
	t.Helper()
	m, err := autoeval.Measure(autoeval.Test, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The aims, for the half that nothing was tuned on.
func TestAutoChoosesWhatFits(t *testing.T) {
	for _, m := range measured(t) {
		f := m.All()
		if f.EasyOnCheap < 0.95 || f.HardOnStrong < 0.95 || f.Saved() < 0.6 {
			t.Errorf("%s: easy on cheap %.3f, hard on strong %.3f, saved %.3f", m.Setup.Name, f.EasyOnCheap, f.HardOnStrong, f.Saved())
		}
		for _, o := range m.Of {
			if o.Candidates < 4 || !strings.Contains(m.Setup.Name, "alone") && o.Providers < 2 {
				t.Errorf("%s: %.40q: %d candidates over %d providers", m.Setup.Name, o.Prompt.Turns[0], o.Candidates, o.Providers)
			}
			if o.Prompt.Easy() && !o.OnCheap() || o.Prompt.Hard() && !o.OnStrong() {
				t.Logf("%s: %s %s: %.60q: %.2f of %v goes to %s", m.Setup.Name, o.Prompt.Level, o.Prompt.Kind, o.Prompt.Turns[0], o.Task.Difficulty, o.Task.Points(), o.To.Model)
			}
		}
	}
}

// The set is what the documents say of it: two halves without a common prompt, twelve kinds, four difficulties, several languages.
func TestTheLabelledSet(t *testing.T) {
	seen := map[string]bool{}
	total := 0
	for _, half := range []string{autoeval.Tuning, autoeval.Test} {
		prompts, err := autoeval.Prompts(half)
		if err != nil {
			t.Fatal(err)
		}
		cells, languages := map[string]int{}, map[string]bool{}
		for i := range prompts {
			p := &prompts[i]
			text := strings.Join(p.Turns, "\n")
			if seen[text] || p.Answer <= 0 || !slices.Contains(autoeval.Levels, p.Level) {
				t.Errorf("%s: %.40q", half, text)
			}
			seen[text], languages[p.Language] = true, true
			cells[p.Kind+" "+p.Level]++
		}
		if total += len(prompts); len(cells) != 48 || len(languages) < 11 {
			t.Errorf("%s: %d cells, %d languages", half, len(cells), len(languages))
		}
		for cell, n := range cells {
			if n != 3 {
				t.Errorf("%s: %d of %s", half, n, cell)
			}
		}
	}
	if total != 288 {
		t.Errorf("%d prompts", total)
	}
}

// The documents state what the evaluation prints.
func TestTheFiguresOfTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/routing.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range measured(t) {
		if !strings.Contains(string(text), m.Row()) {
			t.Errorf("docs/routing.md lacks\n%s", m.Row())
		}
		if claim := m.Claim(); i == 0 && !strings.Contains(strings.Join(strings.Fields(string(readme)), " "), claim) {
			t.Errorf("README.md lacks\n%s", claim)
		}
	}
}
