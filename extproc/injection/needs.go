package injection

import (
	"regexp/syntax"
	"slices"
)

// Every match of an expression contains certain literals. A text without them need not be matched: matching takes about a hundred times as long as the search for
// the literals of all expressions together.

// minLiteral is the minimum length of a literal that is searched for, in bytes.
const minLiteral = startBytes

// needsOf returns sets of literals: every match of the expression contains at least one literal of each set.
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
