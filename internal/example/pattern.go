package example

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// matching generates a text that matches a pattern: the fewest repetitions, and the first character of each class.
func matching(pattern string) (string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	text := least(re)
	matches, err := regexp.MatchString(pattern, text)
	return text, err == nil && matches
}

func least(re *syntax.Regexp) string {
	switch re.Op { //nolint:exhaustive // the others match no letter
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		return string(letter(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpPlus, syntax.OpCapture, syntax.OpAlternate:
		return least(re.Sub[0])
	case syntax.OpRepeat:
		return strings.Repeat(least(re.Sub[0]), re.Min)
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(least(sub))
		}
		return b.String()
	}
	return ""
}

// letter returns the first printable character of a class, else the first.
func letter(ranges []rune) rune {
	for i := 0; i+1 < len(ranges); i += 2 {
		if r := max(ranges[i], '!'); r <= ranges[i+1] && r <= '~' {
			return r
		}
	}
	return ranges[0]
}
