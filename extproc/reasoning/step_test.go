package reasoning_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/reasoning"
)

func TestStepsAreClassifiedByCues(t *testing.T) {
	for text, want := range map[string]string{
		"The pool holds 3 ETH.":                              "analysis",
		"First I look at the pool.":                          "planning",
		"I need to compare the two.":                         "planning",
		"Compare: A is cheaper, but slower.":                 "evaluation",
		"A is cheaper; however, it is slower.":               "evaluation",
		"Wait, that is wrong.":                               "reflection",
		"It was, on second thought, too much.":               "reflection",
		"Perhaps the feed is stale.":                         "uncertainty",
		"The feed might be stale.":                           "uncertainty",
		"Therefore I sell.":                                  "decision",
		"The risk is low, so the answer is yes.":             "decision",
		"Nextel is a name, and the thaw is a season.":        "analysis",
		"Ist das so? Das ist eine Frage, die niemand kennt.": "analysis",
	} {
		got := reasoning.Steps(text)
		if len(got) != 1 || got[0].Kind.String() != want || got[0].Content != text || got[0].Confidence != nil {
			t.Errorf("%q is %v, want %s", text, got, want)
		}
	}
}

func TestConfidenceOfSteps(t *testing.T) {
	for text, want := range map[string]float64{
		"I am 80% sure that it holds.":  0.8,
		"So I'd say 95.5 % confident.":  -1,
		"So I'd say 95.5% confident.":   0.955,
		"Confidence: 70%.":              0.7,
		"My confidence is 60% here.":    0.6,
		"It fell 12%, and I am unsure.": -1,
		"At 300% certain?":              -1,
	} {
		got := reasoning.Steps(text)[0].Confidence
		if got == nil && want < 0 || got != nil && *got == want {
			continue
		}
		t.Errorf("%q: %v, want %v", text, got, want)
	}
}

func TestStepsAreBounded(t *testing.T) {
	if got := reasoning.Steps("\n\n a\n\n\n\nb \n\n"); len(got) != 2 || got[0].Content != "a" || got[1].Content != "b" {
		t.Errorf("got %v", got)
	}
	got := reasoning.Steps(strings.Repeat("a\n\n", 1000))
	if last := got[len(got)-1].Content; len(got) != 64 || strings.Count(last, "a") != 1000-63 {
		t.Errorf("%d steps, the last of %d", len(got), strings.Count(last, "a"))
	}
	if got := reasoning.Steps(""); got == nil || len(got) != 0 {
		t.Errorf("got %v", got)
	}
}
