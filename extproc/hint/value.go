package hint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// value is a hint as it was said: a header's text, or JSON.
type value struct {
	text string
	json jsonx.Value
}

// wrong is why a hint cannot be read. Its place is put before it on the way up: what is right builds none.
type wrong struct {
	path    string // inside the hint's source: .profile.temperature
	problem string
}

// Error is for tests of this package: refused writes what the client reads.
func (w *wrong) Error() string { return w.path + ": " + w.problem }

// wrong says what was expected, and what came.
func (v value) wrong(expected string, args ...any) error {
	return &wrong{problem: fmt.Sprintf(expected, args...) + ", not " + v.shown()}
}

// shown is the value as an error may repeat it.
func (v value) shown() string {
	const most = 40
	clipped := func(s string) string {
		if len(s) <= most {
			return s
		}
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	switch v.json.Kind() {
	case jsonx.Invalid:
		return strconv.Quote(clipped(v.text))
	case jsonx.String:
		s, _ := v.json.Str()
		return strconv.Quote(clipped(s))
	case jsonx.Number, jsonx.Bool, jsonx.Null:
		return clipped(string(v.json.Raw))
	default:
		return v.json.Kind().String()
	}
}

// at puts a place before an error's.
func at(place string, err error) error {
	if w, ok := err.(*wrong); ok { //nolint:errorlint // it is this package's own, and never wrapped
		w.path = place + w.path
	}
	return err
}

// str is a text; ok is false for other JSON than a string.
func (v value) str() (s string, ok bool) {
	if v.json.Exists() {
		return v.json.Str()
	}
	return v.text, true
}

// word reads a short name.
func (v value) word(into *string) error { return v.token(into, longestWord) }

// id reads an identifier. In JSON it may be a whole number.
func (v value) id(into *string) error {
	if n, ok := v.json.Int(); ok {
		*into = strconv.FormatInt(n, 10)
		return nil
	}
	return v.token(into, longestID)
}

func (v value) token(into *string, longest int) error {
	s, ok := v.str()
	if !ok || s == "" || len(s) > longest || strings.ContainsFunc(s, notInToken) {
		return v.wrong("expected 1 to %d letters, digits and -_.:/@#+~", longest)
	}
	*into = s
	return nil
}

func notInToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:/@#+~", r)
}

// prose reads a text of any characters but controls.
func (v value) prose(into *string, longest int) error {
	s, ok := v.str()
	if !ok || s == "" || len(s) > longest || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return v.wrong("expected a text of 1 to %d bytes", longest)
	}
	*into = s
	return nil
}

// choice reads one of a few words, in any case.
func (v value) choice(into *string, words ...string) error {
	s, ok := v.str()
	i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, s) })
	if !ok || i < 0 {
		return v.wrong("expected one of %s", strings.Join(words, ", "))
	}
	*into = words[i]
	return nil
}

// oneOf reads a name by its own parser, in any case.
func oneOf[T any](into *T, v value, parse func(string) (T, bool), expected string) error {
	s, ok := v.str()
	if ok && len(s) <= longestWord {
		if *into, ok = parse(strings.ToLower(s)); ok {
			return nil
		}
	}
	return v.wrong("expected %s", expected)
}

// privacyTier reads a tier, or the name of the feature that is the strongest one.
func privacyTier(s string) (policy.PrivacyTier, bool) {
	if s == string(policy.EndToEndEncryption) {
		return policy.PrivacyEndToEnd, true
	}
	return policy.ParsePrivacyTier(s)
}

// float reads a number as JSON writes it: neither NaN nor infinite.
func (v value) float(low, high float64) (float64, error) {
	j := v.json
	if !j.Exists() {
		j.Raw = jsonx.Raw(v.text)
	}
	f, ok := j.Float()
	if !ok || !(f >= low && f <= high) {
		return 0, v.wrong("expected a number from %v to %v", low, high)
	}
	return f, nil
}

// number reads a number that may be left out.
func (v value) number(into **float64, low, high float64) error {
	f, err := v.float(low, high)
	if err == nil {
		*into = &f
	}
	return err
}

func (v value) integer(into *int64, low, high int64) error {
	j := v.json
	if !j.Exists() {
		j.Raw = jsonx.Raw(v.text)
	}
	n, ok := j.Int()
	if !ok || n < low || n > high {
		return v.wrong("expected a whole number from %d to %d", low, high)
	}
	*into = n
	return nil
}

// count reads a step of a schedule. Steps count from 1; 0 says nothing.
func (v value) count(into *int) error {
	var n int64
	err := v.integer(&n, 0, mostSteps)
	*into = int(n)
	return err
}

func (v value) boolean(into *bool) error {
	b, ok := v.json.Bool()
	if !v.json.Exists() {
		b = strings.EqualFold(v.text, "true") || v.text == "1"
		ok = b || strings.EqualFold(v.text, "false") || v.text == "0"
	}
	if !ok {
		return v.wrong("expected true or false")
	}
	*into = b
	return nil
}

// maybe reads a boolean that may be left out.
func (v value) maybe(into **bool) error {
	var b bool
	err := v.boolean(&b)
	if err == nil {
		*into = &b
	}
	return err
}

// items yields the parts of a list: separated by commas in a header, an array in JSON. It is an error for other JSON.
func (v value) items(yield func(i int, item value) error) error {
	if !v.json.Exists() {
		i := 0
		for part := range strings.SplitSeq(v.text, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			if err := yield(i, value{text: part}); err != nil {
				return err
			}
			i++
		}
		return nil
	}
	if v.json.Kind() != jsonx.Array {
		return v.wrong("expected an array")
	}
	for i, e := range v.json.Each {
		if err := yield(i, value{json: e}); err != nil {
			return at("["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}
