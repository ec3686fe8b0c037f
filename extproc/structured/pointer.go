package structured

import (
	"net/url"
	"strings"
)

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// parsePointer splits a reference within the document into its path. ok is false for anchors and references to other documents.
func parsePointer(ref string) (tokens []string, ok bool) {
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
		tokens[i] = unescapePointer.Replace(tokens[i])
	}
	return tokens, true
}

// readablePath formats a path as signals[0].magnitude.
func readablePath(tokens []string) string {
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

// maxQuoted is how many bytes of a value or name of the answer are quoted in an issue.
const maxQuoted = 80

// clip shortens a text to maxQuoted bytes.
func clip(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}
