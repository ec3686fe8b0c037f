package configfile

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

// Pos is a position in a file, or an environment variable (line 0).
type Pos struct {
	File      string
	Line, Col int // from 1
}

// Problem returns a problem at this position.
func (p Pos) Problem(key, expected, format string, args ...any) Problem {
	return Problem{File: p.File, Line: p.Line, Col: p.Col, Key: key, Message: fmt.Sprintf(format, args...), Expected: expected}
}
