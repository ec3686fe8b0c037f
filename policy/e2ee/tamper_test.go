package e2ee

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestP06AnAnswerIsOpenedAsItWasSealedOrNotAtAll: after random changes to an answer, an opened one is the same JSON, with nothing after it.
func TestP06AnAnswerIsOpenedAsItWasSealedOrNotAtAll(t *testing.T) {
	t.Parallel()
	sealed, call, err := Seal(pinned(t, "a"), "m", 0, []byte(strings.Repeat("a body ", 3)))
	if err != nil {
		t.Fatal(err)
	}
	_, good, err := answered(t, "a", sealed, Usage{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal(good, &want); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 0))
	pieces := []string{"}", "]", " ", "\n", `\n`, `\/`, "A", "=", "0", `"`, ",", `"v":1,`, `"nonce":"",`, `"usage":{},`, `"V":2,`, "null", "\x00", "\ufeff"}
	opened := 0
	for range 40_000 {
		b := string(good)
		for range 1 + r.IntN(2) {
			at, piece := r.IntN(len(b)+1), pieces[r.IntN(len(pieces))]
			switch r.IntN(4) {
			case 0:
				b = b[:at] + piece + b[at:]
			case 1:
				b = b[:at] + piece + b[min(at+1, len(b)):]
			case 2:
				b = b[:at] + b[min(at+1, len(b)):]
			default:
				b += piece
			}
		}
		_, u, err := call.Open([]byte(b))
		if err != nil {
			continue
		}
		opened++
		var got any
		if err := json.Unmarshal([]byte(b), &got); err != nil || !reflect.DeepEqual(got, want) || u != (Usage{1, 2}) {
			t.Fatalf("it was opened from %q: %v", b, err)
		}
	}
	if opened == 0 {
		t.Error("white space alone is a change: nothing was tried")
	}
}

// TestP06AMemberIsThereOnce: an answer with a duplicate member, also in another case, is refused.
func TestP06AMemberIsThereOnce(t *testing.T) {
	t.Parallel()
	sealed, call, err := Seal(pinned(t, "b"), "m", 0, []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	_, good, err := answered(t, "b", sealed, Usage{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"e2ee":`, `"v":`, `"nonce":`, `"ciphertext":`, `"usage":`, `"prompt_tokens":`, `"completion_tokens":`} {
		if !strings.Contains(string(good), member) {
			t.Fatalf("%s has no %s", good, member)
		}
		for _, by := range []string{member + "null," + member, strings.ToUpper(member) + "null," + member, strings.ToUpper(member)} {
			if _, _, err := call.Open([]byte(strings.Replace(string(good), member, by, 1))); err == nil {
				t.Errorf("%s was taken", by)
			}
		}
	}
}

// TestP06AnAnswerTakesNoLessThanNothing: its usage is read for billing before it is opened.
func TestP06AnAnswerTakesNoLessThanNothing(t *testing.T) {
	t.Parallel()
	sealed, call, err := Seal(pinned(t, "a"), "m", 0, []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []Usage{{-1, 2}, {1, -2}} {
		_, answer, err := answered(t, "a", sealed, u)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := call.Open(answer); err != NotSealed { //nolint:errorlint // it is the reason itself
			t.Errorf("%+v: %v", u, err)
		}
	}
}
