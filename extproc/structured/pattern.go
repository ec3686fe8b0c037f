package structured

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of the patterns of one schema. The time of a match is proportional to the size of the pattern times the length of the text.
const (
	maxPatternBytes = 4 << 10 // bytes
	maxPatternSteps = 40_000  // total size of all patterns, see patternSize
	bytesPerStep    = 256     // bytes of text × size of pattern that count as one step of a check
)

var errPattern = errors.New("makes the patterns of the schema too large")

// patterns compiles the patterns of one schema.
type patterns struct {
	steps *budget
	size  int
}

// compile compiles a pattern for matching in linear time. JSON Schema uses ECMAScript patterns: those with lookahead or backreferences, which
// Go's regexp does not have, are not checked.
func (p *patterns) compile(s string) (jsonschema.Regexp, error) {
	if len(s) > maxPatternBytes {
		return nil, errPattern
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return unchecked(s), nil //nolint:nilerr // see above
	}
	size := patternSize(tree)
	if p.size += size; p.size > maxPatternSteps {
		return nil, errPattern
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return unchecked(s), nil //nolint:nilerr // see above
	}
	return &pattern{Regexp: re, size: size, steps: p.steps}, nil
}

// patternSize returns the approximate size of a pattern with its repetitions expanded.
func patternSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return min(size, maxPatternSteps+1)
}

// pattern counts the cost of its matches.
type pattern struct {
	*regexp.Regexp

	size  int
	steps *budget
}

func (p *pattern) MatchString(s string) bool {
	p.steps.spend(1 + p.size*len(s)/bytesPerStep)
	return p.Regexp.MatchString(s)
}

// unchecked is a pattern that matches everything.
type unchecked string

func (u unchecked) String() string        { return string(u) }
func (unchecked) MatchString(string) bool { return true }
