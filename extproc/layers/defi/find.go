package defi

import (
	"slices"
	"strings"
)

// isWord reports whether a byte belongs to a word: letters, digits, and all that is not ASCII. Symbols and names hold dots and hyphens inside of words as
// well, as in "USDC.e".
func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= 0x80 || c == '_'
}

// joins reports whether a byte joins two parts of a word.
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

// mentions is what texts mention.
type mentions struct {
	named  []string // symbols and names, in the order in which they come
	places []int    // facts by their addresses
	chains map[int64]bool
}

// read notes what a text mentions.
func (f *Facts) read(text string, m *mentions) {
	list := words(text)
	for i := 0; i < len(list); {
		i += f.at(list[i:], m)
	}
}

// at notes what is mentioned at the beginning of a list of words, and returns how many words that are. The longest name counts.
func (f *Facts) at(list []string, m *mentions) int {
	if place := strings.ToLower(list[0]); len(place) == 42 && len(f.places[place]) > 0 {
		m.places = append(m.places, f.places[place]...)
		return 1
	}
	for n := min(f.longest, len(list)); n > 0; n-- {
		name := strings.Join(list[:n], " ")
		chain, isChain := f.chains[strings.ToLower(name)]
		_, isNamed := f.names[name]
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

// found are the facts that mentions mean, in the order in which they come. A name of several facts means those of the chains that are mentioned, if
// that leaves one for each chain; else it means none: nobody can know which.
func (f *Facts) found(m *mentions) (list []int) {
	add := func(i int) {
		if !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	for _, name := range m.named {
		candidates := f.names[name]
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
	for _, i := range m.places {
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
