package configfile

import (
	"fmt"
	"slices"
	"strings"
)

// layout finds the indentation mistake, or the bracket that is not closed, in a YAML file that the parser refuses: the parser's own message is about what follows the mistake, and its
// line is often the start of the table. ok is false if nothing is found. It supports the YAML of configuration files, not all of YAML.
func layout(data []byte) (line int, message, expected string, ok bool) {
	l := layoutReader{block: -1}
	for text := range strings.SplitSeq(string(data), "\n") {
		line++
		if message, expected = l.line(strings.TrimSuffix(text, "\r")); message != "" {
			return line, message, expected, true
		}
		if l.depth > 0 && l.opened == 0 {
			l.opened = line
		} else if l.depth <= 0 {
			l.opened = 0
		}
	}
	return l.opened, "a bracket opens here and is not closed", "} or ]", l.opened > 0
}

type layoutReader struct {
	columns []int // columns of the open tables and lists, outermost first
	opens   bool  // the last key has no value yet
	block   int   // column of the key whose text block is open; -1 for none
	depth   int   // open brackets
	opened  int   // line of the outermost open bracket; 0 for none
}

func (l *layoutReader) line(text string) (message, expected string) {
	content := strings.TrimLeft(text, " \t")
	column := len(text) - len(content)
	switch {
	case l.depth > 0:
		l.depth += brackets(content)
		return "", ""
	case content == "" || content[0] == '#' || l.block >= 0 && column > l.block:
		return "", ""
	case strings.Contains(text[:column], "\t"):
		return "a tab in the indentation", "spaces"
	}
	l.block = -1
	content = uncommented(content)
	item := content == "-" || strings.HasPrefix(content, "- ")
	if !item && !isKey(content) {
		l.depth += brackets(content)
		return "", "" // continuation of a value
	}
	if message, expected = l.place(column); message != "" {
		return message, expected
	}
	l.enter(column, content)
	return "", ""
}

// place compares a line's column with the open ones.
func (l *layoutReader) place(column int) (message, expected string) {
	if len(l.columns) == 0 {
		l.columns = []int{column}
		return "", ""
	}
	top := l.columns[len(l.columns)-1]
	if column > top {
		if !l.opens {
			return fmt.Sprintf("indented by %d spaces, deeper than the line before, which has its value already", column), spaces(top)
		}
		l.columns = append(l.columns, column)
		return "", ""
	}
	i := slices.IndexFunc(l.columns, func(c int) bool { return c >= column })
	if l.columns[i] != column {
		near := spaces(l.columns[i])
		if i > 0 {
			near = fmt.Sprintf("%d or %s", l.columns[i-1], near)
		}
		return fmt.Sprintf("indented by %d spaces, where no line above begins", column), near
	}
	l.columns = l.columns[:i+1]
	return "", ""
}

// enter records what a line opens.
func (l *layoutReader) enter(column int, content string) {
	for strings.HasPrefix(content, "- ") {
		rest := strings.TrimLeft(content[1:], " ")
		column += len(content) - len(rest)
		content = rest
		if isKey(content) {
			l.columns = append(l.columns, column)
		}
	}
	l.opens = strings.HasSuffix(content, ":") || content == "-"
	if at := strings.LastIndex(content, ": "); at >= 0 && strings.ContainsAny(content[at+2:at+3], "|>") {
		l.block = column
	}
	l.depth += brackets(content)
}

// isKey reports whether content starts with a key.
func isKey(content string) bool {
	key, _, found := strings.Cut(content, ": ")
	if !found {
		key, found = strings.CutSuffix(content, ":")
	}
	return found && !strings.ContainsAny(key, "{}[]\"'")
}

// uncommented returns content without a trailing comment.
func uncommented(content string) string {
	if at := strings.Index(content, " #"); at >= 0 && brackets(content[:at]) == 0 && strings.Count(content[:at], `"`)%2 == 0 {
		content = content[:at]
	}
	return strings.TrimRight(content, " ")
}

// brackets returns how many more brackets open than close in content, up to a comment.
func brackets(content string) (n int) {
	quote := rune(0)
	for i, c := range content {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#' && (i == 0 || content[i-1] == ' '):
			return n
		case c == '{' || c == '[':
			n++
		case c == '}' || c == ']':
			n--
		}
	}
	return n
}

func spaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}
