package render

import (
	"strconv"
	"strings"
)

// notVisible replaces reasoning whose text the provider does not return.
const notVisible = "Reasoning performed (not visible)"

// Notice describes hidden reasoning: "Reasoning performed (not visible): 312 tokens".
func Notice(tokens int64, estimated bool) string {
	if tokens <= 0 {
		return notVisible
	}
	about := ": "
	if estimated {
		about = ": about "
	}
	return notVisible + about + strconv.FormatInt(tokens, 10) + " tokens"
}

// Markdown prepares reasoning for a panel of a web page: it closes an open code fence, so that what the page puts behind it is not code. It is
// untrusted text of a model and must be escaped like the answer.
func Markdown(text string) string {
	text = strings.Trim(text, "\r\n")
	open := "" // the current opening fence
	for line := range strings.Lines(text) {
		switch fence := fenceOf(line); {
		case open == "":
			open = fence
		case closes(line, fence, open):
			open = ""
		}
	}
	if open == "" {
		return text
	}
	return text + "\n" + open
}

// fenceOf returns a line's fence: at least three ` or ~ after at most three spaces; "" if there is none.
func fenceOf(line string) string {
	rest := strings.TrimLeft(line, " ")
	if len(line)-len(rest) > 3 || rest == "" || rest[0] != '`' && rest[0] != '~' {
		return ""
	}
	n := len(rest) - len(strings.TrimLeft(rest, rest[:1]))
	if n < 3 || rest[0] == '`' && strings.Contains(rest[n:], "`") { // inline code
		return ""
	}
	return rest[:n]
}

// closes reports whether a line closes a block: the same character, at least as many, and nothing else.
func closes(line, fence, open string) bool {
	return len(fence) >= len(open) && fence[0] == open[0] && strings.TrimSpace(line) == fence
}
