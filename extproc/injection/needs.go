package injection

import (
	"regexp/syntax"
	"slices"
)

// Every match of an expression contains some literals. A text that lacks one of them is not matched, which takes about a hundred times as long as to look for
// the literals of all expressions together.

// minLiteral is the length of a literal that is worth looking for, in bytes.
const minLiteral = startBytes

// needsOf are sets of literals, of each of which every match of an expression contains one.
func needsOf(expression string) [][]string {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil { // the tests compile it
		return nil
	}
	needs := needsOfTree(tree)
	return slices.DeleteFunc(needs, func(set []string) bool { return shortest(set) < minLiteral })
}

func needsOfTree(re *syntax.Regexp) [][]string {
	switch re.Op { //nolint:exhaustive // others may match without any literal
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return [][]string{{string(re.Rune)}}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needsOfTree(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needsOfTree(re.Sub[0])
		}
	case syntax.OpConcat:
		var all [][]string
		for _, sub := range re.Sub {
			all = append(all, needsOfTree(sub)...)
		}
		return all
	case syntax.OpAlternate:
		return needsOfAny(re.Sub)
	}
	return nil
}

// needsOfAny is the set of what one of some alternatives needs: of each the literals that are longest. None is needed if one of them needs none.
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
	return [][]string{all}
}

func shortest(set []string) (n int) {
	for i, s := range set {
		if i == 0 || len(s) < n {
			n = len(s)
		}
	}
	return n
}
