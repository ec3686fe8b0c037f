package telemetry

import (
	"bytes"
	"io"
	"regexp"
)

// redactor masks credentials in its output, one whole line at a time. It works on the finished line, so that neither the name nor the type of a value
// matters.
type redactor struct{ w io.Writer }

// Write masks and forwards one line.
func (r redactor) Write(line []byte) (int, error) {
	if _, err := r.w.Write(redact(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// rule masks one kind of credential. The expression runs only on lines with one of the marks, which is a cheap check.
type rule struct {
	marks   []string
	find    *regexp.Regexp
	replace []byte
}

var rules = []rule{
	{
		[]string{"bardo_"},
		regexp.MustCompile(`(bardo_[sp]k_(?:[0-9A-Za-z]{12}_)?)[0-9A-Za-z_]*…?`), []byte("${1}…"),
	},
	{
		[]string{"earer", "EARER", "asic", "ASIC"},
		regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[0-9A-Za-z._~+/=-]{8,}`), []byte("${1}…"),
	},
	{[]string{"sk-"}, regexp.MustCompile(`\bsk-[0-9A-Za-z_-]{8,}`), []byte("sk-…")},
	{[]string{"AIza"}, regexp.MustCompile(`AIza[0-9A-Za-z_-]{8,}`), []byte("AIza…")},
	{[]string{"eyJ"}, regexp.MustCompile(`eyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]*`), []byte("eyJ…")},
	{
		[]string{"key=", "token=", "secret="},
		regexp.MustCompile(`([?&][0-9A-Za-z_-]*(?:key|token|secret)=)[^&\s"\\]+`), []byte("${1}…"),
	},
	{
		[]string{`uthorization":`, `_key":`, `-key":`, `ikey":`, `iKey":`, `IKey":`, `ecret":`, `assword":`, `epper":`},
		regexp.MustCompile(`("(?i:(?:proxy-)?authorization|[a-z_-]*api[-_]?key|[a-z_]*_key|[a-z_]*secret|password|pepper)":)"(?:[^"\\]|\\.)*"`), []byte(`${1}"…"`),
	},
}

func redact(line []byte) []byte {
	for i := range rules {
		if rules[i].applies(line) {
			line = rules[i].find.ReplaceAll(line, rules[i].replace)
		}
	}
	return line
}

func (r *rule) applies(line []byte) bool {
	for _, m := range r.marks {
		if bytes.Contains(line, []byte(m)) {
			return true
		}
	}
	return false
}
