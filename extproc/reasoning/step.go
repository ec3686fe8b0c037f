package reasoning

import (
	"strconv"
	"strings"
)

// Step is a paragraph of visible reasoning.
type Step struct {
	Kind       StepKind `json:"step_type"`
	Content    string   `json:"content"`
	Confidence *float64 `json:"confidence"` // 0 to 1, as the model itself puts it in percent; nil when it does not
}

// StepKind is what a step does for the answer.
type StepKind uint8

// The kinds.
const (
	Analysis    StepKind = iota // looks at what is given; also what no rule fits
	Planning                    // says what to do next
	Evaluation                  // weighs or checks
	Reflection                  // goes back on what was said
	Uncertainty                 // says what is not known
	Decision                    // settles it
)

var stepKinds = [...]string{
	Analysis: "analysis", Planning: "planning", Evaluation: "evaluation", Reflection: "reflection", Uncertainty: "uncertainty", Decision: "decision",
}

// String is the kind's name, as clients read it.
func (k StepKind) String() string { return stepKinds[k] }

// MarshalText implements encoding.TextMarshaler.
func (k StepKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

const (
	maxSteps = 64   // the last one holds the rest
	cueText  = 1024 // bytes of a step that are looked at for cues
)

// cues are the words that tell what a step does. The first kind of which one begins the step counts; else the first of which one
// stands anywhere in it. A word counts only as a whole.
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

// Steps cuts visible reasoning into its paragraphs, and says what each of them does, by the words that it uses. It is a guess from
// words, in English, that costs a look at each paragraph's beginning: it reads meaning into nothing.
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

// paragraph cuts the first paragraph off: what comes before an empty line.
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
			if holds(low, w) {
				return c.kind
			}
		}
	}
	return Analysis
}

// holds reports whether a word stands in a text as a whole.
func holds(s, word string) bool {
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

// isWord reports whether no letter goes on before or behind a part of a text.
func isWord(s string, from, to int) bool {
	return (from == 0 || !isLetter(s[from-1])) && (to == len(s) || !isLetter(s[to]) || !isLetter(s[to-1]))
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' }

// confidence is how sure the model says it is: a number of percent before "confident", "sure", "certain" or "confidence", or after
// "confidence:".
func confidence(low string) *float64 {
	for i := strings.IndexByte(low, '%'); i >= 0; {
		if n, ok := numberBefore(low[:i]); ok && tells(low, i) {
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

// tells reports whether the percent sign at i is about confidence.
func tells(low string, i int) bool {
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

// numberBefore is the number that a text ends in, as a part of a hundred.
func numberBefore(s string) (float64, bool) {
	from := len(s)
	for from > 0 && (s[from-1] >= '0' && s[from-1] <= '9' || s[from-1] == '.') {
		from--
	}
	n, err := strconv.ParseFloat(s[from:], 64)
	return n / 100, err == nil && n <= 100
}
