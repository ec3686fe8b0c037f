package hint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// value is an unparsed hint: a header's text, or JSON.
type value struct {
	text string
	json jsonx.Value
}

// hintError is why a hint is invalid. The path is prepended by the callers, so that valid hints build none.
type hintError struct {
	path    string // within the hint: .profile.temperature
	problem string
}

// Error is for tests of this package; invalidHint writes the client's message.
func (w *hintError) Error() string { return w.path + ": " + w.problem }

// invalid returns the error for an unexpected value.
func (v value) invalid(expected string, args ...any) error {
	return &hintError{problem: fmt.Sprintf(expected, args...) + ", not " + v.quoted()}
}

// quoted returns the value as quoted in an error, limited to 40 bytes.
func (v value) quoted() string {
	const maxBytes = 40
	clipped := func(s string) string {
		if len(s) <= maxBytes {
			return s
		}
		return strings.ToValidUTF8(s[:maxBytes], "") + "…"
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

// withPath prepends a path to an error's.
func withPath(place string, err error) error {
	if w, ok := err.(*hintError); ok { //nolint:errorlint // it is this package's own, and never wrapped
		w.path = place + w.path
	}
	return err
}

// str returns the value's text; ok is false for JSON that is not a string.
func (v value) str() (s string, ok bool) {
	if v.json.Exists() {
		return v.json.Str()
	}
	return v.text, true
}

// word parses a short name.
func (v value) word(into *string) error { return v.token(into, maxWord) }

// id parses an identifier. In JSON it may be an integer.
func (v value) id(into *string) error {
	if n, ok := v.json.Int(); ok {
		*into = strconv.FormatInt(n, 10)
		return nil
	}
	return v.token(into, maxID)
}

func (v value) token(into *string, longest int) error {
	s, ok := v.str()
	if !ok || s == "" || len(s) > longest || strings.ContainsFunc(s, notInToken) {
		return v.invalid("expected 1 to %d letters, digits and -_.:/@#+~", longest)
	}
	*into = s
	return nil
}

func notInToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:/@#+~", r)
}

// prose parses a text without control characters.
func (v value) prose(into *string, longest int) error {
	s, ok := v.str()
	if !ok || s == "" || len(s) > longest || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return v.invalid("expected a text of 1 to %d bytes", longest)
	}
	*into = s
	return nil
}

// choice parses one of several words, in any case.
func (v value) choice(into *string, words ...string) error {
	s, ok := v.str()
	i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, s) })
	if !ok || i < 0 {
		return v.invalid("expected one of %s", strings.Join(words, ", "))
	}
	*into = words[i]
	return nil
}

// oneOf parses a name with parse, in any case.
func oneOf[T any](into *T, v value, parse func(string) (T, bool), expected string) error {
	s, ok := v.str()
	if ok && len(s) <= maxWord {
		if *into, ok = parse(strings.ToLower(s)); ok {
			return nil
		}
	}
	return v.invalid("expected %s", expected)
}

// privacyTier parses a tier, or the name of the end-to-end encryption feature.
func privacyTier(s string) (policy.PrivacyTier, bool) {
	if s == string(policy.EndToEndEncryption) {
		return policy.PrivacyEndToEnd, true
	}
	return policy.ParsePrivacyTier(s)
}

// float parses a number in JSON's notation.
func (v value) float(low, high float64) (float64, error) {
	j := v.json
	if !j.Exists() {
		j.Raw = jsonx.Raw(v.text)
	}
	f, ok := j.Float()
	if !ok || !(f >= low && f <= high) {
		return 0, v.invalid("expected a number from %v to %v", low, high)
	}
	return f, nil
}

// number parses an optional number.
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
		return v.invalid("expected a whole number from %d to %d", low, high)
	}
	*into = n
	return nil
}

// count parses a step of a schedule. Steps start at 1; 0 means none.
func (v value) count(into *int) error {
	var n int64
	err := v.integer(&n, 0, maxSteps)
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
		return v.invalid("expected true or false")
	}
	*into = b
	return nil
}

// optionalBool parses an optional boolean.
func (v value) optionalBool(into **bool) error {
	var b bool
	err := v.boolean(&b)
	if err == nil {
		*into = &b
	}
	return err
}

// items calls yield for the elements of a list: comma-separated in a header, an array in JSON.
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
		return v.invalid("expected an array")
	}
	for i, e := range v.json.Each {
		if err := yield(i, value{json: e}); err != nil {
			return withPath("["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}
