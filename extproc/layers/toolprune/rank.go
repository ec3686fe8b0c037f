package toolprune

import (
	"math"
	"slices"
	"strings"
	"unicode"

	"bardo.money/gateway/extproc/transcript"
)

// bySimilarity orders tools by the words that they share with a text.
func bySimilarity(t *transcript.Transcript, text string) []int {
	order, _ := byWords(t, text)
	return order
}

// byWords orders tools by the words that their names and descriptions share with a text, and scores each; tools that share as much keep the request's order. A
// rare word counts more than one that many tools have, and a word of a name more than one of a description.
func byWords(t *transcript.Transcript, text string) (order []int, scores []float64) {
	wanted := map[string]bool{}
	for _, w := range words(text) {
		wanted[w] = true
	}
	type doc struct{ name, description map[string]bool }
	docs := make([]doc, len(t.Tools))
	count := map[string]int{}
	for i := range t.Tools {
		description, _ := t.Tools[i].Description.Str()
		docs[i] = doc{set(words(t.Tools[i].Name)), set(words(description))}
		for w := range wanted {
			if docs[i].name[w] || docs[i].description[w] {
				count[w]++
			}
		}
	}
	scores = make([]float64, len(t.Tools))
	order = make([]int, len(t.Tools))
	for i := range docs {
		order[i] = i
		for w, n := range count {
			rarity := math.Log(1 + float64(len(docs))/float64(n))
			if docs[i].name[w] {
				scores[i] += nameWeight * rarity
			}
			if docs[i].description[w] {
				scores[i] += rarity
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case nearly(scores[a], scores[b]):
			return 0
		case scores[a] > scores[b]:
			return -1
		}
		return 1
	})
	return order, scores
}

const nameWeight = 3

// nearly reports whether sums are equal whose terms may have been added in different orders.
func nearly(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func set(list []string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, w := range list {
		out[w] = true
	}
	return out
}

// maxText is the number of bytes of a text that are compared, from its end.
const maxText = 4 << 10

// words are the words of a text in lower case, without common ones and without English endings. Names are split at underscores, hyphens and capitals.
func words(text string) []string {
	if len(text) > maxText {
		text = text[len(text)-maxText:]
	}
	var out []string
	var word strings.Builder
	flush := func() {
		if w := stem(strings.ToLower(word.String())); w != "" && !common[w] {
			out = append(out, w)
		}
		word.Reset()
	}
	lower := false
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
		case unicode.IsUpper(r) && lower:
			flush()
			word.WriteRune(r)
		default:
			word.WriteRune(r)
		}
		lower = unicode.IsLower(r)
	}
	flush()
	return out
}

// stem removes endings of English words, so that "swapping tokens" finds swap_token.
func stem(w string) string {
	for _, ending := range [...]string{"ings", "ing", "ies", "es", "ed", "s"} {
		rest, found := strings.CutSuffix(w, ending)
		if !found || len(rest) < minStem {
			continue
		}
		if n := len(rest); rest[n-1] == rest[n-2] && ending != "s" && ending != "es" { // swapping
			return rest[:n-1]
		}
		return rest
	}
	return strings.TrimSuffix(w, "e")
}

const minStem = 3

var common = func() map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq("a an the and or of to in on at by for from with as is are be it its this that my your our me i you we us can could please would should do does " +
		"what which who how when where why get set list use tool function given return if not no all any into about") {
		out[stem(w)] = true
	}
	return out
}()
