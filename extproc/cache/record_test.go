package cache

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/proctest"
)

func recorded(events []chat.Event) []byte { return NewEntry(events).record }

func read(record []byte) (events []chat.Event, ok bool) {
	r := reader{b: record}
	var ev chat.Event
	for r.next(&ev) {
		events = append(events, ev)
	}
	return events, !r.bad
}

// filled is an event with something in every field but Err, which is not kept. A field that is added to chat.Event is in it
// by itself.
func filled(t *testing.T) chat.Event {
	t.Helper()
	var ev chat.Event
	fill(t, reflect.ValueOf(&ev).Elem())
	ev.Err, ev.Kind = nil, chat.Other
	return ev
}

func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range v.Fields() {
			fill(t, f)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1 << 40)
	case reflect.Uint8:
		v.SetUint(3)
	case reflect.String:
		v.SetString("some text")
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(t, v.Index(1))
			return
		}
		v.SetBytes([]byte("some bytes"))
	case reflect.Pointer:
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}

func TestARecordKeepsEveryField(t *testing.T) {
	raw := []byte(`data: {"text":"a long piece of text"}` + "\n\n")
	want := []chat.Event{
		filled(t),
		{Kind: chat.Start},
		{Kind: chat.Text, Raw: raw, Text: raw[15:35], ModelSpan: chat.Span{Start: 1, End: 2}},
		{Kind: chat.UsageInfo, Tail: true, Text: raw[15:35], Usage: chat.Usage{Output: 5, Final: true}},
		{Kind: chat.Text, Tail: true, Text: []byte("not a part of the raw bytes")},
		{Kind: chat.Text, Text: []byte("without any"), Index: 2, Choice: 1},
		{Kind: chat.Other, Raw: []byte(": a comment\n\n")},
		{Kind: chat.Stop, Reason: chat.StopLength},
		{Kind: chat.End},
	}
	got, ok := read(recorded(want))
	if !ok || len(got) != len(want) {
		t.Fatalf("%d events, %v", len(got), ok)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("event %d is\n%+v, was\n%+v", i, got[i], want[i])
		}
	}
	if n := bytes.Count(recorded(want), raw[15:35]); n != 1 {
		t.Errorf("the text of raw bytes is kept %d times", n)
	}
}

func TestARecordSharesNoMemoryWithItsEvents(t *testing.T) {
	text := []byte("text of a decoder")
	e := NewEntry([]chat.Event{{Kind: chat.Text, Text: text}})
	clear(text)
	for ev := range e.Events {
		if string(ev.Text) != "text of a decoder" {
			t.Errorf("text is %q", ev.Text)
		}
	}
}

// FuzzRecord: reading ends for any input, and a record is read as it was written.
func FuzzRecord(f *testing.F) {
	f.Add(recorded([]chat.Event{{Kind: chat.Start, ID: "x", Model: "m"}, {Kind: chat.Text, Raw: []byte("some raw bytes"), Text: []byte("raw bytes")}, {Kind: chat.End}}))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, record []byte) {
		events, ok := read(record)
		if !ok {
			return
		}
		again, ok := read(recorded(events))
		if !ok || len(again) != len(events) {
			t.Fatalf("%d events became %d, %v", len(events), len(again), ok)
		}
		for i := range events {
			a, b := events[i], again[i]
			if a.Kind != b.Kind || !bytes.Equal(a.Text, b.Text) || !bytes.Equal(a.Raw, b.Raw) || a.Tool != b.Tool || a.Usage != b.Usage || a.ID != b.ID {
				t.Errorf("event %d is\n%+v, was\n%+v", i, b, a)
			}
		}
	})
}

// TestTheSearchForTextsIsBounded: the text of an event is looked for in the bytes that came with it, which may be 64 MiB with a
// hundred thousand texts that stand there in other words. Sixteen times as many texts must not make it sixteen times as long.
func TestTheSearchForTextsIsBounded(t *testing.T) {
	const most, looks = 8, 6
	raw := bytes.Repeat([]byte("abcdefgh"), 128<<10)
	record := func(texts int) time.Duration {
		events := []chat.Event{{Kind: chat.Start, Raw: raw}}
		for range texts {
			events = append(events, chat.Event{Kind: chat.Text, Tail: true, Text: []byte("abcdefgX")})
		}
		var b []byte
		took := proctest.CPUTime(t, func() { b = recorded(events) })
		if got, ok := read(b); !ok || len(got) != len(events) || string(got[texts].Text) != "abcdefgX" {
			t.Errorf("%d events, %v", len(got), ok)
		}
		return took
	}
	var ratio float64
	for range looks {
		if ratio = float64(record(16_000)) / float64(record(1_000)); ratio < most {
			return
		}
	}
	t.Errorf("sixteen times the texts took %.0f times as long", ratio)
}
