package injection

import (
	"cmp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Every match of an expression contains certain literals. A text without them need not be matched: matching takes about a hundred times as long as the search for
// the literals of all expressions together.

const (
	minLiteral = startBytes // minimum length of a literal that is searched for, in bytes
	maxStrings = 64         // of a set
)

// needs returns what needsOf does for the pattern's expression.
func (p *pattern) needs() [][][]string {
	if p.parts == nil {
		return needsOf(p.source.text())
	}
	var all [][]string
	for _, part := range p.parts {
		all = append(all, searchable(treeOf(part.text()))...)
	}
	return [][][]string{all}
}

// needsOf returns, for each alternative of an expression, sets of literals: every match of the expression contains, for at least one alternative, at least one literal
// of each of its sets.
func needsOf(expression string) (out [][][]string) {
	tree := treeOf(expression)
	for tree.Op == syntax.OpCapture {
		tree = tree.Sub[0]
	}
	alternatives := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpAlternate {
		alternatives = tree.Sub
	}
	for _, re := range alternatives {
		needs := searchable(re)
		if !slices.ContainsFunc(out, func(other [][]string) bool { return slices.EqualFunc(needs, other, slices.Equal) }) {
			out = append(out, needs)
		}
	}
	return out
}

// treeOf parses an expression. That of an invalid one matches the empty text: the tests compile all expressions.
func treeOf(expression string) *syntax.Regexp {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return &syntax.Regexp{Op: syntax.OpEmptyMatch}
	}
	return tree
}

// searchable returns the sets that an expression needs and that can be searched for.
func searchable(re *syntax.Regexp) [][]string {
	needs := slices.DeleteFunc(needsOfTree(re), func(set []string) bool { return shortest(set) < minLiteral })
	slices.SortFunc(needs, slices.Compare)
	return slices.CompactFunc(needs, slices.Equal)
}

func needsOfTree(re *syntax.Regexp) [][]string {
	if set, ok := stringsOf(re); ok {
		return [][]string{minimal(set)}
	}
	switch re.Op { //nolint:exhaustive // others may match without any literal
	case syntax.OpCapture, syntax.OpPlus:
		return needsOfTree(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needsOfTree(re.Sub[0])
		}
	case syntax.OpConcat:
		return needsOfAll(re.Sub)
	case syntax.OpAlternate:
		return needsOfAny(re.Sub)
	}
	return nil
}

// needsOfAll returns the sets of literals of a concatenation. Parts that follow each other and match few strings make one set.
func needsOfAll(parts []*syntax.Regexp) (all [][]string) {
	run := []string{""}
	end := func() {
		all = append(all, minimal(run))
		run = []string{""}
	}
	for _, sub := range parts {
		set, ok := stringsOf(sub)
		if !ok {
			end()
			all = append(all, needsOfTree(sub)...)
			continue
		}
		if len(run)*len(set) > maxStrings {
			end()
		}
		run = product(run, set)
	}
	end()
	return all
}

// needsOfAny returns the set of literals for alternatives: of each alternative, its set with the longest literals. It is empty if one alternative needs none.
func needsOfAny(alternatives []*syntax.Regexp) [][]string {
	var all []string
	for _, sub := range alternatives {
		best := []string(nil)
		for _, set := range needsOfTree(sub) {
			if shortest(set) > shortest(best) {
				best = set
			}
		}
		if best == nil {
			return nil
		}
		all = append(all, best...)
	}
	return [][]string{minimal(all)}
}

// stringsOf returns the strings that an expression matches, if there are at most maxStrings of them.
func stringsOf(re *syntax.Regexp) (set []string, ok bool) {
	switch re.Op { //nolint:exhaustive // the others match more
	case syntax.OpEmptyMatch, syntax.OpWordBoundary, syntax.OpNoWordBoundary, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
		return []string{""}, true
	case syntax.OpLiteral:
		return []string{string(re.Rune)}, re.Flags&syntax.FoldCase == 0
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if set = append(set, string(r)); len(set) > maxStrings {
					return nil, false
				}
			}
		}
		return set, true
	case syntax.OpCapture:
		return stringsOf(re.Sub[0])
	case syntax.OpQuest:
		set, ok = stringsOf(re.Sub[0])
		return append(set, ""), ok && len(set) < maxStrings
	case syntax.OpConcat:
		set = []string{""}
		for _, sub := range re.Sub {
			next, ok := stringsOf(sub)
			if !ok || len(set)*len(next) > maxStrings {
				return nil, false
			}
			set = product(set, next)
		}
		return set, true
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			next, ok := stringsOf(sub)
			if !ok || len(set)+len(next) > maxStrings {
				return nil, false
			}
			set = append(set, next...)
		}
		return set, true
	}
	return nil, false
}

func product(heads, tails []string) []string {
	out := make([]string, 0, len(heads)*len(tails))
	for _, h := range heads {
		for _, t := range tails {
			out = append(out, h+t)
		}
	}
	return out
}

// minimal removes the strings of a set that contain another one, and sorts the set.
func minimal(set []string) (out []string) {
	if len(set) == 1 {
		return set
	}
	set = slices.Clone(set)
	slices.SortFunc(set, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	for _, s := range set {
		if !slices.ContainsFunc(out, func(short string) bool { return strings.Contains(s, short) }) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

func shortest(set []string) (n int) {
	for i, s := range set {
		if i == 0 || len(s) < n {
			n = len(s)
		}
	}
	return n
}
