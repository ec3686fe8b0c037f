package classifyeval_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/autoeval"
	"bardo.money/gateway/e2e/classifyeval"
	"bardo.money/gateway/policy/classify"
)

const root = "../.."

var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// states reports whether a page has a row, whose numbers may differ a little: a quantised model's results depend on the processor's instructions, by which
// some prompts near a bound are judged one way or the other. Counts and percentages may differ by 3 or 6 %, numbers with decimals by 0.02.
func states(page, row string) bool {
	for line := range strings.Lines(page) {
		if number.ReplaceAllString(strings.TrimSpace(line), "n") != number.ReplaceAllString(row, "n") {
			continue
		}
		said, is := number.FindAllString(line, -1), number.FindAllString(row, -1)
		for i := range said {
			a, _ := strconv.ParseFloat(said[i], 64) // the pattern is a number's
			b, _ := strconv.ParseFloat(is[i], 64)
			if most := math.Max(0.06*b, 3); math.Abs(a-b) > most || strings.Contains(is[i], ".") && math.Abs(a-b) > 0.02 {
				return false
			}
		}
		return true
	}
	return false
}

// The built-in prototypes are those of the prompts beside them: `make prototypes`.
func TestR11ThePrototypesAreThoseOfThePrompts(t *testing.T) {
	want, err := classifyeval.Prototypes(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	made, err := classify.Read(want)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := classify.Prototypes()
	if err != nil {
		t.Fatal(err)
	}
	if made.Tag != kept.Tag || !made.Near(kept) {
		t.Error("policy/classify/prototypes.bin is of other prompts, or of another model: make prototypes")
	}
}

// The set is what the documents say of it.
func TestR11TheLabelledPrompts(t *testing.T) {
	tuning, err := classifyeval.Tuning(root)
	if err != nil {
		t.Fatal(err)
	}
	test, err := classifyeval.Test(root)
	if err != nil {
		t.Fatal(err)
	}
	seen, languages := map[string]bool{}, map[string]bool{}
	for _, p := range append(tuning, test...) {
		if seen[p.Text] {
			t.Errorf("%q is there twice", p.Text)
		}
		seen[p.Text], languages[p.Language] = true, true
	}
	if len(seen) < 240 || len(languages) < 10 {
		t.Errorf("%d prompts in %d languages", len(seen), len(languages))
	}
}

// The documents state what `make eval-classifier` prints.
func TestR11TheFiguresOfTheClassifier(t *testing.T) {
	r, err := classifyeval.Evaluate(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(root + "/docs/routing.md")
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Groups {
		if row := r.Groups[i].Row(); !states(string(page), row) {
			t.Errorf("docs/routing.md lacks\n%s", row)
		}
		if r.Groups[i].Worse > r.Groups[i].Better {
			t.Errorf("%+v", r.Groups[i])
		}
	}
}

// With the classifier, auto is not worse in any of its aims than without, and the documents state both.
func TestR11TheClassifierDoesNotHarmAuto(t *testing.T) {
	judge, closeModel, err := classifyeval.Judge(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer closeModel()
	page, err := os.ReadFile(root + "/docs/routing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{autoeval.Tuning, autoeval.Test} {
		rules, err := autoeval.Measure(half, nil)
		if err != nil {
			t.Fatal(err)
		}
		with, err := autoeval.Measure(half, judge)
		if err != nil {
			t.Fatal(err)
		}
		for i := range with {
			before, after := rules[i].All(), with[i].All()
			if after.EasyOnCheap < before.EasyOnCheap || after.HardOnStrong < before.HardOnStrong || after.Cost > before.Cost {
				t.Errorf("%s, %s: %+v became %+v", half, with[i].Setup.Name, before, after)
			}
			row := fmt.Sprintf("| %s | USD %.4f | USD %.4f |", with[i].Setup.Name, float64(before.Cost)/1e12, float64(after.Cost)/1e12)
			if half == autoeval.Test && !states(string(page), row) {
				t.Errorf("docs/routing.md lacks\n%s", row)
			}
		}
	}
}
