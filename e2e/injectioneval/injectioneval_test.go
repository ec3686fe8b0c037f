package injectioneval_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/injectioneval"
	"bardo.money/gateway/internal/modeltest"
)

func texts(t *testing.T, half string) []injectioneval.Text {
	t.Helper()
	out, err := injectioneval.Texts(half)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func measured(t *testing.T, half string) []injectioneval.Outcome {
	t.Helper()
	host, err := injectioneval.OpenModels(modeltest.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	}()
	out, err := injectioneval.Measure(t.Context(), host.Classifier(), texts(t, half))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheLabelledTexts(t *testing.T) {
	all, seen := 0, map[string]bool{}
	for _, half := range []string{injectioneval.Tuning, injectioneval.Test} {
		bad := 0
		for _, x := range texts(t, half) {
			if seen[x.Text] {
				t.Errorf("twice in the set: %s", x.Text)
			}
			seen[x.Text] = true
			all++
			if x.Injection {
				bad++
			}
		}
		if bad < 60 {
			t.Errorf("%s has %d injections", half, bad)
		}
	}
	if all < 400 {
		t.Errorf("%d texts", all)
	}
}

// TestNoHarmlessCodeSQLOrDeFiTextIsBlocked: of the whole set, with the real model.
func TestNoHarmlessCodeSQLOrDeFiTextIsBlocked(t *testing.T) {
	of := 0
	for _, half := range []string{injectioneval.Tuning, injectioneval.Test} {
		for _, o := range measured(t, half) {
			if !slices.Contains([]string{"code", "sql", "defi"}, o.Kind) {
				continue
			}
			of++
			if o.Found {
				t.Errorf("%.2f (patterns %.2f %v, model %.2f): %s", o.Score, o.Finding.Pattern, o.Finding.Kinds.Names(), o.Finding.Model, o.Text.Text)
			}
		}
	}
	if of < 80 {
		t.Errorf("%d texts", of)
	}
}

// TestTheFiguresOfTheDocument: docs/injection.md shows what is measured. The classifier's scores differ a little between processors, and with them two texts
// of a kind at most.
func TestTheFiguresOfTheDocument(t *testing.T) {
	const slack = 2
	page, err := os.ReadFile("../../docs/injection.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range injectioneval.Rows(measured(t, injectioneval.Test)) {
		var found, wrong int
		var recall, precision float64
		begin := fmt.Sprintf("| %s | %d | ", row.Kind, row.Injections)
		_, rest, ok := strings.Cut(string(page), begin)
		if !ok {
			t.Errorf("docs/injection.md lacks a row that begins with %q", begin)
			continue
		}
		line, _, _ := strings.Cut(rest, "\n")
		if _, err := fmt.Sscanf(line, fmt.Sprintf("%%d | %%f | %d | %%d | %%f |", row.Harmless), &found, &recall, &wrong, &precision); err != nil {
			t.Errorf("%s: %q: %v", row.Kind, line, err)
			continue
		}
		if abs(found-row.Found) > slack || abs(wrong-row.False) > slack {
			t.Errorf("docs/injection.md says %s%s, and measured are %d found, %d false", begin, line, row.Found, row.False)
		}
		said := injectioneval.Row{Injections: row.Injections, Found: found, False: wrong}
		if fmt.Sprintf("%.2f %.2f", recall, precision) != fmt.Sprintf("%.2f %.2f", said.Recall(), said.Precision()) {
			t.Errorf("docs/injection.md: recall and precision of %s%s are %.2f and %.2f", begin, line, said.Recall(), said.Precision())
		}
	}
}

func abs(n int) int { return max(n, -n) }
