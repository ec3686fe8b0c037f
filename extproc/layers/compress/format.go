package compress

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// readers are words in the names of tools whose results are files: an agent that edits a file must know its white space.
var readers = []string{"read", "cat", "open", "view", "file", "edit", "show", "bash", "shell", "exec"}

// terminals are words in the names of tools whose results are what a terminal got.
var terminals = []string{"bash", "shell", "exec", "terminal", "command", "console", "run"}

// isOf reports whether the tool of a result has one of some words in its name.
func isOf(r *result, words []string) bool {
	name, _, _ := strings.Cut(r.made, "\x00")
	name = strings.ToLower(name)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
}

// compacted is a result that is JSON without white space between its values; "" if that changes nothing, or must not be.
func compacted(r *result) string {
	text := strings.TrimSpace(r.value)
	if text == "" || text[0] != '{' && text[0] != '[' || r.made == "" || isOf(r, readers) {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil || b.Len() == len(r.value) {
		return ""
	}
	return b.String()
}

// control is what moves a terminal's cursor or sets its colours (ECMA-48): a control sequence, or a command to the operating system.
var control = regexp.MustCompile("\x1b\\[[\\x30-\\x3f]*[\\x20-\\x2f]*[\\x40-\\x7e]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)")

// displayed is what a terminal shows of a result: without colours, and without lines that were written over, as progress bars do; "" if that changes
// nothing.
func displayed(r *result) string {
	if !isOf(r, terminals) || !strings.ContainsAny(r.value, "\x1b\r") {
		return ""
	}
	lines := strings.Split(control.ReplaceAllString(r.value, ""), "\n")
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
	}
	if again := strings.Join(lines, "\n"); again != r.value {
		return again
	}
	return ""
}
