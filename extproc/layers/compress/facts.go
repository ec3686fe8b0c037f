package compress

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"bardo.money/gateway/extproc/transcript"
)

// What a summary must contain, checked without a model: every number, address, ticker, identifier and name of the turns that it replaces, if it occurs later or
// in a decision. Numbers of up to four digits that occur only in results of tools, before and after, are ignored: there they are mostly lines, counts and dates.

const (
	maxFacts    = 400     // required facts with which a summary is tried
	maxVerbatim = 2 << 10 // bytes of lines that are kept verbatim
	maxLine     = 240     // bytes of one of them
)

// factToken is what may be a fact, before classification.
var factToken = regexp.MustCompile(`https?://[^\s"'<>)\]}]+|[\pL\pN_$€£#@~/.,:%+-]+`)

// sentences splits a text into sentences and lines.
func sentences(text string) (out []string) {
	for line := range strings.SplitSeq(text, "\n") {
		for line = strings.TrimSpace(line); line != ""; {
			end := len(line)
			for i := range len(line) - 1 {
				if strings.IndexByte(".!?", line[i]) >= 0 && line[i+1] == ' ' {
					end = i + 1
					break
				}
			}
			out, line = append(out, line[:end]), strings.TrimSpace(line[end:])
		}
	}
	return out
}

// factsOf calls add with the facts of a text.
func factsOf(text string, add func(fact string)) {
	for _, sentence := range sentences(text) {
		for i, at := range factToken.FindAllStringIndex(sentence, -1) {
			token := trimmed(sentence[at[0]:at[1]])
			if strings.HasPrefix(token, "http") && strings.Contains(token, "://") || isNumber(token) {
				add(token)
				continue
			}
			for part := range strings.FieldsFuncSeq(token, func(r rune) bool { return r == ',' || r == ':' }) {
				if part = trimmed(part); isFact(part, i == 0) {
					add(part)
				}
			}
		}
	}
}

func trimmed(token string) string { return strings.Trim(token, ".,:;+-") }

var number = regexp.MustCompile(`^[$€£]?\d+(?:[.,:/-]\d+)*%?$`)

// isNumber reports whether a token is a number, an amount, a date or a time, with at least two characters.
func isNumber(token string) bool {
	digits := strings.Count(token, "") - 1 - len(strings.Trim(token, "$€£%"))
	return number.MatchString(token) && (len(token) >= 2 || digits > 0)
}

// isFact reports whether a token is a number, an address, a ticker, an identifier, or a name; first: it begins a sentence.
func isFact(token string, first bool) bool {
	var upper, lower, digit, joined, camel int
	for i, r := range token {
		switch {
		case unicode.IsUpper(r):
			upper++
			if i > 0 && lower > 0 {
				camel++
			}
		case unicode.IsLetter(r):
			lower++
		case unicode.IsDigit(r):
			digit++
		case i > 0 && strings.ContainsRune("_/@.#~-", r):
			joined++
		}
	}
	letters := upper + lower
	switch {
	case len(token) < 2, letters+digit == 0:
		return false
	case letters == 0:
		return digit >= 2 || joined > 0
	case digit > 0: // an identifier, an address, a version
		return true
	case strings.ContainsAny(token, "_/@"), joined > 0 && strings.ContainsRune(token[1:], '.'):
		return len(token) >= 4
	case lower == 0: // a ticker, an abbreviation
		return true
	case camel > 0:
		return true
	}
	return !first && unicode.IsUpper(firstRune(token)) && len(token) >= 3
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// trivial reports whether a fact is a number of up to four digits.
func trivial(fact string) bool {
	return len(fact) <= 4 && strings.Trim(fact, "0123456789") == ""
}

// isUnique reports whether a fact has one meaning in any context: an address, a hash, a link.
func isUnique(fact string) bool {
	return len(fact) >= 8 && strings.ContainsAny(fact, "0123456789@/")
}

// factSet is the facts of some turns: of messages and calls, and of results.
type factSet struct{ dialog, results map[string]bool }

func (f *factSet) has(fact string) bool { return f.dialog[fact] || f.results[fact] }

// factsIn reads the facts of turns.
func factsIn(t *transcript.Transcript, from, to int) factSet {
	f := factSet{map[string]bool{}, map[string]bool{}}
	for i := from; i < to; i++ {
		for k := t.Turns[i].First; k < t.Turns[i].End; k++ {
			set := f.dialog
			switch t.Texts[k].Kind { //nolint:exhaustive // the others are dialog
			case transcript.Result:
				set = f.results
			case transcript.Thinking:
				continue
			}
			factsOf(t.String(k), func(fact string) { set[fact] = true })
		}
	}
	return f
}

// rulesIn are the sentences of turns that state a constraint or a decision: those of the user, and those of the model.
func rulesIn(t *transcript.Transcript, c cut) (user, model []string) {
	for i := c.from; i < c.to; i++ {
		for k := t.Turns[i].First; k < t.Turns[i].End; k++ {
			kind := t.Texts[k].Kind
			if kind != transcript.User && kind != transcript.Assistant {
				continue
			}
			for _, s := range sentences(t.String(k)) {
				switch {
				case !rule.MatchString(s):
				case kind == transcript.User:
					user = append(user, s)
				default:
					model = append(model, s)
				}
			}
		}
	}
	return user, model
}

// required are the facts that a summary of turns must contain, sorted.
func required(t *transcript.Transcript, c cut, decisions []string) []string {
	before, later := factsIn(t, c.from, c.to), factsIn(t, c.to, len(t.Turns))
	need := map[string]bool{}
	for fact := range before.dialog {
		if later.has(fact) && (!trivial(fact) || later.dialog[fact]) {
			need[fact] = true
		}
	}
	for fact := range before.results {
		if later.dialog[fact] && !trivial(fact) || isUnique(fact) && later.results[fact] {
			need[fact] = true
		}
	}
	for _, s := range decisions {
		factsOf(s, func(fact string) { need[fact] = true })
	}
	out := make([]string, 0, len(need))
	for fact := range need {
		out = append(out, fact)
	}
	slices.Sort(out)
	return out
}

// contains reports whether a text has a fact, not as a part of another word.
func contains(text, fact string) bool {
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
	for at := 0; ; {
		i := strings.Index(text[at:], fact)
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(fact)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[end:])
		if (!inWord(before) || !inWord(firstRune(fact))) && !inWord(after) {
			return true
		}
		at = start + 1
	}
}

// verbatim are the lines that are kept with a summary: the user's demands, and for each fact that the summary lacks, a sentence that has it. ok is false if
// that is too much.
func verbatim(t *transcript.Transcript, c cut, summary string, facts, demands []string) (lines []string, ok bool) {
	left := maxVerbatim
	keep := func(line string) bool {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
			left -= len(line)
		}
		return left >= 0
	}
	for _, s := range demands {
		if !keep(s) {
			return nil, false
		}
	}
	for _, fact := range facts {
		if contains(summary, fact) || slices.ContainsFunc(lines, func(l string) bool { return contains(l, fact) }) {
			continue
		}
		line, found := sentenceWith(t, c, fact)
		if !found || !keep(line) {
			return nil, false
		}
	}
	return lines, true
}

// sentenceWith is a short sentence of turns that has a fact.
func sentenceWith(t *transcript.Transcript, c cut, fact string) (string, bool) {
	for i := c.from; i < c.to; i++ {
		for k := t.Turns[i].First; k < t.Turns[i].End; k++ {
			text := t.String(k)
			if t.Texts[k].Kind == transcript.Thinking || !strings.Contains(text, fact) {
				continue
			}
			for _, s := range sentences(text) {
				if contains(s, fact) {
					return excerpt(s, fact), true
				}
			}
		}
	}
	return "", false
}

// excerpt is the part of a long sentence around a fact.
func excerpt(s, fact string) string {
	if len(s) <= maxLine {
		return s
	}
	at := strings.Index(s, fact)
	from := max(0, at-(maxLine-len(fact))/2)
	return "… " + strings.ToValidUTF8(s[from:min(len(s), max(from+maxLine, at+len(fact)))], "") + " …"
}
