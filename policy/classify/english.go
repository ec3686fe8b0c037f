package classify

import (
	"strings"
	"unicode"
)

// functionWords are the words that hardly an English sentence lacks and that other languages do not have.
var functionWords = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`the of to and is are was were what which who whom how why when where this that these those it its my your our their
		with without for from by be been do does did can could should would will shall if than then there they them you we he she his her not
		have has had give me make write list tell show explain find compare please into about some any each`) {
		m[w] = true
	}
	return m
}()

// English reports whether a text is plainly English, the language of the model and of the prototypes: its letters are Latin, and of its words enough are
// English ones. Short texts without such words are not: what they say is clear without a model, or to none.
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
