package pii_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/internal/jsonx"
)

var tenant = pii.TenantKey([]byte("a gateway's secret"), "tenant")

func spans(t testing.TB, text string) []pii.Span {
	t.Helper()
	s, err := pii.NewScanner(all).Find(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// restored feeds a text in pieces: bit i%64 of cut is set if a piece ends at byte i.
func restored(v *pii.Vault, text string, inJSON bool, cut uint64) string {
	r := v.NewRestorer(inJSON)
	var out []byte
	from := 0
	for i := range len(text) {
		if cut>>(i%64)&1 == 1 {
			out = r.Feed(out, []byte(text[from:i+1]))
			from = i + 1
		}
	}
	return string(r.Close(r.Feed(out, []byte(text[from:]))))
}

func TestK67TwoValuesOfOneTypeAreEachRestoredToTheirOwn(t *testing.T) {
	text := "a@b.com wrote to much.longer.name@example.com, a@b.com again: 4111 1111 1111 1111 and 5500-0055-5555-5559"
	v := pii.NewVault(tenant)
	masked := v.Mask(text, spans(t, text))
	if v.Len() != 4 || strings.Count(masked, "<EMAIL_") != 3 || strings.Count(masked, "<CARD_") != 2 || strings.ContainsAny(masked, "@") {
		t.Errorf("masked: %s", masked)
	}
	if got := v.Restore(masked); got != text {
		t.Errorf("restored: %s", got)
	}
}

func TestPlaceholdersAreTheSameInAllTurnsAndGatewaysOfATenant(t *testing.T) {
	first, other, again := pii.NewVault(tenant), pii.NewVault(pii.TenantKey([]byte("a gateway's secret"), "another")), pii.NewVault(tenant)
	again.Holder(pii.Phone, "+49 30 901820")
	a := first.Holder(pii.Email, "a@b.com")
	if b := again.Holder(pii.Email, "a@b.com"); a != b {
		t.Errorf("%s, then %s", a, b)
	}
	if b := other.Holder(pii.Email, "a@b.com"); a == b {
		t.Errorf("another tenant has the same %s", b)
	}
	if b := first.Holder(pii.Phone, "a@b.com"); a != b {
		t.Errorf("as another type the value is %s, want %s", b, a)
	}
}

func TestManyValuesDoNotCollide(t *testing.T) {
	v := pii.NewVault(tenant)
	seen := map[string]bool{}
	for i := range 20_000 {
		seen[v.Holder(pii.Email, fmt.Sprint(i))] = true
	}
	if len(seen) != 20_000 {
		t.Errorf("%d placeholders", len(seen))
	}
}

// TestAKnownValueIsMaskedEverywhere: a value that is found by its label in one text is masked in another text without a label, unless it is part of a longer word.
func TestAKnownValueIsMaskedEverywhere(t *testing.T) {
	v := pii.NewVault(tenant)
	labelled, bare := "Tel. 030 901820", "ask 030 901820, not x030 901820 or 030 9018201"
	v.Learn(labelled, spans(t, labelled))
	masked := v.Mask(bare, spans(t, bare))
	if strings.Count(masked, "<PHONE_") != 1 || !strings.Contains(masked, "x030 901820 or 030 9018201") {
		t.Errorf("masked: %s", masked)
	}
	if got := v.Restore(masked); got != bare {
		t.Errorf("restored: %s", got)
	}
}

func TestLookAlikesOfPlaceholdersSurvive(t *testing.T) {
	v := pii.NewVault(tenant)
	holder := v.Holder(pii.Email, "a@b.com")
	for _, text := range []string{
		holder, "<EMAIL_<EMAIL_0A1B2C3D>0A1B2C3D>", "<EMAIL_" + holder + ">", "<" + holder, holder + holder[1:], "x" + holder + "a@b.com" + holder,
		"<LITERAL_0A1B2C3D>", "<A_00000000>", "<email_0a1b2c3d>", "<EMAIL_0A1B2C3", "<div>a@b.com</div>",
	} {
		masked := v.Mask(text, spans(t, text))
		if got := v.Restore(masked); got != text {
			t.Errorf("%s becomes %s, and then %s", text, masked, got)
		}
	}
	if masked := v.Mask(holder, nil); masked == holder {
		t.Error("the client's own text would be restored to a value")
	}
}

// TestK66APlaceholderIsRestoredWhereverItIsCut, in text and in JSON tool arguments, where < and > may be escaped.
func TestK66APlaceholderIsRestoredWhereverItIsCut(t *testing.T) {
	v := pii.NewVault(tenant)
	quoted := "O\"Brien\\\n<é>"
	a, b := v.Holder(pii.Email, "a@b.com"), v.Holder("NAME", quoted)
	escaped := strings.NewReplacer("<", `\u003c`, ">", `\u003E`)
	for _, row := range []struct {
		in, want string
		json     bool
	}{
		{"To " + a + ", " + b + "<" + a + "`" + a[:8] + "<", "To a@b.com, " + quoted + "<a@b.com`" + a[:8] + "<", false},
		{`{"to":"` + a + `","c":"` + b + `"}`, `{"to":"a@b.com","c":"O\"Brien\\\n<é>"}`, true},
		{`{"to":"` + escaped.Replace(a+b) + `"}`, `{"to":"a@b.comO\"Brien\\\n<é>"}`, true},
		{`{"to":"\\` + escaped.Replace(a) + `\u003cx\u003d\"\\u003cEMAIL_` + `"}`, `{"to":"\\a@b.com\u003cx\u003d\"\\u003cEMAIL_"}`, true},
		{escaped.Replace(a), escaped.Replace(a), false},
		{strings.ToLower(a) + " " + strings.Trim(a, "<>"), strings.ToLower(a) + " " + strings.Trim(a, "<>"), false},
	} {
		for i := range len(row.in) + 1 {
			for j := i; j <= len(row.in); j++ {
				r := v.NewRestorer(row.json)
				out := r.Feed(nil, []byte(row.in[:i]))
				out = r.Feed(out, []byte(row.in[i:j]))
				if got := string(r.Close(r.Feed(out, []byte(row.in[j:])))); got != row.want {
					t.Fatalf("%s cut at %d and %d becomes %s, want %s", row.in, i, j, got, row.want)
				}
			}
		}
	}
}

func TestOnlyWhatMayBecomeAPlaceholderIsHeldBack(t *testing.T) {
	v := pii.NewVault(tenant)
	a := v.Holder(pii.Email, "a@b.com")
	for text, held := range map[string]bool{
		"x < y": false, "x <": true, "<E": true, "<F": false, a[:10]: true, a: false, a[:9] + "!": false, "<<": true, "</div": false,
	} {
		r := v.NewRestorer(false)
		r.Feed(nil, []byte(text))
		if r.Holds() != held {
			t.Errorf("after %q something is held back: %v", text, r.Holds())
		}
	}
}

// FuzzAnyTextSurvivesMaskingAndRestoring: restore(mask(x)) = x, however the masked text is split, also if x has placeholders and other texts were masked
// before. The same holds for strings in JSON.
func FuzzAnyTextSurvivesMaskingAndRestoring(f *testing.F) {
	holder := pii.NewVault(tenant).Holder(pii.Email, "a@b.com")
	for _, s := range []string{
		"a@b.com " + holder, "<EMAIL_<EMAIL_0A1B2C3D>", holder[1:] + "<" + holder, "4111 1111 1111 1111<CARD_00000000>", "Tel. 030 901820\\\"<", "\xff<\u2028a@b.com\x00",
		`{"a":"\u003c"}`, "AKIAZ7QX2M4N6P3R5T7V pk=" + hexKey, phrase, "+49 30 901820+49 30 901820", "https://u:p@h/ a.b@c.de@f.gh", "2001:db8::1:203.0.113.7",
	} {
		f.Add(s, s, uint64(0x5555))
	}
	f.Fuzz(func(t *testing.T, before, text string, cut uint64) {
		v := pii.NewVault(tenant)
		other := spans(t, before)
		v.Learn(before, other)
		own := spans(t, text)
		earlier, masked := v.Mask(before, other), v.Mask(text, own)
		if got := restored(v, masked, false, cut); got != text {
			t.Fatalf("%q becomes %q, and then %q", text, masked, got)
		}
		if got := v.Restore(earlier); got != before {
			t.Fatalf("%q becomes %q, and then %q", before, earlier, got)
		}
		for _, s := range own {
			if value := text[s.Start:s.End]; strings.Contains(masked, value) && !isPart(masked, value) {
				t.Fatalf("%q is still in %q", value, masked)
			}
		}
		if !utf8.ValidString(text) {
			return
		}
		inJSON := jsonx.AppendString(nil, masked)
		if cut&1 == 0 { // like Go's encoder
			inJSON = bytes.ReplaceAll(bytes.ReplaceAll(inJSON, []byte("<"), []byte(`\u003c`)), []byte(">"), []byte(`\u003e`))
		}
		var got string
		if err := json.Unmarshal([]byte(restored(v, string(inJSON), true, cut)), &got); err != nil || got != text {
			t.Fatalf("%q in JSON is %q, and then %q, %v", text, inJSON, got, err)
		}
	})
}

// isPart reports whether a value is in a masked text only within longer words or placeholders.
func isPart(masked, value string) bool {
	word := func(c byte) bool { return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }
	for at := 0; ; at++ {
		i := strings.Index(masked[at:], value)
		if i < 0 {
			return true
		}
		at += i
		end := at + len(value)
		if (at == 0 || !word(masked[at-1]) || !word(value[0])) && (end == len(masked) || !word(masked[end]) || !word(value[len(value)-1])) {
			return false
		}
	}
}

// FuzzResolvingAgainChangesNothing: spans are sorted, without overlaps, in the text, and of the given ones; resolving them again changes nothing.
func FuzzResolvingAgainChangesNothing(f *testing.F) {
	f.Add([]byte{0, 5, 1, 3, 9, 2, 200, 4, 3}, 20)
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		var in []pii.Span
		for i := 0; i+2 < len(raw); i += 3 {
			typ := pii.Type("OWN")
			if k := int(raw[i+2]); k < len(pii.Builtin) {
				typ = pii.Builtin[k]
			}
			in = append(in, pii.Span{Start: int(int8(raw[i])), End: int(int8(raw[i+1])), Type: typ, Confidence: 1})
		}
		out := pii.Resolve(in, n)
		end := 0
		for _, s := range out {
			if s.Start < end || s.End > n || s.Start >= s.End || !slices.Contains(in, s) {
				t.Fatalf("%v in %v of %v", s, out, in)
			}
			end = s.End
		}
		if again := pii.Resolve(out, n); !slices.Equal(again, out) {
			t.Fatalf("%v, and then %v", out, again)
		}
		for _, s := range in { // every removed span overlaps a kept one
			if s.Start < 0 || s.End > n || s.Start >= s.End {
				continue
			}
			if !slices.ContainsFunc(out, func(o pii.Span) bool { return o.Start < s.End && s.Start < o.End }) {
				t.Fatalf("%v was left out of %v", s, out)
			}
		}
	})
}

func text10KB(piece string) string { return strings.Repeat(piece, 10_240/len(piece)+1)[:10_240] }

// BenchmarkMask10KB masks prose without values, and a text with many of them.
func BenchmarkMask10KB(b *testing.B) {
	clean := text10KB("The parcel left the depot in the morning, and it is expected to arrive within 3 days; see section 4.2 for details. ")
	dense := ""
	for i := range 200 {
		dense += fmt.Sprintf("Nr. %d: jane.doe%d@example.com, +49 30 90%04d, card 4111 1111 1111 1111, from 203.0.113.%d on 2024-01-15 (order 10%06d). ", i, i, 1000+i, i, i)
	}
	for name, text := range map[string]string{"clean": clean, "dense": dense[:10_240]} {
		b.Run(name, func(b *testing.B) {
			s := pii.NewScanner(pii.Detectors{Types: pii.Default})
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				found, err := s.Find(b.Context(), text)
				if err != nil {
					b.Fatal(err)
				}
				pii.NewVault(tenant).Mask(text, found)
			}
		})
	}
}
