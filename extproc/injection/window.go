package injection

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The classifier reads windows of 256 tokens. Texts are cut into windows here, and the number of scored windows is bounded.
const (
	windowBytes  = 900 // about 200 tokens of English
	overlapBytes = 150
	maxWindows   = 16 // of a text
	maxHidden    = 4  // scored windows of decoded parts
	minScored    = 12 // bytes; shorter texts are not scored
)

// units returns the windows of a text, those of its encoded parts, and its other forms, matched with the patterns. It ends early when ctx ends.
func (v *view) units(ctx context.Context) (all []unit) {
	about := isAbout(v.folded)
	plain := map[*compiled]bool{} // patterns that match the text itself, which its decoded parts may repeat
	for _, w := range cut(v.clean) {
		u := unit{text: w, folded: v.folded}
		if len(w) < len(v.clean) {
			u.folded = fold(w)
		}
		if ctx.Err() != nil {
			return all
		}
		for _, p := range u.match(about, nil) {
			plain[p] = true
		}
		all = append(all, u)
	}
	for _, p := range v.parts {
		for _, w := range cut(p) {
			v.forms = append(v.forms, unit{text: w, folded: fold(w), encoded: true})
		}
	}
	for i := range v.forms {
		if ctx.Err() != nil {
			return all
		}
		v.forms[i].match(about, plain)
	}
	if v.tags {
		v.forms[0].add(Hidden, sure)
	}
	return append(all, v.forms...)
}

// cut cuts a text into overlapping windows, between words if there are any.
func cut(text string) (out []string) {
	for len(text) > windowBytes {
		end := boundary(text, windowBytes)
		out = append(out, text[:end])
		text = text[boundary(text, end-overlapBytes):]
	}
	return append(out, text)
}

// boundary returns the offset of the last white space shortly before n; otherwise of a character.
func boundary(text string, n int) int {
	const reach = 80
	if i := strings.LastIndexFunc(text[n-reach:n], unicode.IsSpace); i >= 0 {
		return n - reach + i
	}
	for back := range utf8.UTFMax {
		if utf8.RuneStart(text[n-back]) {
			return n - back
		}
	}
	return n
}

// cues are words that are more frequent in instructions for a model than in other texts.
var cues = []string{
	"ignore", "disregard", "forget", "override", "instruction", "prompt", "you are", "you must", "you should", "assistant", "language model", "llm", " ai ", "do not tell", "don't tell",
	"secret", "password", "api key", "private key", "credential", "send", "forward", "transfer", "execute", "reveal", "system", "important", "immediately", "instead", "http", "base64", "<!--",
}

// choose returns the units to be scored: those whose score can matter; of too many, the first, the last, those that patterns match, and those with most cues. left
// is the number of omitted ones.
func choose(all []unit, matters func(*unit) bool) (out []*unit, left int) {
	var windows []ranked
	hidden := 0
	for i := range all {
		u := &all[i]
		switch {
		case len(strings.TrimSpace(u.text)) < minScored || !matters(u):
		case u.encoded && hidden < maxHidden:
			hidden++
			out = append(out, u)
		case u.encoded:
			left++
		default:
			windows = append(windows, ranked{u, rank(u)})
		}
	}
	if len(windows) > maxWindows {
		ends := float64(len(cues) * len(cues))
		windows[0].rank += ends
		windows[len(windows)-1].rank += ends
		slices.SortStableFunc(windows, func(a, b ranked) int { return cmp.Compare(b.rank, a.rank) })
		left += len(windows) - maxWindows
		windows = windows[:maxWindows]
	}
	for _, w := range windows {
		out = append(out, w.unit)
	}
	return out, left
}

type ranked struct {
	*unit

	rank float64
}

// rank orders windows by their similarity to instructions: by the weight of their patterns, then by their number of cues.
func rank(u *unit) float64 {
	n := u.weight() * float64(len(cues))
	for _, c := range cues {
		if strings.Contains(u.folded, c) {
			n++
		}
	}
	return n
}
