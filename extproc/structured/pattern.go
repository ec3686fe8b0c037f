package structured

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds on the patterns of one schema. A match costs a pattern's size for each byte of the text.
const (
	longestPattern = 4 << 10 // bytes
	mostPatterns   = 40_000  // steps of all patterns together
	bytesPerStep   = 256     // of text times steps of pattern, that cost as much as one step of a check
)

var errPattern = errors.New("makes the patterns of the schema too large")

// patterns compiles the patterns of one schema.
type patterns struct {
	steps *budget
	size  int
}

// compile reads a pattern as far as it can be matched in linear time. Patterns are ECMAScript's; what is different there (looking ahead,
// referring back) is left unchecked.
func (p *patterns) compile(s string) (jsonschema.Regexp, error) {
	if len(s) > longestPattern {
		return nil, errPattern
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return unchecked(s), nil //nolint:nilerr // as said above
	}
	size := patternSize(tree)
	if p.size += size; p.size > mostPatterns {
		return nil, errPattern
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return unchecked(s), nil //nolint:nilerr // as said above
	}
	return &pattern{Regexp: re, size: size, steps: p.steps}, nil
}

// patternSize is about how many steps a pattern has when its repetitions are written out.
func patternSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return min(size, mostPatterns+1)
}

// pattern is one whose matches are counted.
type pattern struct {
	*regexp.Regexp

	size  int
	steps *budget
}

func (p *pattern) MatchString(s string) bool {
	p.steps.spend(1 + p.size*len(s)/bytesPerStep)
	return p.Regexp.MatchString(s)
}

// unchecked is a pattern that everything matches.
type unchecked string

func (u unchecked) String() string        { return string(u) }
func (unchecked) MatchString(string) bool { return true }
