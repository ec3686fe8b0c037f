// Package rule has the elements of an operator's rules for tool calls: name patterns with *, conditions in CEL, and JSON Schemas of arguments; and expressions about
// the usage of requests. It knows neither the configuration nor requests, so that the configuration is checked with the same code that later evaluates them.
package rule

import (
	"slices"
	"strings"
)

// Names are patterns in which * matches any text, including none. They are case-sensitive.
type Names []string

// Match reports whether any of the patterns matches a name.
func (n Names) Match(name string) bool {
	return slices.ContainsFunc(n, func(pattern string) bool { return match(pattern, name) })
}

// First returns the first pattern that matches a name; "" for none.
func (n Names) First(name string) string {
	for _, pattern := range n {
		if match(pattern, name) {
			return pattern
		}
	}
	return ""
}

// match takes time proportional to the product of both lengths at most: each part between stars is matched at its first occurrence.
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
