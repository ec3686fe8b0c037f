package classify

import (
	"strings"
	"unicode"
)

// functionWords are words that occur in almost every English sentence and not in other languages.
var functionWords = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`the of to and is are was were what which who whom how why when where this that these those it its my your our their
		with without for from by be been do does did can could should would will shall if than then there they them you we he she his her not
		have has had give me make write list tell show explain find compare please into about some any each`) {
		m[w] = true
	}
	return m
}()

// English reports whether a text is clearly English, the language of the model and the prototypes: its letters are Latin, and enough of its words are
// English function words. Short texts without such words count as not English: they need no model, or none helps.
func English(text string) bool {
	words, known, letters, foreign := 0, 0, 0, 0
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' }) {
		words++
		if functionWords[strings.ToLower(w)] {
			known++
		}
		for _, r := range w {
			letters++
			if r > unicode.MaxASCII {
				foreign++
			}
		}
	}
	const oneIn, foreignIn = 8, 20 // words, letters
	return known > 0 && known*oneIn >= words && foreign*foreignIn <= letters
}
