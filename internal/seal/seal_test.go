package seal

import (
	"bytes"
	"errors"
	"testing"
)

func TestATextIsOpenedByItsKeyAndNameAlone(t *testing.T) {
	t.Parallel()
	one, err := New("a", "k")
	if err != nil {
		t.Fatal(err)
	}
	other, _ := New("a", "other")
	purpose, _ := New("b", "k")
	none, _ := New("a", "")
	text := []byte("a stored text")
	b := one.Seal("row 1", text)
	if bytes.Contains(b, text) || !one.Encrypts() || none.Encrypts() {
		t.Errorf("stored as %q", b)
	}
	if got, err := one.Open("row 1", b); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%q, %v", got, err)
	}
	for about, try := range map[string]func() ([]byte, error){
		"another row":     func() ([]byte, error) { return one.Open("row 2", b) },
		"another key":     func() ([]byte, error) { return other.Open("row 1", b) },
		"another purpose": func() ([]byte, error) { return purpose.Open("row 1", b) },
		"no key":          func() ([]byte, error) { return none.Open("row 1", b) },
		"another form":    func() ([]byte, error) { return one.Open("row 1", []byte("{}")) },
		"a cut":           func() ([]byte, error) { return one.Open("row 1", b[:5]) },
	} {
		if got, err := try(); !errors.Is(err, ErrKey) || got != nil {
			t.Errorf("%s: %q, %v", about, got, err)
		}
	}
	unsealed := none.Seal("row 1", text)
	for _, s := range []Sealer{none, one, {}} { // setting a key later does not lose what was stored without one
		if got, err := s.Open("row 1", unsealed); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got, err := one.OpenSealed("row 1", unsealed); !errors.Is(err, ErrKey) || got != nil {
		t.Errorf("what nobody has sealed: %q, %v", got, err)
	}
	if got, err := one.OpenSealed("row 1", b); err != nil || !bytes.Equal(got, text) {
		t.Errorf("what has to be sealed: %q, %v", got, err)
	}
	if got, err := one.Open("x", nil); got != nil || err != nil {
		t.Errorf("nothing: %q, %v", got, err)
	}
}

// TestKeys: an operator's key replaces the gateway's own, and older texts stay readable.
func TestKeys(t *testing.T) {
	t.Parallel()
	text := []byte("a stored text")
	by := map[string]Sealer{}
	for name, k := range map[string]Keys{"none": {}, "own": {Own: "o"}, "set": {Set: "s", Own: "o"}, "set alone": {Set: "s"}, "another": {Set: "x", Own: "o"}} {
		s, err := k.Sealer("a")
		if err != nil || s.Encrypts() != (name != "none") {
			t.Fatalf("%s: %v, %v", name, s.Encrypts(), err)
		}
		by[name] = s
	}
	for _, row := range []struct {
		sealed, opened string
		ok             bool
	}{
		{"none", "set", true},
		{"own", "own", true},
		{"own", "set", true},
		{"own", "none", false},
		{"own", "set alone", false},
		{"set", "set alone", true},
		{"set", "own", false},
		{"set", "another", false},
	} {
		got, err := by[row.opened].Open("row", by[row.sealed].Seal("row", text))
		if ok := err == nil && bytes.Equal(got, text); ok != row.ok {
			t.Errorf("%s opened by %s: %q, %v", row.sealed, row.opened, got, err)
		}
	}
}

// FuzzOpen: any file content is a text or an error, and sealed texts are opened.
func FuzzOpen(f *testing.F) {
	s, err := New("a", "k")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{sealed, 1, 2, 3})
	f.Add([]byte{plain, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		if text, err := s.Open("n", b); err == nil && len(b) > 0 && b[0] != plain {
			t.Errorf("%q became %q", b, text)
		}
		if again, err := s.Open("n", s.Seal("n", b)); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%q, %v", again, err)
		}
	})
}
