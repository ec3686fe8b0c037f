package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"bardo.money/gateway/internal/secret"
)

const hidden = "hunter2-and-more"

// TestASecretCannotBePrintedOrMarshalled: by no verb, in no encoding, and not inside of other values, whose unexported fields fmt prints
// without their methods.
func TestASecretCannotBePrintedOrMarshalled(t *testing.T) {
	s := secret.New(hidden)
	type holder struct {
		Public  secret.Text
		private secret.Text
		List    []secret.Text
		Map     map[string]secret.Text
		in      struct{ deep secret.Text }
		any     any
	}
	h := holder{s, s, []secret.Text{s}, map[string]secret.Text{"k": s}, struct{ deep secret.Text }{s}, s}
	var shown []string
	for _, v := range []any{s, &s, h, &h, []any{h}, struct{ h holder }{h}, errors.New(fmt.Sprint(s)), fmt.Errorf("%v %w", s, errors.New("x"))} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%U", "%t", "%10s", "% x"} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
		if b, err := json.Marshal(v); err == nil {
			shown = append(shown, string(b))
		}
		if b, err := xml.Marshal(v); err == nil {
			shown = append(shown, string(b))
		}
		var b bytes.Buffer
		slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "v", v)
		slog.New(slog.NewTextHandler(&b, nil)).Info("m", "v", v)
		shown = append(shown, b.String())
	}
	for _, text := range shown {
		for _, form := range []string{hidden, fmt.Sprintf("%x", hidden), fmt.Sprintf("%X", hidden), fmt.Sprintf("% x", hidden), fmt.Sprintf("%d", []byte(hidden)), "hunter"} {
			if strings.Contains(text, form) {
				t.Errorf("it shows in %q", text)
			}
		}
	}
	if b, err := json.Marshal(map[secret.Text]secret.Text{s: s}); err != nil || string(b) != `{"***":"***"}` {
		t.Errorf("JSON: %s %v", b, err)
	}
	if s.Reveal() != hidden || !s.IsSet() || s.String() != "***" {
		t.Errorf("Reveal gives %q", s.Reveal())
	}
}

func TestTheZeroSecretIsNotSet(t *testing.T) {
	for _, s := range []secret.Text{{}, secret.New("")} {
		if s.IsSet() || s.Reveal() != "" || s.String() != "" {
			t.Errorf("%q is set", s.Reveal())
		}
	}
}

func TestARedactorFindsASecretInEveryWriting(t *testing.T) {
	const key = `Zq7v+X2mN/9pL_4kT8w==`
	r := secret.NewRedactor(secret.New(key), secret.Text{}, secret.New(key), secret.New("EMPTY"), secret.New(key+"-longer"))
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[1 : len(b)-1])
	}
	var unicode, hex, entities strings.Builder
	for _, c := range []byte(key) {
		fmt.Fprintf(&unicode, `\u%04x`, c)
		fmt.Fprintf(&hex, `%%%02X`, c)
		fmt.Fprintf(&entities, `&#%d;`, c)
	}
	for about, row := range map[string]struct{ text, want string }{
		"as it is":                       {"no key " + key + " here", "no key *** here"},
		"alone":                          {key, "***"},
		"twice":                          {key + key, "******"},
		"the longer of two":              {key + "-longer", "***"},
		"escaped whole":                  {"a " + unicode.String() + " b", "a *** b"},
		"escaped twice":                  {"a " + quoted(unicode.String()) + " b", "a *** b"},
		"escaped four times":             {"a " + quoted(quoted(quoted(unicode.String()))) + " b", "a *** b"},
		"split by one escape":            {`Zq7v\u002bX2mN\/9pL_4kT8w==`, "***"},
		"split by an escape of capitals": {`Zq7v\u002BX2mN/9pL_4kT8w==.`, "***."},
		"in a URL":                       {"?key=" + url.QueryEscape(key) + "&x", "?key=***&x"},
		"in a URL, whole":                {hex.String(), "***"},
		"in HTML":                        {"<b>" + html.EscapeString(key) + entities.String() + "&#x5a;q7v&#x2B;X2mN/9pL_4kT8w==</b>", "<b>*********</b>"},
		"cut at the end":                 {"no key Zq7v+X2", "no key ***"},
		"too little at the end":          {"no key Zq7v", "no key Zq7v"},
		"another":                        {"Zq7v+X2mN/9pL_4kT8w=x", "Zq7v+X2mN/9pL_4kT8w=x"},
		"a placeholder":                  {"the key EMPTY is NOT_EMPTY, EMPTY-handed or EMPTYx", "the key *** is NOT_EMPTY, EMPTY-handed or EMPTYx"},
		"the part of a placeholder":      {"EMPT", "EMPT"},
		"broken escapes":                 {`\u00 \ % %2 &# &#; &#x; &#99999; \\\`, `\u00 \ % %2 &# &#; &#x; &#99999; \\\`},
		"nothing":                        {"", ""},
	} {
		t.Run(about, func(t *testing.T) {
			if got := r.String(row.text); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
			if got := string(r.Bytes([]byte(row.text))); got != row.want {
				t.Errorf("bytes: got %q, want %q", got, row.want)
			}
		})
	}
}

func TestANilRedactorChangesNothing(t *testing.T) {
	var r *secret.Redactor
	if got := r.String(hidden); got != hidden {
		t.Errorf("got %q", got)
	}
	if got := r.With(secret.Text{}); got != nil {
		t.Errorf("got %v", got)
	}
	if got := r.With(secret.New(hidden)).String("a " + hidden); got != "a ***" {
		t.Errorf("got %q", got)
	}
	if got := r.With(secret.New("first-secret")).With(secret.New("second-secret")).String("first-secret second-secret"); got != "*** ***" {
		t.Errorf("got %q", got)
	}
}

func TestAWriterRedactsWhatItWrites(t *testing.T) {
	var b bytes.Buffer
	r := secret.NewRedactor(secret.New(hidden))
	w := secret.Writer(&b, func() *secret.Redactor { return r })
	if n, err := fmt.Fprintf(w, "the key is %s\n", hidden); err != nil || n != len("the key is \n")+len(hidden) {
		t.Errorf("%d %v", n, err)
	}
	if b.String() != "the key is ***\n" {
		t.Errorf("it wrote %q", &b)
	}
}

// In any context and with any escapes, a secret is removed, and a text without it is unchanged.
func FuzzNoSecretSurvives(f *testing.F) {
	f.Add("before ", "Zq7v+X2mN/9pL", " after", uint64(0x5555))
	f.Add(`\`, `a\b%c&d;efgh`, `u0041`, uint64(3))
	f.Fuzz(func(t *testing.T, before, key, after string, escape uint64) {
		if len(key) < 8 || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' || c == '*' }) {
			return // no header can carry it, it is no secret, or the mask may complete it
		}
		r := secret.NewRedactor(secret.New(key))
		var b strings.Builder
		for i, c := range []byte(key) {
			if escape>>(i%64)&1 == 1 {
				fmt.Fprintf(&b, `\u%04x`, c)
			} else {
				b.WriteByte(c)
			}
		}
		if got := r.String(before + key + after); strings.Contains(got, key) {
			t.Errorf("%q is in %q", key, got)
		}
		if !strings.ContainsAny(key+before, `\%&`) {
			if got := r.String(before + b.String()); strings.Contains(got, b.String()) {
				t.Errorf("%q is in %q", b.String(), got)
			}
		}
	})
}

// A provider's error is at most 64 KiB; the worst case must not take long.
func BenchmarkRedact(b *testing.B) {
	keys := make([]secret.Text, 100)
	for i := range keys {
		keys[i] = secret.New(fmt.Sprintf("sk-proj-%050d", i))
	}
	r := secret.NewRedactor(keys...)
	for name, text := range map[string]string{
		"words": strings.Repeat("the request was refused ", 2700), "backslashes": strings.Repeat(`\`, 64<<10), "beginnings": strings.Repeat("sk-proj-", 8<<10),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.String(text)
			}
		})
	}
}

// TestARedactorFindsASecretInBase64: in any context, in both alphabets, also in escaped base64. At most two characters of it remain on each side.
func TestARedactorFindsASecretInBase64(t *testing.T) {
	const key = `Zq7v+X2mN/9pL_4kT8w==?~`
	r := secret.NewRedactor(secret.New(key)).With(secret.New("another-key"))
	for _, before := range []string{"", "a", "Be", "Bearer ", "me:"} {
		for _, behind := range []string{"", "b", "\n ", " and"} {
			for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
				plain := e.EncodeToString([]byte(before + key + behind))
				for _, text := range []string{plain, url.QueryEscape(plain)} {
					got := r.String("x " + text + " y")
					if longest := 16 + len(before)*2 + len(behind)*6; !strings.Contains(got, "***") || len(got) > longest {
						t.Errorf("%q, %q: %q became %q", before, behind, text, got)
					}
				}
			}
		}
	}
}
