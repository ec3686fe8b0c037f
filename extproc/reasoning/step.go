package reasoning

import (
	"strconv"
	"strings"
)

// Step is a paragraph of visible reasoning.
type Step struct {
	Kind       StepKind `json:"step_type"`
	Content    string   `json:"content"`
	Confidence *float64 `json:"confidence"` // 0 to 1, from a percentage in the text; nil if it has none
}

// StepKind is the function of a step in the reasoning.
type StepKind uint8

// The kinds.
const (
	Analysis    StepKind = iota // the default
	Planning                    // what to do next
	Evaluation                  // comparing or checking
	Reflection                  // reconsidering an earlier step
	Uncertainty                 // stating what is unknown
	Decision                    // a conclusion
)

var stepKinds = [...]string{
	Analysis: "analysis", Planning: "planning", Evaluation: "evaluation", Reflection: "reflection", Uncertainty: "uncertainty", Decision: "decision",
}

// String is the name in JSON.
func (k StepKind) String() string { return stepKinds[k] }

// MarshalText implements encoding.TextMarshaler.
func (k StepKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

const (
	maxSteps = 64   // the last one has the rest of the text
	cueText  = 1024 // bytes of a step that are searched for cues
)

// cues are the phrases by which steps are classified. The first kind with a phrase at the start of the step applies, else the first one with
// a phrase anywhere in it. Phrases match whole words.
var cues = []struct {
	kind  StepKind
	words []string
}{
	{Reflection, []string{"wait", "hmm", "on second thought", "actually", "let me reconsider", "let me rethink", "i made a mistake", "looking back", "i was wrong"}},
	{Decision, []string{"therefore", "so the answer", "the answer is", "final answer", "in conclusion", "i'll go with", "i will go with", "i decide", "decision:", "to conclude", "thus"}},
	{Planning, []string{"first", "next", "then i", "plan:", "the plan", "my plan", "step 1", "let me start", "i need to", "i should", "i'll start", "let's", "we need to", "to do this"}},
	{Uncertainty, []string{"not sure", "uncertain", "unclear", "maybe", "perhaps", "i don't know", "might be", "could be", "hard to say", "ambiguous"}},
	{Evaluation, []string{"compare", "compared", "check", "verify", "let me check", "on the other hand", "however", "better", "worse", "pros", "cons", "risk", "trade-off", "weigh", "is correct", "is wrong"}},
}

// Steps splits visible reasoning into paragraphs and classifies each of them by English phrases near its start. It is a cheap heuristic.
func Steps(content string) []Step {
	steps := []Step{}
	for rest := content; rest != ""; {
		var part string
		if part, rest = paragraph(rest); len(steps) == maxSteps-1 {
			part, rest = strings.TrimSpace(part+rest), ""
		}
		if part != "" {
			steps = append(steps, step(part))
		}
	}
	return steps
}

// paragraph splits off the first paragraph, which ends at an empty line.
func paragraph(s string) (part, rest string) {
	part, rest, _ = strings.Cut(s, "\n\n")
	return strings.TrimSpace(part), rest
}

func step(content string) Step {
	low := strings.ToLower(content[:min(len(content), cueText)])
	return Step{Kind: kindOf(low), Content: content, Confidence: confidence(low)}
}

func kindOf(low string) StepKind {
	for _, c := range cues {
		for _, w := range c.words {
			if strings.HasPrefix(low, w) && isWord(low, 0, len(w)) {
				return c.kind
			}
		}
	}
	for _, c := range cues {
		for _, w := range c.words {
			if containsWord(low, w) {
				return c.kind
			}
		}
	}
	return Analysis
}

// containsWord reports whether a text contains a phrase as whole words.
func containsWord(s, word string) bool {
	for from := 0; ; {
		i := strings.Index(s[from:], word)
		if i < 0 {
			return false
		}
		i += from
		if isWord(s, i, i+len(word)) {
			return true
		}
		from = i + 1
	}
}

// isWord reports whether s[from:to] is not part of a longer word.
func isWord(s string, from, to int) bool {
	return (from == 0 || !isLetter(s[from-1])) && (to == len(s) || !isLetter(s[to]) || !isLetter(s[to-1]))
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' }

// confidence is the model's stated confidence: a percentage before "confident", "sure", "certain" or "confidence", or after "confidence:".
func confidence(low string) *float64 {
	for i := strings.IndexByte(low, '%'); i >= 0; {
		if n, ok := numberBefore(low[:i]); ok && isConfidence(low, i) {
			return &n
		}
		next := strings.IndexByte(low[i+1:], '%')
		if next < 0 {
			return nil
		}
		i += 1 + next
	}
	return nil
}

// isConfidence reports whether the percent sign at i is about confidence.
func isConfidence(low string, i int) bool {
	behind := strings.TrimLeft(low[i+1:], " ")
	for _, w := range [...]string{"confident", "confidence", "sure", "certain"} {
		if strings.HasPrefix(behind, w) {
			return true
		}
	}
	before := strings.TrimRight(low[:i], "0123456789. ")
	before = strings.TrimSuffix(before, ":")
	before = strings.TrimSuffix(before, " is")
	before = strings.TrimSuffix(before, " at")
	return strings.HasSuffix(before, "confidence")
}

// numberBefore is the number at the end of a text, divided by 100.
func numberBefore(s string) (float64, bool) {
	from := len(s)
	for from > 0 && (s[from-1] >= '0' && s[from-1] <= '9' || s[from-1] == '.') {
		from--
	}
	n, err := strconv.ParseFloat(s[from:], 64)
	return n / 100, err == nil && n <= 100
}
