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

// leastTokens is how many tokens must be left for a further result, which may be cut to them.
const leastTokens = 50

// choose takes results of all sources in turn, the best of each first, until there are enough. What another one says as well is taken once. The order follows from
// the answers alone.
func choose(all []answered, most, tokens int) (out []chosen) {
	seen := map[string]bool{}
	for rank := 0; len(out) < most; rank++ {
		more := false
		for i := range all {
			a := &all[i]
			if a.Shadow || rank >= len(a.results) || len(out) >= most {
				continue
			}
			more = true
			r := a.results[rank]
			if seen[r.Text] {
				continue
			}
			seen[r.Text] = true
			c, ok := fit(a.Name, &r, tokens)
			if !ok {
				return out
			}
			tokens -= estimate(len(c.text))
			out = append(out, c)
		}
		if !more {
			break
		}
	}
	return out
}

// fit is a result of at most a number of tokens; ok is false if there is no room for it.
func fit(from string, r *Result, tokens int) (c chosen, ok bool) {
	text := partOf(r)
	if over := estimate(len(text)) - tokens; over > 0 {
		left := len(r.Text) - over*7/2 - len(cutMark) - 4
		if tokens < leastTokens || left <= 0 {
			return c, false
		}
		for left > 0 && !utf8.RuneStart(r.Text[left]) {
			left--
		}
		r.Text = r.Text[:left] + cutMark
		text = partOf(r)
	}
	return chosen{r, from, text}, estimate(len(text)) <= tokens
}

const cutMark = " …"

// estimate is how many tokens a number of bytes probably is.
func estimate(bytes int) int { return (2*bytes + 6) / 7 }

// noteOf is what X-Bardo-Pipeline says: how many results of each source, why there are none, and the ids of what was added. It has no content.
func noteOf(all []answered, added []chosen) string {
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
		case a.why != "":
			parts = append(parts, a.Name+"="+a.why)
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
