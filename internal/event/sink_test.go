package event_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/event"
)

type written struct {
	Time    time.Time
	Event   string
	Account string
	Data    map[string]any
}

func read(t *testing.T, text string) (out []written) {
	t.Helper()
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		var w written
		if err := json.Unmarshal(s.Bytes(), &w); err != nil {
			t.Fatalf("%q: %v", s.Text(), err)
		}
		out = append(out, w)
	}
	return out
}

// TestWhatIsHeldIsWrittenOnceItIsReleased: with the times at which it was emitted; what is not released is never written.
func TestWhatIsHeldIsWrittenOnceItIsReleased(t *testing.T) {
	var out bytes.Buffer
	var s event.Sink
	off := s.Hold()
	off.Emit("off", "", nil)
	if off.On() {
		t.Error("a sink that nobody reads holds events")
	}
	if err := s.Redirect("stdout", &out); err != nil {
		t.Fatal(err)
	}
	kept, forgotten := s.Hold(), s.Hold()
	if !kept.On() {
		t.Error("it holds nothing")
	}
	kept.Emit("first", "key_1", nil)
	forgotten.Emit("forgotten", "", nil)
	s.Emit("second", "", nil)
	for range 300 {
		kept.Emit("more", "", nil)
	}
	kept.Release()
	kept.Release()
	off.Release()
	(*event.Sink)(nil).Hold().Release()
	(*event.Sink)(nil).Hold().Emit("x", "", nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got := read(t, out.String())
	if len(got) != 257 || got[0].Event != "second" || got[1].Event != "first" || got[1].Account != "key_1" || !got[1].Time.Before(got[0].Time) || s.Dropped() != 45 {
		t.Errorf("%d events, %+v, %d dropped", len(got), got[:min(2, len(got))], s.Dropped())
	}
}

func TestEventsAreLinesOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	for range 2 { // the second run appends
		var s event.Sink
		if s.On() {
			t.Error("the zero value writes")
		}
		if err := s.Redirect("file:"+path, nil); err != nil {
			t.Fatal(err)
		}
		s.Emit("a:b", "key_1", map[string]int{"n": 1})
		s.Emit("c:d", "", nil)
		s.Emit("bad", "", make(chan int)) // cannot be marshalled: only this event is lost
		s.Emit("e:f", "", struct{ X string }{"y"})
		if err := s.Close(); err == nil {
			t.Error("what could not be written was not reported")
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, string(b))
	if len(got) != 6 || got[0].Event != "a:b" || got[0].Account != "key_1" || got[0].Data["n"] != 1.0 || got[0].Time.IsZero() ||
		got[1].Event != "c:d" || got[5].Data["X"] != "y" {
		t.Errorf("got %+v", got)
	}
}

func TestEventsGoWhereTheyAreRedirected(t *testing.T) {
	var s event.Sink
	var standard bytes.Buffer
	path := filepath.Join(t.TempDir(), "events")
	for _, to := range []string{"stdout", "stdout", "file:" + path, ""} {
		if err := s.Redirect(to, &standard); err != nil {
			t.Fatal(err)
		}
		s.Emit("to", "", to)
	}
	b, err := os.ReadFile(path)
	if err != nil || strings.Count(standard.String(), "\n") != 2 || strings.Count(string(b), "\n") != 1 {
		t.Errorf("%v, standard output %q, file %q", err, standard.String(), b)
	}
	for _, bad := range []string{"syslog", "file:" + t.TempDir()} {
		if s.Redirect(bad, nil) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// blocked is a writer that blocks.
type blocked struct{ free chan struct{} }

func (b blocked) Write(p []byte) (int, error) { <-b.free; return len(p), nil }

func TestWhoEmitsWaitsForNobody(t *testing.T) {
	var s event.Sink
	place := blocked{make(chan struct{})}
	if err := s.Redirect("stdout", place); err != nil {
		t.Fatal(err)
	}
	const many = 5000
	for range many {
		s.Emit("x", "", nil)
	}
	if lost := s.Dropped(); lost == 0 || lost >= many {
		t.Errorf("%d of %d were dropped", lost, many)
	}
	close(place.free)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	(*event.Sink)(nil).Emit("x", "", nil)
}
