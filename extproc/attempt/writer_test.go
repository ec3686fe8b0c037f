package attempt_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

func TestAClosedWriterWritesNothing(t *testing.T) {
	w, _ := newWriter(func(*http.Request) (*http.Response, error) {
		t.Error("a request was sent")
		return nil, errBroken
	})
	w.Close()
	if f, err := w.Do(t.Context(), newAttempt(t), (&sink{}).open, attempt.Wait{}); err != nil || f == nil || f.Kind != upstream.NotEncoded {
		t.Errorf("%+v, %v", f, err)
	}
}

// authorization returns the credential of a call.
func authorization(t *testing.T, w *attempt.Writer, at *attempt.Attempt) string {
	t.Helper()
	c, err := w.Write(nil, at)
	if err != nil {
		t.Fatal(err)
	}
	return c.Header.Get("authorization")
}

func TestEachAttemptOfARequestTakesAnotherKey(t *testing.T) {
	w, _ := newWriter(nil)
	at := newAttempt(t, "one", "two")
	first, second := authorization(t, w, at), authorization(t, w, at)
	if first != "Bearer one" || second != "Bearer two" {
		t.Errorf("%q, then %q", first, second)
	}
	if w.LastKey("p").ID() != at.View.Config.Provider("p").Ring.ID(1) || w.LastKey("other").ID() != "" {
		t.Error("the last key is not the second one")
	}
}

// Of two keys the one with fewer requests in flight is taken, although it was used last.
func TestCloseReleasesTheKeys(t *testing.T) {
	at := newAttempt(t, "one", "two")
	var ended []*attempt.Writer
	for _, want := range []string{"Bearer one", "Bearer two", "Bearer one"} {
		w, _ := newWriter(nil)
		if got := authorization(t, w, at); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
		if want == "Bearer one" {
			ended = append(ended, w)
		}
	}
	for _, w := range ended {
		w.Close()
	}
	next, _ := newWriter(nil)
	if got := authorization(t, next, at); got != "Bearer one" {
		t.Errorf("after the requests that had the first key: %q", got)
	}
}

// A client that reads its answer slowly does not occupy the key; a request releases it once.
func TestAnAnswerReleasesTheKeys(t *testing.T) {
	at := newAttempt(t, "one", "two")
	var under []*attempt.Writer
	take := func(want string) {
		t.Helper()
		w, _ := newWriter(nil)
		if got := authorization(t, w, at); got != "Bearer "+want {
			t.Errorf("request %d has %q, want the key %s", len(under)+1, got, want)
		}
		under = append(under, w)
	}
	for _, want := range []string{"one", "two", "one", "two"} {
		take(want)
	}
	answered := under[1]
	answered.Answered()
	if id := answered.LastKey("p").ID(); id != at.View.Config.Provider("p").Ring.ID(1) {
		t.Errorf("the key of the answer is %q", id)
	}
	take("two") // it has one request fewer
	answered.Close()
	take("one")
}

// The second attempt does not take the first one's key, although that has fewer requests in flight.
func TestARequestTakesEachKeyOnce(t *testing.T) {
	at := newAttempt(t, "one", "two")
	ring := at.View.Config.Provider("p").Ring
	w, _ := newWriter(nil)
	first := authorization(t, w, at)
	for range 3 {
		ring.Acquire(time.Now(), ring.ID(1), nil)
	}
	if second := authorization(t, w, at); first != "Bearer one" || second != "Bearer two" {
		t.Errorf("%q, then %q", first, second)
	}
}

// A key is fresh that this request has not used and that is not in cooldown.
func TestWhichKeysAreFresh(t *testing.T) {
	refused := &upstream.Failure{Provider: "p", Kind: upstream.ByStatus, Status: http.StatusUnauthorized}
	at := newAttempt(t, "one", "two")
	w, _ := newWriter(nil)
	authorization(t, w, at)
	at.View.Config.Provider("p").Ring.Cooldown(1, time.Now(), time.Minute)
	if w.CoolDownKey(refused) || w.HasFreshKey(refused) {
		t.Error("a key in cooldown is fresh")
	}
	at = newAttempt(t, "one", "two")
	w, _ = newWriter(nil)
	authorization(t, w, at)
	authorization(t, w, at)
	if !w.CoolDownKey(refused) || w.HasFreshKey(refused) {
		t.Error("a key that the request used is fresh")
	}
}

// encodesNothing is an adapter whose format cannot express the request.
type encodesNothing struct{ custom.Adapter }

var errNotEncoded = errors.New("no place for it")

func (encodesNothing) Encode([]byte, *chat.Request, policy.Resolution, provider.Endpoint) (*provider.Call, error) {
	return nil, errNotEncoded
}

func TestAnAttemptThatCannotBeWrittenTakesNoKey(t *testing.T) {
	at := newAttempt(t, "one", "two")
	at.View.Config.Provider("p").Adapter = encodesNothing{}
	w, _ := newWriter(nil)
	if _, err := w.Write(nil, at); !errors.Is(err, errNotEncoded) {
		t.Fatal(err)
	}
	if id := w.LastKey("p").ID(); id != "" {
		t.Errorf("the request has the key %s", id)
	}
}

func TestARefusedKeyRests(t *testing.T) {
	for _, row := range []struct {
		status    int
		available int           // number of keys not in cooldown
		rest      time.Duration // of the refused one
	}{
		{http.StatusTooManyRequests, 1, 30 * time.Second},
		{http.StatusUnauthorized, 1, 5 * time.Minute},
		{http.StatusPaymentRequired, 1, 5 * time.Minute},
		{http.StatusForbidden, 1, 5 * time.Minute},
		{http.StatusInternalServerError, 2, 0},
	} {
		t.Run(http.StatusText(row.status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := newAttempt(t, "one", "two")
				ring := at.View.Config.Provider("p").Ring
				w, _ := newWriter(nil)
				authorization(t, w, at)
				f := &upstream.Failure{Provider: "p", Kind: upstream.ByStatus, Status: row.status, RetryAfter: 30 * time.Second}
				another, refused := w.CoolDownKey(f), row.available == 1
				if got := ring.Available(time.Now()); got != row.available || another != refused || w.HasFreshKey(f) != refused {
					t.Errorf("%d keys are available, another: %v, fresh: %v", got, another, w.HasFreshKey(f))
				}
				if ring.Available(time.Now().Add(row.rest-1)) != row.available || ring.Available(time.Now().Add(row.rest)) != 2 {
					t.Errorf("the key does not rest for %v", row.rest)
				}
			})
		})
	}
}

// Failures are recorded in the order of the attempts: each starts the cooldown of its own attempt's key.
func TestEachFailureRestsTheKeyOfItsAttempt(t *testing.T) {
	at := newAttempt(t, "one", "two")
	ring := at.View.Config.Provider("p").Ring
	w, _ := newWriter(nil)
	f := &upstream.Failure{Provider: "p", Kind: upstream.ByStatus, Status: http.StatusUnauthorized}
	authorization(t, w, at)
	authorization(t, w, at)
	if !w.CoolDownKey(f) || w.CoolDownKey(f) || ring.Available(time.Now()) != 0 || w.HasFreshKey(f) {
		t.Errorf("%d keys are available after two refusals", ring.Available(time.Now()))
	}
}

func TestAFailureWithoutARequestRestsNoKey(t *testing.T) {
	at := newAttempt(t, "one", "two")
	w, _ := newWriter(nil)
	authorization(t, w, at)
	notEncoded := &upstream.Failure{Provider: "p", Kind: upstream.NotEncoded}
	refused := &upstream.Failure{Provider: "p", Kind: upstream.ByStatus, Status: http.StatusUnauthorized}
	if w.CoolDownKey(notEncoded) || !w.CoolDownKey(refused) {
		t.Error("the failure of an attempt that was not written took the place of the one that was")
	}
	if got := at.View.Config.Provider("p").Ring.Available(time.Now()); got != 1 {
		t.Errorf("%d keys are available", got)
	}
}
