package injection

import (
	"math/bits"
	"regexp"
	"strings"
)

// unit is a part of a text that patterns and classifier judge together: what they say of different places does not add up.
type unit struct {
	text    string // as the classifier reads it; "" for one that is not scored
	folded  string // as patterns are matched with
	encoded bool
	compact bool // without white space
	guessed bool // it may be read so, and need not: patterns that are not sure say nothing

	kinds   Kinds
	weights [len(kindNames)]float64 // the highest of each kind
	model   float64
}

// weight is the probability that the patterns are right.
func (u *unit) weight() float64 {
	rest := 1.0
	for _, w := range u.weights {
		rest *= 1 - w
	}
	return 1 - rest
}

// combined is the probability that the patterns are right, or the classifier with its score.
func combined(weight, score float64, s Source) float64 { return 1 - (1-weight)*(1-trust[s]*score) }

// match looks for the patterns in a unit, except those in skip, which have matched where nothing was encoded. It returns those that match.
func (u *unit) match(about bool, skip map[*pattern]bool) (matched []*pattern) {
	list := patterns
	if u.compact {
		list = compactPatterns
	}
	strict := u.guessed || isCode(u.text)
	for i := range list {
		p := &list[i]
		if skip[p] || strict && p.weight < sure {
			continue
		}
		ok, quoted := p.in(u.folded)
		if !ok {
			continue
		}
		matched = append(matched, p)
		w := p.weight
		switch {
		case u.encoded && w >= likely: // what is said in a code is meant to pass unseen
			w = sure
		case quoted && about:
			w = min(w, hint)
		}
		u.note(p.kind, w)
	}
	return matched
}

func (u *unit) note(k Kinds, weight float64) {
	at := &u.weights[bits.TrailingZeros8(uint8(k))]
	*at, u.kinds = max(*at, weight), u.kinds|k
}

// around is how many bytes before and behind a word the expressions are matched with.
const around = 240

// in reports whether the pattern is in a text, and whether all of its matches stand in quotes.
func (p *pattern) in(text string) (ok, quoted bool) {
	for _, word := range p.words {
		for at := 0; ; {
			i := strings.Index(text[at:], word)
			if i < 0 {
				break
			}
			i += at
			from, to := max(at-around, i-around, 0), min(i+len(word)+around, len(text))
			if m := p.re.FindStringIndex(text[from:to]); m != nil {
				if !inQuotes(text, from+m[0]) {
					return true, false
				}
				ok = true
			}
			at = max(i+len(word), to-around)
		}
	}
	return ok, ok
}

// topics are words of texts about injections.
var topics = []string{
	"prompt injection", "prompt-injection", "jailbreak", "attacker", "adversarial", "red team", "red-team", "owasp", "malicious prompt", "injection attack", "security research", "classifier", "detect", "guardrail",
}

// isAbout reports whether a text may be about injections.
func isAbout(text string) bool {
	for _, t := range topics {
		if strings.Contains(text, t) {
			return true
		}
	}
	return false
}

// quoteReach is how many bytes before a match its opening quote may stand.
const quoteReach = 60

// inQuotes reports whether a quote is open at a place of a text.
func inQuotes(text string, at int) bool {
	before := text[max(0, at-quoteReach):at]
	for _, q := range [...]string{`"`, "`", "“", "«", "„", "‘", " '", ">"} {
		i := strings.LastIndex(before, q)
		if i < 0 {
			continue
		}
		if rest := before[i+len(q):]; !strings.ContainsAny(rest, "\"`”»") && !strings.Contains(rest, "’ ") && !strings.Contains(rest, "' ") {
			return true
		}
	}
	return false
}

// signs are what programs, queries and logs of commands have, and other texts seldom. JSON and HTML have none of them.
var signs = regexp.MustCompile(`;\s*(?:\n|$)|[{}(]\s*\n|\)\s*[;{]|:=|[!=<>]=|=>|->|&&|\|\||\+\+|\+=|\w\(\)|\w+\([\w"'.]+(?:, ?[\w"'.*&]+)*\)|//|/\*|^\s*(?:#|\$|>>>) ?\w|\w+\[\w*\]|\w=["\w$]|\$[{(\w]|(?m:^)[-+@ ]*(?:package|import|from|func|fn|def|class|const|var|let|return|if|for|while|switch|case|public|private|static|struct|type|#include|@[A-Z]\w+|RUN|FROM|COPY|ENTRYPOINT|ENV|diff|git|kubectl|npm|pip|go)\b|\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|GRANT|REVOKE|WHERE|JOIN|VALUES)\b`)

// minSigns is how many signs make a text code, and signsPer how many bytes may have one.
const (
	minSigns = 3
	signsPer = 60
)

// isCode reports whether a text is a program, a query, or what a tool of programmers prints. The classifier is sure of many that they hold instructions.
func isCode(text string) bool {
	n := len(signs.FindAllStringIndex(text, windowBytes))
	return n >= minSigns && n*signsPer >= len(text)
}
