// Package rule is what an operator says about calls of tools: names with *, conditions in CEL, and JSON Schemas of arguments. It knows neither the configuration
// nor requests, so that the configuration can be checked with what later judges calls.
package rule

import (
	"slices"
	"strings"
)

// Names are names in which * stands for any text, also for none. Case counts.
type Names []string

// Match reports whether one of them is a name.
func (n Names) Match(name string) bool {
	return slices.ContainsFunc(n, func(pattern string) bool { return match(pattern, name) })
}

// First is the first of them that a name matches; "" for none.
func (n Names) First(name string) string {
	for _, pattern := range n {
		if match(pattern, name) {
			return pattern
		}
	}
	return ""
}

// match takes time in proportion to the product of both lengths at most: of the parts between stars, each is found at its first place.
func match(pattern, name string) bool {
	first, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	for _, part := range parts[:len(parts)-1] {
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}
