package defi

import (
	"slices"
	"strings"
)

// isWord reports whether a byte belongs to a word: letters, digits, underscores, and all that is not ASCII. Dots and hyphens also belong to a word inside it, as
// in "USDC.e".
func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= 0x80 || c == '_'
}

// joins reports whether a byte belongs to a word if it is inside it.
func joins(c byte) bool { return c == '.' || c == '-' }

// words are a text's words, as slices of it.
func words(text string) (list []string) {
	for from := 0; from < len(text); {
		if !isWord(text[from]) {
			from++
			continue
		}
		to := from
		for to < len(text) && (isWord(text[to]) || joins(text[to]) && to+1 < len(text) && isWord(text[to+1])) {
			to++
		}
		list = append(list, text[from:to])
		from = to
	}
	return list
}

// mentions are the mentions in texts.
type mentions struct {
	named     []string // symbols and names, in the order of the texts
	byAddress []int    // facts by their addresses
	chains    map[int64]bool
}

// findMentions adds the mentions of a text.
func (f *Facts) findMentions(text string, m *mentions) {
	list := words(text)
	for i := 0; i < len(list); {
		i += f.matchFirst(list[i:], m)
	}
}

// matchFirst adds the mention at the beginning of a list of words, and returns its number of words, or 1 if there is none. The longest name takes precedence.
func (f *Facts) matchFirst(list []string, m *mentions) int {
	if place := strings.ToLower(list[0]); len(place) == 42 && len(f.byAddress[place]) > 0 {
		m.byAddress = append(m.byAddress, f.byAddress[place]...)
		return 1
	}
	for n := min(f.longest, len(list)); n > 0; n-- {
		name := strings.Join(list[:n], " ")
		chain, isChain := f.chains[strings.ToLower(name)]
		_, isNamed := f.byName[name]
		if isChain {
			m.chains[chain] = true
		}
		if isNamed && !slices.Contains(m.named, name) {
			m.named = append(m.named, name)
		}
		if isChain || isNamed {
			return n
		}
	}
	return 1
}

// resolve returns the facts of mentions, in order. A name of several facts stands for those of the mentioned chains, if there is one for each chain; otherwise it
// is ambiguous and ignored.
func (f *Facts) resolve(m *mentions) (list []int) {
	add := func(i int) {
		if !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	for _, name := range m.named {
		candidates := f.byName[name]
		if len(candidates) > 1 {
			candidates = slices.DeleteFunc(slices.Clone(candidates), func(i int) bool { return !m.chains[f.all[i].chain] })
			if f.ambiguous(candidates) {
				continue
			}
		}
		for _, i := range candidates {
			add(i)
		}
	}
	for _, i := range m.byAddress {
		add(i)
	}
	return list
}

// ambiguous reports whether two facts are of one chain.
func (f *Facts) ambiguous(list []int) bool {
	for k, i := range list {
		if slices.ContainsFunc(list[:k], func(j int) bool { return f.all[j].chain == f.all[i].chain }) {
			return true
		}
	}
	return false
}
