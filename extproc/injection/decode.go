package injection

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of decoding: depth of nested encodings, number of encoded parts, and decoded bytes.
const (
	maxDepth   = 3
	maxParts   = 32
	maxDecoded = 64 << 10
)

// view is a decoded text, for patterns and classifier.
type view struct {
	clean  string   // without invisible characters and look-alikes
	folded string   // clean in the form of the patterns
	parts  []string // encoded or hidden parts, decoded
	tags   bool     // it has a text in invisible characters, which no program writes by accident
	forms  []unit   // other readings, which are matched and not scored
}

// decoder collects the encoded parts of a text.
type decoder struct {
	parts []string
	bytes int
}

// decode returns the view of a text.
func decode(text string) view {
	text = Clip(text)
	v := view{}
	hidden := invisible(text)
	v.tags = hidden != ""
	v.clean = clean(text)
	v.folded = fold(v.clean)
	d := decoder{}
	d.add(hidden, 1)
	d.find(v.clean, 1)
	v.parts = d.parts
	v.addForms()
	return v
}

// Clip returns the examined part of a text: of one that is too long, the beginning and the end.
func Clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText/2], "") + "\n" + strings.ToValidUTF8(text[len(text)-maxText/2:], "")
}

// addForms adds the spelled, mirrored and leet readings.
func (v *view) addForms() {
	if letters := spelled(v.clean); letters != "" {
		v.parts = append(v.parts, letters)
		v.forms = append(v.forms, unit{folded: strings.ReplaceAll(fold(letters), " ", ""), encoded: true, compact: true})
	}
	if again, ok := unleet(v.folded); ok {
		v.forms = append(v.forms, unit{folded: again, encoded: true, guessed: true})
	}
	for _, mirror := range [...]func(string) (string, bool){rot13, reverse} {
		if again, ok := mirror(v.folded); ok {
			v.parts = append(v.parts, again)
		}
	}
}

// add adds a decoded part, and searches it for further ones.
func (d *decoder) add(part string, depth int) {
	if part == "" || len(d.parts) >= maxParts || d.bytes+len(part) > maxDecoded {
		return
	}
	d.bytes += len(part)
	part = clean(part)
	d.parts = append(d.parts, part)
	if depth < maxDepth {
		d.find(part, depth+1)
	}
}

// find adds the encoded parts of a text.
func (d *decoder) find(text string, depth int) {
	d.runs(text, depth)
	for _, u := range unescapers {
		if again, ok := u(text); ok {
			d.add(again, depth)
		}
	}
}

// Minimum lengths of encoded parts: 12 bytes of text.
const (
	minBase64 = 16
	minHex    = 24
)

// runs adds the content of runs of base64's characters.
func (d *decoder) runs(text string, depth int) {
	for i := 0; i < len(text); {
		if !isBase64(text[i]) {
			i++
			continue
		}
		run, end := runAt(text, i)
		i = end
		if len(run) >= minBase64 && len(d.parts) < maxParts {
			d.run(run, depth)
		}
	}
}

// run adds the content of a run of base64's characters, in hexadecimal or base64.
func (d *decoder) run(run string, depth int) {
	digits := strings.TrimPrefix(run, "0x")
	if len(digits) >= minHex && len(digits)%2 == 0 {
		if b, err := hex.DecodeString(digits); err == nil {
			d.text(b, depth)
			return
		}
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(run, "-_") {
		encoding = base64.RawURLEncoding
	}
	for cut := range min(4, len(run)) { // a word may adjoin it
		if b, err := encoding.DecodeString(run[:(len(run)-cut)/4*4+tail(len(run)-cut)]); err == nil && (isText(b) || isRun(b)) {
			d.text(b, depth)
			return
		}
	}
}

// tail returns the number of characters of a run beyond a multiple of 4 that are valid: 0, 2 or 3.
func tail(n int) int {
	if n%4 == 1 {
		return 0
	}
	return n % 4
}

func (d *decoder) text(b []byte, depth int) {
	if isText(b) || isRun(b) { // nested encoding
		d.add(string(b), depth)
	}
}

// isRun reports whether bytes are a run of base64's characters.
func isRun(b []byte) bool {
	return len(b) >= minBase64 && !slices.ContainsFunc(b, func(c byte) bool { return !isBase64(c) })
}

// wrapped is the minimum length of a line of base64 that continues in the next one.
const wrapped = 40

// runAt returns the run of base64's characters at i, which may span lines, and its end.
func runAt(text string, i int) (run string, end int) {
	start, line := i, i
	broken := false
	for i < len(text) {
		switch {
		case isBase64(text[i]):
			i++
			continue
		case (text[i] == '\n' || text[i] == '\r') && i-line >= wrapped:
			for i < len(text) && (text[i] == '\n' || text[i] == '\r') {
				i++
			}
			line, broken = i, true
			continue
		}
		break
	}
	run = text[start:i]
	if broken {
		run = strings.NewReplacer("\n", "", "\r", "").Replace(run)
	}
	return run, i
}

func isBase64(c byte) bool { return base64Chars[c] }

var base64Chars = func() (t [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/-_") {
		t[c] = true
	}
	return t
}()

// isText reports whether bytes are a text of words: at least nine of ten characters are letters, spaces or printable ASCII, and half are letters.
func isText(b []byte) bool {
	if len(b) < 8 || !utf8.Valid(b) {
		return false
	}
	letters, between, all := 0, 0, 0
	for _, r := range string(b) {
		all++
		switch {
		case unicode.IsLetter(r):
			letters++
		case unicode.IsSpace(r) || r < utf8.RuneSelf && unicode.IsPrint(r):
			between++
		}
	}
	return 10*(letters+between) >= 9*all && 10*letters >= 5*all
}

// unescapers decode texts with escapes; they return false for a text with few of them.
var unescapers = []func(string) (string, bool){unescapeURL, unescapeHTML, unescapeCode, unescapeBytes}

// minEscapes is the minimum number of escapes in an encoded text.
const minEscapes = 5

var escapedURL = regexp.MustCompile(`[^\s"'<>]*(?:%[0-9A-Fa-f]{2}[^\s"'<>]*){5,}`)

func unescapeURL(text string) (string, bool) {
	if strings.Count(text, "%") < minEscapes {
		return "", false
	}
	var out []string
	for _, run := range escapedURL.FindAllString(text, maxParts) {
		if again, err := url.QueryUnescape(run); err == nil && isText([]byte(again)) {
			out = append(out, again)
		}
	}
	return strings.Join(out, "\n"), len(out) > 0
}

func unescapeHTML(text string) (string, bool) {
	if strings.Count(text, "&#") < minEscapes {
		return "", false
	}
	return html.UnescapeString(text), true
}

var escapedCode = regexp.MustCompile(`\\(?:u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{2,6}\}|x[0-9A-Fa-f]{2})`)

func unescapeCode(text string) (string, bool) {
	if strings.Count(text, `\u`)+strings.Count(text, `\x`) < minEscapes {
		return "", false
	}
	return escapedCode.ReplaceAllStringFunc(text, func(e string) string {
		n, err := strconv.ParseInt(strings.Trim(e[2:], "{}"), 16, 32)
		if r := rune(n); err == nil && utf8.ValidRune(r) {
			return string(r)
		}
		return e
	}), true
}

// escapedBytes are single bytes in hexadecimal or binary digits: 69 67 6e 6f, or 01101001 01100111.
var escapedBytes = regexp.MustCompile(`\b(?:[0-9A-Fa-f]{2}[ ,:]+){11,}[0-9A-Fa-f]{2}\b|\b(?:[01]{8}[ ,]+){7,}[01]{8}\b`)

func unescapeBytes(text string) (string, bool) {
	if !mayHaveBytes(text) {
		return "", false
	}
	var out []string
	for _, run := range escapedBytes.FindAllString(text, maxParts) {
		var b []byte
		for _, one := range strings.FieldsFunc(run, func(r rune) bool { return r == ' ' || r == ',' || r == ':' }) {
			base := 16
			if len(one) == 8 {
				base = 2
			}
			n, err := strconv.ParseUint(one, base, 8)
			if err != nil {
				break
			}
			b = append(b, byte(n))
		}
		if isText(b) {
			out = append(out, string(b))
		}
	}
	return strings.Join(out, "\n"), len(out) > 0
}

// mayHaveBytes reports whether a text may have escapedBytes; false is certain. Such a text has at least minBytes runs of hexadecimal digits, each of the length of
// a byte, with only separators between them.
func mayHaveBytes(text string) bool {
	const minBytes = 8
	row, run := 0, 0
	for i := range len(text) + 1 {
		c := byte(0)
		if i < len(text) {
			c = text[i]
		}
		if byteChars[c] == hexDigit {
			run++
			continue
		}
		switch run {
		case 0:
		case 2, 8:
			row++
		default:
			row = 0
		}
		if row >= minBytes {
			return true
		}
		if run = 0; byteChars[c] != byteSeparator {
			row = 0
		}
	}
	return false
}

const (
	hexDigit = 1 + iota
	byteSeparator
)

var byteChars = func() (t [256]uint8) {
	for _, c := range []byte("0123456789abcdefABCDEF") {
		t[c] = hexDigit
	}
	for _, c := range []byte(" ,:") {
		t[c] = byteSeparator
	}
	return t
}()
