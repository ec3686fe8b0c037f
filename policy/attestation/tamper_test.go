package attestation

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// changed returns a text with one or two random changes.
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

// TestP05AReceiptThatWasChangedIsNotTrusted: after random changes to a receipt's text or its base64, trusted ones have the same content.
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
			value = base64.StdEncoding.EncodeToString([]byte(changed(r, text, []string{" ", "0", "1", "a", `"`, "{", "}", ",", `\`, "\x00", "\t", "null", `"nonce":"",`, `"debug_mode":true,`, `"extra":1,`, text})))
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

// TestP05AReceiptHasOneSpelling: trailing bits of its base64, line breaks, unknown members, and too long headers are refused.
func TestP05AReceiptHasOneSpelling(t *testing.T) {
	t.Parallel()
	loose := 0
	for _, model := range []string{"m-tee", "m-tee2", "m-tee22"} { // one of three has no padding
		r := testReceipt()
		r.Model = model
		r.Sign(enclaveKey)
		good := r.Header()
		if _, err := Parse(good); err != nil {
			t.Fatal(err)
		}
		text, _ := base64.StdEncoding.DecodeString(good) // it is base64
		bad := map[string]Reason{
			good[:40] + "\n" + good[40:]: Malformed, good + strings.Repeat(" ", MaxReceipt): TooLarge,
			base64.StdEncoding.EncodeToString([]byte(strings.Replace(string(text), "{", `{"extra":1,`, 1))): Malformed,
		}
		if end := strings.TrimRight(good, "="); end != good {
			loose++
			bad[end[:len(end)-1]+string(end[len(end)-1]+1)+good[len(end):]] = Malformed
		}
		for value, want := range bad {
			if _, err := Parse(value); err != want { //nolint:errorlint // it is the reason itself
				t.Errorf("%s: %v, want %v", value, err, want)
			}
		}
	}
	if loose == 0 {
		t.Error("no receipt has padding: nothing was tried")
	}
}

// TestP05ATokenThatIsWrittenAnewShows: changing a token and its hash breaks the next one, and the content of the receipt cannot be changed at all.
func TestP05ATokenThatIsWrittenAnewShows(t *testing.T) {
	t.Parallel()
	_, text := filled(t, 5)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	proved := map[string]func(*Token){
		"measurement": func(k *Token) { k.Measurement = strings.Repeat("12", 48) },
		"nonce":       func(k *Token) { k.Nonce = strings.Repeat("34", 32) },
		"model":       func(k *Token) { k.Model = "m" },
		"hash":        func(k *Token) { k.Hash = strings.Repeat("56", 32) },
		"time":        func(k *Token) { k.At += 2 * MaxSkew.Milliseconds() },
		"receipt":     func(k *Token) { k.Receipt = k.Receipt[:len(k.Receipt)-4] },
	}
	said := map[string]func(*Token){
		"request": func(k *Token) { k.RequestID = "req_9" }, "agent": func(k *Token) { k.GolemID = "h" }, "tick": func(k *Token) { k.Tick++ }, "class": func(k *Token) { k.TaskClass = "plan" },
		"provider": func(k *Token) { k.Provider = "p" }, "void": func(k *Token) { k.Void = "parse" },
	}
	check := func(about string, at int, change func(*Token)) {
		t.Helper()
		var k Token
		if err := json.Unmarshal([]byte(lines[at]), &k); err != nil {
			t.Fatal(err)
		}
		change(&k)
		k.TokenHash = k.hash()
		b, err := json.Marshal(&k)
		if err != nil {
			t.Fatal(err)
		}
		now := append(append(append([]string(nil), lines[:at]...), string(b)), lines[at+1:]...)
		if got, err := Check(testPolicy(t), strings.NewReader(strings.Join(now, "\n"))); err != nil || len(got.Faults) == 0 {
			t.Errorf("%s of token %d: %+v, %v", about, at+1, got, err)
		}
	}
	for about, change := range proved {
		check(about, 0, change)
		check(about, len(lines)-1, change)
	}
	for about, change := range said {
		check(about, 1, change)
	}
}

// TestP05AnExportThatWasChangedShows: after random changes to an export, those that pass have the same tokens.
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
