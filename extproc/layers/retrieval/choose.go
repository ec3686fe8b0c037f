package retrieval

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// chosen is a result that is added.
type chosen struct {
	*Result

	from string
	text string // of the part that is added
}

// minTokens is the number of tokens that must be left for a further result, which may be cut to fit.
const minTokens = 50

// choose takes results of all sources alternately, the best of each first, up to the limits. Equal texts are taken once. The order depends only on the answers.
func choose(all []sourceAnswer, maxResults, maxTokens int) (out []chosen) {
	seen := map[string]bool{}
	for rank := 0; len(out) < maxResults; rank++ {
		more := false
		for i := range all {
			a := &all[i]
			if a.Shadow || rank >= len(a.results) || len(out) >= maxResults {
				continue
			}
			more = true
			r := a.results[rank]
			if seen[r.Text] {
				continue
			}
			seen[r.Text] = true
			c, ok := fit(a.Name, &r, maxTokens)
			if !ok {
				return out
			}
			maxTokens -= estimate(len(c.text))
			out = append(out, c)
		}
		if !more {
			break
		}
	}
	return out
}

// fit cuts a result to at most a number of tokens; ok is false if there is no room for it.
func fit(from string, r *Result, tokens int) (c chosen, ok bool) {
	text := formatted(r)
	if over := estimate(len(text)) - tokens; over > 0 {
		size := len(r.Text) - over*7/2 - len(cutMark) - 4
		if tokens < minTokens || size <= 0 {
			return c, false
		}
		for size > 0 && !utf8.RuneStart(r.Text[size]) {
			size--
		}
		r.Text = r.Text[:size] + cutMark
		text = formatted(r)
	}
	return chosen{r, from, text}, estimate(len(text)) <= tokens
}

const cutMark = " …"

// estimate is the estimated number of tokens of a number of bytes.
func estimate(bytes int) int { return (2*bytes + 6) / 7 }

// noteOf is the note in X-Bardo-Pipeline: the number of results of each source or why there are none, and the ids of those that were added. It has no content.
func noteOf(all []sourceAnswer, added []chosen) string {
	var parts, ids []string
	tokens := 0
	counts := map[string]int{}
	for _, c := range added {
		counts[c.from]++
		tokens += estimate(len(c.text))
		ids = append(ids, c.ID)
	}
	parts = append(parts, "results="+strconv.Itoa(len(added)))
	for i := range all {
		a := &all[i]
		switch {
		case a.reason != "":
			parts = append(parts, a.Name+"="+a.reason)
		case a.Shadow:
			parts = append(parts, a.Name+"=shadow-"+strconv.Itoa(len(a.results)))
		case len(added) > 0:
			parts = append(parts, a.Name+"="+strconv.Itoa(counts[a.Name]))
		}
	}
	if len(ids) > 0 {
		parts = append(parts, "added="+strconv.Itoa(tokens), "ids="+strings.Join(ids, "+"))
	}
	return strings.Join(parts, ";")
}
