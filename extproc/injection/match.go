package injection

import (
	"math/bits"
	"regexp"
	"strings"
	"unicode/utf8"
)

// unit is a part of a text that patterns and classifier judge together: what they say of different places does not add up.
type unit struct {
	text    string // as the classifier reads it; "" for one that is not scored
	folded  string // as patterns are matched with
	encoded bool
	compact bool // without white space
	guessed bool // it may be read so, and need not: patterns that are not sure say nothing

	code    codeState
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
func (u *unit) match(about bool, skip map[*compiled]bool) (matched []*compiled) {
	set := readable()
	if u.compact {
		set = compact()
	}
	found := set.words.in(u.folded)
	for i := range set.list {
		p := &set.list[i]
		if !set.may(i, &found) || skip[p] || u.guessed && p.weight < sure {
			continue
		}
		ok, quoted := p.in(u.folded, about)
		if !ok || p.weight < sure && u.isCode() {
			continue
		}
		matched = append(matched, p)
		w := p.weight
		switch {
		case u.encoded && w >= likely: // what is said in a code is meant to pass unseen
			w = sure
		case quoted:
			w = min(w, mentioned)
		}
		u.note(p.kind, w)
	}
	return matched
}

// codeState is whether a unit is code, once somebody has asked.
type codeState uint8

const (
	codeUnknown codeState = iota
	codeYes
	codeNo
)

// isCode reports whether the unit is code.
func (u *unit) isCode() bool {
	if u.code == codeUnknown {
		u.code = codeNo
		if isCode(u.text) {
			u.code = codeYes
		}
	}
	return u.code == codeYes
}

func (u *unit) note(k Kinds, weight float64) {
	at := &u.weights[bits.TrailingZeros8(uint8(k))]
	*at, u.kinds = max(*at, weight), u.kinds|k
}

// in reports whether the pattern is in a text that has one of its words, and whether all of its matches are only mentioned there: in quotes, and the text is
// about injections or tells what is said.
func (p *compiled) in(text string, about bool) (ok, mentioned bool) {
	for at := 0; at < len(text); {
		m := p.re().FindStringIndex(text[at:])
		if m == nil {
			break
		}
		q := openQuote(text, at+m[0])
		if q < 0 || !about && !reports.MatchString(text[max(0, q-quoteReach):q]) {
			return true, false
		}
		ok = true
		at += max(m[1], 1)
	}
	return ok, ok
}

// reports is what stands before a quote of what is said somewhere.
var reports = regexp.MustCompile(`(?:such as|for example|e\.g\.|i\.e\.|like|called|named|(?:the|a|this) (?:sentences?|phrases?|words?|texts?|strings?|prompts?|requests?|messages?)|contain(?:s|ed|ing)?|wrote|write|typed|says?|said|translate)[ ,:]*$`)

// topics are words of texts about injections.
var topics = []string{
	"prompt injection", "prompt-injection", "jailbreak", "attacker", "adversarial", "red team", "red-team", "owasp", "malicious prompt", "injection attack", "security research", "classifier", "detect", "guardrail",
}

// isAbout reports whether a text may be about injections.
func isAbout(text string) bool { return topicWords.in(text) != owners{} }

// quoteReach is how many bytes before a match its opening quote may stand.
const quoteReach = 60

// openQuote is the place of a quote that is open at a place of a text; -1 for none.
func openQuote(text string, at int) int {
	from := max(0, at-quoteReach)
	before := text[from:at]
	for _, q := range [...]string{`"`, "`", "“", "«", "„", "‘", " '", ">"} {
		i := strings.LastIndex(before, q)
		if i < 0 {
			continue
		}
		if rest := before[i+len(q):]; opens(rest) && !strings.ContainsAny(rest, "\"`”»") && !strings.Contains(rest, "’ ") && !strings.Contains(rest, "' ") {
			return from + i
		}
	}
	return -1
}

// opens reports whether a quote before a text opens it, and does not close what came before.
func opens(text string) bool {
	return text == "" || text[0] >= utf8.RuneSelf || text[0] >= 'a' && text[0] <= 'z' || text[0] >= '0' && text[0] <= '9' || text[0] == '.' && strings.HasPrefix(text, "...")
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
