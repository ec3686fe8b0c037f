package semantic

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Form is what a question is reduced to. Two questions have the same form only if they differ in nothing but
//
//   - case, white space, final punctuation, greetings, politeness and articles;
//   - words that are synonyms, and plurals;
//   - the frames in frames.go, such as "how can I X" and "what are the steps to X".
//
// Numbers, units, dates, addresses, identifiers, names, negations, tenses, and every other word must be the same, in the same order. Texts that are not
// English, or have code or several lines, differ in every character but white space.
type Form string

// FormOf is the form of a text.
func FormOf(text string) Form {
	text = plainQuotes.Replace(norm.NFKC.String(text))
	trimmed := strings.TrimSpace(text)
	words, ok := split(trimmed)
	if !ok || !isEnglish(words) {
		return Form("=" + strings.Join(strings.Fields(trimmed), " "))
	}
	return Form(canonical(words))
}

var plainQuotes = strings.NewReplacer("‘", "'", "’", "'", "‛", "'", "“", `"`, "”", `"`, "„", `"`, "‟", `"`, "–", "-", "—", " - ", "…", "...", "\u00a0", " ")

// word is a word, number or sign of a text.
type word struct {
	text     string // in lower case, unless it is verbatim
	verbatim bool   // quoted, or an identifier: it has no synonyms
}

// split cuts a text into words. ok is false for a text that cannot be compared by words: in another script, with code, or of several lines.
func split(text string) (words []word, ok bool) {
	if strings.ContainsAny(text, "\n\r`{}\\|~") {
		return nil, false
	}
	for _, r := range text {
		if r > unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsMark(r)) || unicode.IsControl(r) {
			return nil, false
		}
	}
	if strings.ContainsFunc(text, unicode.IsUpper) && !strings.ContainsFunc(text, unicode.IsLower) {
		return nil, false // capitals alone do not show what is a name
	}
	first := true
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 1 {
			words = append(words, word{`"` + part + `"`, true})
			continue
		}
		for field := range strings.FieldsSeq(part) {
			words = append(words, wordsOf(field, first)...)
			first = strings.HasSuffix(field, ".") || strings.HasSuffix(field, "?") || strings.HasSuffix(field, "!") || strings.HasSuffix(field, ":")
		}
	}
	return words, strings.Count(text, `"`)%2 == 0
}

const punctuation = ".,;:!?()"

// wordsOf are the words of a text without white space; first: it begins a sentence.
func wordsOf(field string, first bool) (words []word) {
	body := strings.TrimRight(strings.TrimLeft(field, "(,;:!?"), punctuation)
	if strings.ContainsAny(field, "()[]!") && strings.ContainsAny(field, "0123456789") { // an interval, a factorial
		return []word{{strings.TrimRight(field, ".,;:?"), true}}
	}
	switch {
	case body == "":
		return nil
	case isPlain(body):
		return plainWords(body, first)
	}
	if amount := amountOf(strings.ToLower(body)); amount != nil {
		return amount
	}
	if parts := strings.Split(body, "-"); len(parts) > 1 && allPlain(parts) && synonyms[strings.ToLower(body)] == "" {
		for _, p := range parts {
			words = append(words, plainWords(p, first)...)
			first = false
		}
		return words
	}
	if w := strings.ToLower(body); synonyms[w] != "" {
		return []word{{w, false}}
	}
	return []word{{body, true}}
}

// amountOf are the words of a number, an amount of money, a percentage or an ordinal number; nil for any other text.
func amountOf(s string) []word {
	if isNumber(s) {
		return []word{{numberOf(s), false}}
	}
	if n, ok := strings.CutSuffix(s, "%"); ok && isNumber(n) {
		return []word{{numberOf(n), false}, {"percent", false}}
	}
	for _, ending := range [...]string{"st", "nd", "rd", "th"} {
		if n, ok := strings.CutSuffix(s, ending); ok && isDigits(n) {
			return []word{{n + "th", false}}
		}
	}
	for sign, unit := range currencies {
		if n, ok := strings.CutPrefix(s, sign); ok && isNumber(n) {
			return []word{{numberOf(n), false}, {unit, false}}
		}
	}
	return nil
}

var currencies = map[string]string{"$": "usd", "€": "eur", "£": "gbp", "¥": "yen"}

// isPlain reports whether a text has letters and apostrophes alone.
func isPlain(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && (s[i] != '\'' || i == 0) {
			return false
		}
	}
	return s != ""
}

func allPlain(parts []string) bool {
	for _, p := range parts {
		if !isPlain(p) {
			return false
		}
	}
	return true
}

// isNumber reports whether a text is a number: digits, with a sign, groups of three, and a fraction.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole, fraction, found := strings.Cut(s, ".")
	if found && !isDigits(fraction) {
		return false
	}
	groups := strings.Split(whole, ",")
	for i, g := range groups {
		if !isDigits(g) || i > 0 && len(g) != 3 || len(groups) > 1 && len(g) > 3 {
			return false
		}
	}
	return true
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// numberOf is a number without groups.
func numberOf(s string) string { return strings.ReplaceAll(s, ",", "") }

// plainWords are the words of a text of letters and apostrophes, with contractions expanded.
func plainWords(s string, first bool) []word {
	lower := strings.ToLower(s)
	if long, ok := contractions[lower]; ok {
		return fieldsOf(long)
	}
	for _, e := range endings {
		if stem, ok := strings.CutSuffix(lower, e.short); ok && stem != "" {
			return append(plainWords(s[:len(stem)], first), fieldsOf(e.long)...)
		}
	}
	if owner, ok := strings.CutSuffix(lower, "'s"); ok && owner != "" {
		return append(plainWords(s[:len(owner)], first), word{possessive, false})
	}
	return []word{{capitals(s, lower, first), false}}
}

// possessive marks the word before it as an owner.
const possessive = "'s"

func fieldsOf(s string) (words []word) {
	for f := range strings.FieldsSeq(s) {
		words = append(words, word{f, false})
	}
	return words
}

// capitals marks a word that may be a name by its capitals: Apple is not apple.
func capitals(s, lower string, first bool) string {
	switch {
	case s == lower || names[lower] || synonyms[lower] != "" && names[synonyms[lower]] || lower == "i":
		return lower
	case len(s) > 1 && s == strings.ToUpper(s):
		return "^^" + lower
	case !first:
		return "^" + lower
	}
	return lower
}

// isEnglish reports whether words are English: one is a frequent English word, and none is a foreign one.
func isEnglish(words []word) bool {
	known := false
	for _, w := range words {
		if w.verbatim {
			continue
		}
		if foreign[w.text] {
			return false
		}
		known = known || english[w.text]
	}
	return known
}
