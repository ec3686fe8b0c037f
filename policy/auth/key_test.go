package auth

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

func TestNewKeyHasTheDocumentedForm(t *testing.T) {
	k := newKey(t)
	parts := strings.Split(k.Reveal(), "_")
	if len(parts) != 5 || parts[0]+"_"+parts[1]+"_" != keyPrefix || len(parts[2]) != 12 || len(parts[3]) != 43 || len(parts[4]) != 6 {
		t.Fatalf("%q", k.Reveal())
	}
	back, err := Parse(k.Reveal())
	if err != nil || back != k || k.ID() != parts[2] {
		t.Errorf("parsed %#v, error %v", back, err)
	}
	if k == newKey(t) {
		t.Error("two keys are the same")
	}
}

func TestNewKeyNeedsRandomness(t *testing.T) {
	if _, err := NewKey(strings.NewReader("too short")); err == nil {
		t.Error("a key was made")
	}
	if _, err := NewPepper(strings.NewReader("too short")); err == nil {
		t.Error("a pepper was made")
	}
}

func TestParseRefuses(t *testing.T) {
	good := newKey(t).Reveal()
	swap := func(i int) string { // two neighbours change places, which is how people mistype
		b := []byte(good)
		for b[i] == b[i+1] {
			i++
		}
		b[i], b[i+1] = b[i+1], b[i]
		return string(b)
	}
	for _, c := range []struct {
		name, key string
		want      error
	}{
		{"nothing", "", ErrMalformed},
		{"the prefix alone", keyPrefix, ErrMalformed},
		{"the other prefix", strings.Replace(good, "_sk_", "_pk_", 1), ErrChecksum},
		{"an unknown prefix", strings.Replace(good, "_sk_", "_xk_", 1), ErrMalformed},
		{"one character less", good[:len(good)-1], ErrMalformed},
		{"one character more", good + "0", ErrMalformed},
		{"no separator after the id", good[:secretAt-1] + "x" + good[secretAt:], ErrMalformed},
		{"no separator after the secret", good[:checksumAt-1] + "x" + good[checksumAt:], ErrMalformed},
		{"a foreign character", good[:secretAt+3] + "!" + good[secretAt+4:], ErrMalformed},
		{"a typo in the id", swap(len(keyPrefix)), ErrChecksum},
		{"a typo in the secret", swap(secretAt + 5), ErrChecksum},
		{"a typo in the checksum", good[:keyLen-1] + string(base62[(strings.IndexByte(base62, good[keyLen-1])+1)%62]), ErrChecksum},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse(c.key); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(newKey(f).Reveal())
	f.Add(keyPrefix + strings.Repeat("_", keyLen-len(keyPrefix)))
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		k, err := Parse(s)
		if err == nil && (k.Reveal() != s || len(k.ID()) != idLen || len(k.secret) != secretLen) {
			t.Errorf("%q parsed as %q, %q", s, k.ID(), k.secret)
		}
		if masked := Mask(s); err == nil && strings.Contains(masked, k.secret) {
			t.Errorf("%q shows the secret", masked)
		}
	})
}

func TestSecretsPrintMasked(t *testing.T) {
	k := newKey(t)
	pepper := newPepper(t)
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%+v", k), fmt.Sprintf("%#v", k), fmt.Sprintf("%s", struct{ K Key }{k})} {
		if strings.Contains(text, k.secret) || !strings.Contains(text, keyPrefix+k.ID()+"_…") {
			t.Errorf("%q", text)
		}
	}
	if got := fmt.Sprintf("%v %#v", pepper, pepper); got != "*** ***" {
		t.Errorf("pepper prints as %q", got)
	}
	for in, want := range map[string]string{
		k.Reveal():               keyPrefix + k.ID() + "_…",
		keyPrefix + "short_x":    keyPrefix + "…",
		keyPrefix + k.secret:     keyPrefix + "…",
		"sk-proj-abcdef":         "…",
		"":                       "…",
		keyPrefix + "éééééé_abc": keyPrefix + "…",
	} {
		if got := Mask(in); got != want {
			t.Errorf("Mask(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestHashIsBcryptOfThePepperedMAC(t *testing.T) {
	pepper, k := newPepper(t), newKey(t)
	hash, err := pepper.Hash(k)
	if err != nil {
		t.Fatal(err)
	}
	m := pepper.mac(k)
	if err := bcrypt.CompareHashAndPassword([]byte(hash[:bcryptLen]), m.password()); err != nil {
		t.Error(err)
	}
	costly, err := bcrypt.GenerateFromPassword(m.password(), bcrypt.DefaultCost)
	if err != nil {
		t.Fatal(err)
	}
	if !m.matches(string(costly) + markSeparator + m.mark()) {
		t.Error("a hash of a higher cost is not read")
	}
	if !m.mayMatch(hash) || !m.matches(hash) {
		t.Error("the key does not match its own hash")
	}
	other := newPepper(t).mac(k)
	if other.mayMatch(hash) && other.matches(hash) {
		t.Error("another pepper makes the same hash")
	}
}

func TestPepperFileIsReadBack(t *testing.T) {
	file, err := NewPepper(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	first, err := ParsePepper(file)
	if err != nil {
		t.Fatal(err)
	}
	second, err := ParsePepper(bytes.TrimSpace(file))
	if err != nil {
		t.Fatal(err)
	}
	if k := newKey(t); first.mac(k) != second.mac(k) {
		t.Error("the same file gives two peppers")
	}
	for _, bad := range []string{"", "abcd", strings.Repeat("g", 64), strings.Repeat("0", 66)} {
		if _, err := ParsePepper([]byte(bad)); err == nil {
			t.Errorf("%q was read as a pepper", bad)
		}
	}
}

func BenchmarkMAC(b *testing.B) {
	pepper, k := newPepper(b), newKey(b)
	b.ReportAllocs()
	for b.Loop() {
		pepper.mac(k)
	}
}

func BenchmarkParse(b *testing.B) {
	s := newKey(b).Reveal()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(s); err != nil {
			b.Fatal(err)
		}
	}
}
