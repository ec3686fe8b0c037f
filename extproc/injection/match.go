package injection

import (
	"math/bits"
	"regexp"
	"strings"
	"unicode/utf8"
)

// unit is a part of a text whose patterns and score are combined. Results of different units are not.
type unit struct {
	text    string // for the classifier; "" if it is not scored
	folded  string // for the patterns
	encoded bool
	compact bool // without white space
	guessed bool // an uncertain reading: only patterns with the weight sure count

	code    codeState
	kinds   Kinds
	weights [len(kindNames)]float64 // the highest of each kind
	model   float64
}

// weight returns the probability that the patterns are right.
func (u *unit) weight() float64 {
	rest := 1.0
	for _, w := range u.weights {
		rest *= 1 - w
	}
	return 1 - rest
}

// combined returns the probability that the patterns or the classifier are right.
func combined(weight, score float64, s Source) float64 { return 1 - (1-weight)*(1-trust[s]*score) }

// match matches a unit with the patterns, except those in skip, which matched the plain text. It returns the matching ones.
func (u *unit) match(about bool, skip map[*compiled]bool) (matched []*compiled) {
	set := plainPatterns()
	if u.compact {
		set = spelledPatterns()
	}
	found := set.words.in(u.folded)
	for i := range set.list {
		p := &set.list[i]
		if !set.mayMatch(i, &found) || skip[p] || u.guessed && p.weight < sure {
			continue
		}
		ok, quoted := p.in(u.folded, about)
		if !ok || p.weight < sure && u.isCode() {
			continue
		}
		matched = append(matched, p)
		w := p.weight
		switch {
		case u.encoded && w >= likely: // encoding suggests intent to hide it
			w = sure
		case u.encoded:
			w = max(w, hint)
		case quoted:
			w = min(w, mentioned)
		}
		u.add(p.kind, w)
	}
	return matched
}

// codeState caches whether a unit is code.
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

func (u *unit) add(k Kinds, weight float64) {
	at := &u.weights[bits.TrailingZeros8(uint8(k))]
	*at, u.kinds = max(*at, weight), u.kinds|k
}

// in reports whether the pattern matches a text, and whether all matches are only mentions: they are quoted, and the text is about
// injections or introduces the quote.
func (p *compiled) in(text string, about bool) (ok, mentioned bool) {
	for at := 0; at < len(text); {
		m := p.re().FindStringIndex(text[at:])
		if m == nil {
			break
		}
		q := openQuote(text, at+m[0])
		if q < 0 || !about && !quoteIntro.MatchString(text[max(0, q-quoteReach):q]) {
			return true, false
		}
		ok = true
		at += max(m[1], 1)
	}
	return ok, ok
}

// quoteIntro matches the end of a text that introduces a quote.
var quoteIntro = regexp.MustCompile(`(?:such as|for example|e\.g\.|i\.e\.|like|called|named|(?:the|a|this) (?:sentences?|phrases?|words?|texts?|strings?|prompts?|requests?|messages?)|contain(?:s|ed|ing)?|wrote|write|typed|says?|said|translate)[ ,:]*$`)

// topics are words of texts about injections.
var topics = []string{
	"prompt injection", "prompt-injection", "jailbreak", "attacker", "adversarial", "red team", "red-team", "owasp", "malicious prompt", "injection attack", "security research", "classifier", "detect", "guardrail",
}

// isAbout reports whether a text may be about injections.
func isAbout(text string) bool { return topicWords.in(text) != owners{} }

// quoteReach is the maximum distance of an opening quote before a match, in bytes.
const quoteReach = 60

// openQuote returns the offset of the quote that is open at an offset of a text; -1 for none.
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

// opens reports whether a quote before a text is an opening one.
func opens(text string) bool {
	return text == "" || text[0] >= utf8.RuneSelf || text[0] >= 'a' && text[0] <= 'z' || text[0] >= '0' && text[0] <= '9' || text[0] == '.' && strings.HasPrefix(text, "...")
}

// codeSigns are frequent in programs, queries and logs of commands, and rare in other texts. JSON and HTML have none of them.
var codeSigns = regexp.MustCompile(`;\s*(?:\n|$)|[{}(]\s*\n|\)\s*[;{]|:=|[!=<>]=|=>|->|&&|\|\||\+\+|\+=|\w\(\)|\w+\([\w"'.]+(?:, ?[\w"'.*&]+)*\)|//|/\*|^\s*(?:#|\$|>>>) ?\w|\w+\[\w*\]|\w=["\w$]|\$[{(\w]|(?m:^)[-+@ ]*(?:package|import|from|func|fn|def|class|const|var|let|return|if|for|while|switch|case|public|private|static|struct|type|#include|@[A-Z]\w+|RUN|FROM|COPY|ENTRYPOINT|ENV|diff|git|kubectl|npm|pip|go)\b|\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|GRANT|REVOKE|WHERE|JOIN|VALUES)\b`)

// A text is code if it has at least minSigns signs, and one per signsPer bytes.
const (
	minSigns = 3
	signsPer = 60
)

// isCode reports whether a text is a program, a query, or the output of a developer's tool. The classifier has many false positives in such texts.
func isCode(text string) bool {
	n := len(codeSigns.FindAllStringIndex(text, windowBytes))
	return n >= minSigns && n*signsPer >= len(text)
}
