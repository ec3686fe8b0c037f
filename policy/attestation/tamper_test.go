package attestation

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// changed is a text with one or two random changes.
func changed(r *rand.Rand, s string, pieces []string) string {
	for range 1 + r.IntN(2) {
		at, piece := r.IntN(len(s)+1), pieces[r.IntN(len(pieces))]
		switch r.IntN(4) {
		case 0:
			s = s[:at] + piece + s[at:]
		case 1:
			s = s[:at] + piece + s[min(at+1, len(s)):]
		case 2:
			s = s[:at] + s[min(at+1, len(s)):]
		default:
			other := r.IntN(len(s) + 1)
			s = s[:min(at, other)] + s[max(at, other):]
		}
		if s == "" {
			return "x"
		}
	}
	return s
}

// sameJSON reports whether two texts are one value.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// TestP05AReceiptThatWasChangedIsNotTrusted: of many random changes to a receipt's text or to its base64, those that are trusted say the same.
func TestP05AReceiptThatWasChangedIsNotTrusted(t *testing.T) {
	t.Parallel()
	header := testReceipt().Header()
	decoded, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		t.Fatal(err)
	}
	text, p, trusted := string(decoded), testPolicy(t), 0
	r := rand.New(rand.NewPCG(1, 0))
	for i := range 40_000 {
		value := changed(r, header, []string{"A", "=", " ", "\n", "\r", "-", "_", "/", ",", header})
		if i%2 == 0 {
			value = base64.StdEncoding.EncodeToString([]byte(changed(r, text, []string{" ", "0", "1", "a", `"`, "{", "}", ",", `\`, "\x00", "\t", "null", `"nonce":"",`, `"debug_mode":true,`, text})))
		}
		got, err := Parse(value)
		if err != nil || p.Verify(got, expected()) != nil {
			continue
		}
		trusted++
		if b, err := base64.StdEncoding.Strict().DecodeString(value); err != nil || strings.ContainsAny(value, "\r\n") || !sameJSON(string(b), text) {
			t.Fatalf("trusted: %q, %q", value, b)
		}
	}
	if trusted == 0 {
		t.Error("white space alone is a change: nothing was tried")
	}
}

// TestP05AnExportThatWasChangedShows: of many random changes to an export, those that pass have the same tokens.
func TestP05AnExportThatWasChangedShows(t *testing.T) {
	t.Parallel()
	_, text := filled(t, 4)
	p := testPolicy(t)
	whole, err := Check(p, strings.NewReader(text))
	if err != nil || len(whole.Faults) > 0 {
		t.Fatalf("%+v, %v", whole, err)
	}
	lines := strings.SplitAfter(strings.TrimSpace(text), "\n")
	r := rand.New(rand.NewPCG(1, 0))
	for i := range 4_000 {
		now := append([]string(nil), lines...)
		at, other := r.IntN(len(now)), r.IntN(len(now))
		switch i % 4 {
		case 0:
			now[at], now[other] = now[other], now[at]
		case 1:
			now = append(now[:at], now[at+1:]...)
		case 2:
			now = append(now[:at], append([]string{lines[other]}, now[at:]...)...)
		default:
			now[at] = changed(r, strings.TrimSuffix(now[at], "\n"), []string{" ", "0", "1", "a", `"`, "}", ",", `"void":"",`, `"task_class":"plan",`, `"TICK":1,`, "{}"}) + "\n"
		}
		for k := range now {
			now[k] = strings.TrimSuffix(now[k], "\n") + "\n"
		}
		got, err := Check(p, strings.NewReader(strings.Join(now, "")))
		if err != nil || len(got.Faults) > 0 || got.Tokens != whole.Tokens || got.Head != whole.Head {
			continue
		}
		for k := range now {
			if !sameJSON(now[k], lines[k]) {
				t.Fatalf("change %d passes: %s", i, now[k])
			}
		}
	}
	for _, bad := range []string{`"tick":1,`, `"Tick":1,`, `"tick":null,`} {
		if _, err := Check(p, strings.NewReader(strings.Replace(text, "{", "{"+bad, 1))); err == nil {
			t.Errorf("a token with %s besides passes", bad)
		}
	}
}
