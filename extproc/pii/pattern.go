package pii

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Limits of an operator's patterns.
const (
	MaxPatterns       = 64
	maxPatternBytes   = 1024
	maxPatternProgram = 10_000 // instructions
	maxTypeBytes      = 24
)

// Pattern is an operator's type of values.
type Pattern struct {
	Name     string   // name of the type: letters, digits and underscores
	Regexp   string   // in RE2's syntax
	Examples []string // texts that must match as a whole
	Not      []string // texts that must have no match
}

// Patterns finds values of an operator's types. Safe for concurrent use.
type Patterns struct{ all []compiled }

type compiled struct {
	re       *regexp.Regexp
	name     Type
	required string // a literal in every match; "" if unknown
}

var _ Detector = (*Patterns)(nil)

// NewPatterns compiles patterns and tests them with their examples. The error names the pattern and the problem.
func NewPatterns(patterns []Pattern) (*Patterns, error) {
	if len(patterns) > MaxPatterns {
		return nil, fmt.Errorf("%d patterns, at most %d", len(patterns), MaxPatterns)
	}
	p := &Patterns{}
	for i := range patterns {
		c, err := compile(&patterns[i])
		if err != nil {
			return nil, fmt.Errorf("pattern %s: %w", patterns[i].Name, err)
		}
		p.all = append(p.all, c)
	}
	return p, nil
}

func compile(p *Pattern) (compiled, error) {
	name := Type(strings.ToUpper(p.Name))
	if !isTypeName(string(name)) || name == lookalike {
		return compiled{}, fmt.Errorf("%q is no name: a letter, then letters, digits and underscores, at most %d", p.Name, maxTypeBytes)
	}
	if slices.Contains(Builtin, name) {
		return compiled{}, errors.New("the name is that of a built-in type")
	}
	if len(p.Regexp) > maxPatternBytes {
		return compiled{}, fmt.Errorf("%d bytes, at most %d", len(p.Regexp), maxPatternBytes)
	}
	tree, err := syntax.Parse(p.Regexp, syntax.Perl)
	if err != nil {
		return compiled{}, err
	}
	required := requiredText(tree)
	if prog, err := syntax.Compile(tree.Simplify()); err != nil {
		return compiled{}, err
	} else if len(prog.Inst) > maxPatternProgram {
		return compiled{}, fmt.Errorf("it compiles to %d instructions, at most %d", len(prog.Inst), maxPatternProgram)
	}
	re, err := regexp.Compile(p.Regexp)
	if err != nil {
		return compiled{}, err
	}
	if re.MatchString("") {
		return compiled{}, errors.New("it matches an empty text")
	}
	for _, e := range p.Examples {
		if at := re.FindStringIndex(e); len(at) != 2 || at[0] != 0 || at[1] != len(e) {
			return compiled{}, fmt.Errorf("it does not match the whole of its example %q", e)
		}
	}
	for _, e := range p.Not {
		if found := re.FindString(e); found != "" {
			return compiled{}, fmt.Errorf("it matches %q in %q, which it must not", found, e)
		}
	}
	return compiled{re, name, required}, nil
}

func isTypeName(s string) bool {
	if s == "" || len(s) > maxTypeBytes || s[0] < 'A' || s[0] > 'Z' {
		return false
	}
	for i := range len(s) {
		if classes[s[i]]&(upper|digit|underscore) == 0 {
			return false
		}
	}
	return true
}

// requiredText returns the longest literal that every match contains.
func requiredText(re *syntax.Regexp) (best string) {
	switch re.Op { //nolint:exhaustive // the others have no required literal
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return string(re.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return requiredText(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return requiredText(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if s := requiredText(sub); len(s) > len(best) {
				best = s
			}
		}
	}
	return best
}

// Find implements Detector.
func (p *Patterns) Find(ctx context.Context, text string, out []Span) ([]Span, error) {
	for i := range p.all {
		c := &p.all[i]
		if c.required != "" && !strings.Contains(text, c.required) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return out, err
		}
		for _, at := range c.re.FindAllStringIndex(text, -1) {
			out = append(out, Span{at[0], at[1], c.name, 0.9})
		}
	}
	return out, nil
}
