package structured

import (
	"net/url"
	"strings"
)

var unpointed = strings.NewReplacer("~1", "/", "~0", "~")

// pointer is the path that a reference inside a document says. ok is false for names and for other documents.
func pointer(ref string) (tokens []string, ok bool) {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	rest, err := url.PathUnescape(rest)
	if err != nil || rest != "" && rest[0] != '/' {
		return nil, false
	}
	if rest == "" {
		return nil, true
	}
	tokens = strings.Split(rest[1:], "/")
	for i := range tokens {
		tokens[i] = unpointed.Replace(tokens[i])
	}
	return tokens, true
}

// at is a place in a document, as people write it: signals[0].magnitude.
func at(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		switch {
		case isIndex(t):
			b.WriteString("[" + t + "]")
		case b.Len() > 0:
			b.WriteString("." + clip(t))
		default:
			b.WriteString(clip(t))
		}
	}
	return b.String()
}

func isIndex(t string) bool {
	return t != "" && len(t) < 10 && strings.Trim(t, "0123456789") == ""
}

// longestQuote is how much of a value or a name of the answer is repeated.
const longestQuote = 80

// clip is the beginning of a long text.
func clip(s string) string {
	if len(s) <= longestQuote {
		return s
	}
	return strings.ToValidUTF8(s[:longestQuote], "") + "…"
}
