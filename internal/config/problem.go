package config

import (
	"fmt"
	"strings"
)

// Problem is one mistake in the configuration, or one warning.
type Problem struct {
	File      string // the file, or the variable of the environment
	Line, Col int    // from 1; 0 where there is no line
	Key       string // dotted path of the key, "" for the file as a whole
	Message   string
	Expected  string // what would be correct, "" if Message says it
	Warning   bool   // the configuration can be used
}

// String returns "file:line: key: problem, expected …".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	if p.Expected != "" {
		b.WriteString(", expected " + p.Expected)
	}
	return b.String()
}

// Error implements error.
func (p Problem) Error() string { return p.String() }

// Failed reports whether any of the problems is more than a warning.
func Failed(ps []Problem) bool {
	for _, p := range ps {
		if !p.Warning {
			return true
		}
	}
	return false
}
