package compress

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// readers are words in the names of tools that read files: an agent that edits a file needs its white space.
var readers = []string{"read", "cat", "open", "view", "file", "edit", "show", "bash", "shell", "exec"}

// terminals are words in the names of tools whose results are the output of a terminal.
var terminals = []string{"bash", "shell", "exec", "terminal", "command", "console", "run"}

// toolNameHas reports whether the name of a result's tool has one of some words.
func toolNameHas(r *result, words []string) bool {
	name, _, _ := strings.Cut(r.invocation, "\x00")
	name = strings.ToLower(name)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
}

// compacted is a JSON result without white space between its values; "" if that changes nothing, or is not allowed.
func compacted(r *result) string {
	text := strings.TrimSpace(r.value)
	if text == "" || text[0] != '{' && text[0] != '[' || r.invocation == "" || toolNameHas(r, readers) {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil || b.Len() == len(r.value) {
		return ""
	}
	return b.String()
}

// control matches what moves a terminal's cursor or sets its colours (ECMA-48): control sequences, and operating system commands.
var control = regexp.MustCompile("\x1b\\[[\\x30-\\x3f]*[\\x20-\\x2f]*[\\x40-\\x7e]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)")

// displayed is a result as a terminal shows it: without colours, and without overwritten lines, as of progress bars; "" if that changes nothing.
func displayed(r *result) string {
	if !toolNameHas(r, terminals) || !strings.ContainsAny(r.value, "\x1b\r") {
		return ""
	}
	lines := strings.Split(control.ReplaceAllString(r.value, ""), "\n")
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
	}
	if shown := strings.Join(lines, "\n"); shown != r.value {
		return shown
	}
	return ""
}
