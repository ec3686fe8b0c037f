package event_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/polltest"
)

// spooled are the names of the events in a directory, in their order.
func spooled(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := event.Segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		for from := int64(0); ; {
			lines, next, err := all[i].Lines(from, 200)
			if err != nil {
				t.Fatal(err)
			}
			if len(lines) == 0 {
				break
			}
			for _, l := range lines {
				names = append(names, read(t, string(l))[0].Event)
			}
			from = next
		}
	}
	return names
}

// TestASpoolOutlivesItsWriter: a reader gets the events of an earlier writer before those of the next one; a truncated line is left out.
func TestASpoolOutlivesItsWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	var first event.Sink
	first.Redact = func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "SECRET", "***")) }
	if first.On() || first.SpoolTo(dir, "data") != nil || !first.On() {
		t.Error("a spool is not a place for events")
	}
	first.Emit("one", "key_1", map[string]string{"x": "SECRET"})
	first.Emit("two", "", nil)
	polltest.Until(t, "the first events are written while it runs", func() bool { return len(spooled(t, dir)) == 2 })
	all, err := event.Segments(dir)
	if err != nil || len(all) != 1 || all[0].Closed {
		t.Fatalf("%+v, %v", all, err)
	}
	f, err := os.OpenFile(all[0].Path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"event":"cut`); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(all[0].Path)
	if err != nil || strings.Contains(string(b), "SECRET") {
		t.Errorf("%s %v", b, err)
	}
	var next, other event.Sink
	if err := next.SpoolTo(dir, "data"); err != nil {
		t.Fatal(err)
	}
	if err := other.SpoolTo(dir, "envoy"); err != nil {
		t.Fatal(err)
	}
	next.Emit("three", "", nil)
	other.Emit("four", "", nil)
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(spooled(t, dir), " "); got != "one two three four" {
		t.Errorf("%s", got)
	}
	if all, err = event.Segments(dir); err != nil || len(all) != 3 || !all[0].Closed || all[1].Closed || all[2].Closed || all[0].ID == all[1].ID {
		t.Errorf("%+v, %v", all, err)
	}
	if next.Dropped()+first.Dropped() != 0 {
		t.Error("events were dropped")
	}
}

// TestASpoolIsBounded: without a reader the oldest file is dropped, and counted; a new file starts after whole lines.
func TestASpoolIsBounded(t *testing.T) {
	dir := t.TempDir()
	w := event.NewSpool(dir, 100)
	const lines = 400
	for i := range lines {
		text := fmt.Sprintf(`{"event":"e%d"}`, i) + "\n"
		for _, part := range []string{text[:5], text[5:]} { // as a buffer cuts them
			if _, err := w.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := spooled(t, dir)
	all, err := event.Segments(dir)
	if err != nil || len(all) != 32 {
		t.Errorf("%d files, %v", len(all), err)
	}
	if len(got) == lines || got[len(got)-1] != fmt.Sprint("e", lines-1) || got[0] != fmt.Sprint("e", lines-len(got)) || w.Lost() != uint64(lines-len(got)) {
		t.Errorf("%d events from %s to %s, %d lost", len(got), got[0], got[len(got)-1], w.Lost())
	}
}
