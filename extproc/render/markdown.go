package render

import (
	"strconv"
	"strings"
)

// notVisible is what stands where a model thought and does not show it.
const notVisible = "Reasoning performed (not visible)"

// Notice says that reasoning took place that nobody sees: "Reasoning performed (not visible): 312 tokens".
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

// Markdown makes a model's thoughts fit for a panel of a page. They are Markdown as models write it, and stay so: code keeps its fences,
// and thereby its language, for colours. A fence that was left open is closed, so that what the page puts behind it is no code. It
// is a model's text as the answer is: what a page must not take from that, it must not take from this.
func Markdown(text string) string {
	text = strings.Trim(text, "\r\n")
	open := "" // the fence that the text is inside of
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

// fenceOf is the fence of a line: at least three of ` or ~, behind at most three spaces; "" for none.
func fenceOf(line string) string {
	rest := strings.TrimLeft(line, " ")
	if len(line)-len(rest) > 3 || rest == "" || rest[0] != '`' && rest[0] != '~' {
		return ""
	}
	n := len(rest) - len(strings.TrimLeft(rest, rest[:1]))
	if n < 3 || rest[0] == '`' && strings.Contains(rest[n:], "`") { // code within a line
		return ""
	}
	return rest[:n]
}

// closes reports whether a line with this fence ends a block: the same character, at least as often, and nothing behind it.
func closes(line, fence, open string) bool {
	return len(fence) >= len(open) && fence[0] == open[0] && strings.TrimSpace(line) == fence
}
