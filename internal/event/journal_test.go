package event_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
)

// sent returns what a reader is sent next.
func sent(t *testing.T, r *event.Reader) string {
	t.Helper()
	b, err := r.Next(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func follow(t *testing.T, s *event.Sink, a policy.Account, last string) *event.Reader {
	t.Helper()
	r, err := s.Follow(a, last)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lastID returns the id of the last event in what was sent.
func lastID(text string) (id string) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(v)
		}
	}
	return id
}

// TestD62AReaderSeesItsKeysEventsAlone, and an operator all.
func TestD62AReaderSeesItsKeysEventsAlone(t *testing.T) {
	var s event.Sink
	s.Emit("early", "a", nil)
	if s.On() || s.Reading("a") {
		t.Error("events are made for nobody")
	}
	r := follow(t, &s, "a", "")
	defer r.Close()
	if !s.On() || !s.Reading("a") || s.Reading("b") {
		t.Error("it does not know its readers")
	}
	all, err := s.FollowAll("")
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	if !s.Reading("b") {
		t.Error("an operator reads what is not made")
	}
	s.Emit("one", "a", map[string]int{"n": 1})
	s.Emit("of another", "b", nil)
	s.Emit("of nobody", "", nil)
	got := sent(t, r)
	if !strings.HasPrefix(got, "id: ") || !strings.Contains(got, "\nevent: one\ndata: {\"time\":") || !strings.Contains(got, `"data":{"n":1}}`+"\n\n") || strings.Contains(got, "of ") || strings.Contains(got, "early") {
		t.Errorf("%q", got)
	}
	got = sent(t, all)
	for _, part := range []string{"event: one\n", "event: of another\n", "event: of nobody\n", `"account":"b"`} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in %q", part, got)
		}
	}
}

// TestD62AStreamIsResumed after the event that was read last; forgotten events are reported.
func TestD62AStreamIsResumed(t *testing.T) {
	var s event.Sink
	r := follow(t, &s, "a", "")
	s.Emit("one", "a", nil)
	s.Emit("two", "a", nil)
	ids := strings.Split(sent(t, r), "\n\n")
	r.Close()
	s.Emit("three", "a", nil) // nobody reads now
	for _, row := range []struct{ about, last, has, lacks string }{
		{"after the first", lastID(ids[0]), "event: two", "event: one"},
		{"after the last", lastID(ids[1]), "event: three", "event: two"},
		{"of an earlier process", "OTHERBOOT-0", `event: bardo:gap` + "\n" + `data: {"missed":null,"reason":"unknown_id"}`, "slow"},
		{"not yet there", strings.Split(lastID(ids[0]), "-")[0] + "-99", "event: one", "slow"},
		{"negative", strings.Split(lastID(ids[0]), "-")[0] + "--1", "unknown_id", "slow"},
		{"no id", "x\ny", "unknown_id", "slow"},
	} {
		r := follow(t, &s, "a", row.last)
		if got := sent(t, r); !strings.Contains(got, row.has) || strings.Contains(got, row.lacks) || !strings.Contains(got, "event: three") {
			t.Errorf("%s: %q", row.about, got)
		}
		r.Close()
	}
}

// TestD62WhoReadsTooSlowlyIsTold how many events it missed; memory is bounded in number and bytes.
func TestD62WhoReadsTooSlowlyIsTold(t *testing.T) {
	var s event.Sink
	r := follow(t, &s, "a", "")
	defer r.Close()
	for i := range event.MaxKept + 7 {
		s.Emit(fmt.Sprintf("n%d", i), "a", nil)
	}
	got := sent(t, r)
	if !strings.HasPrefix(got, "event: bardo:gap\ndata: {\"missed\":7,\"reason\":\"slow\"}\n\nid: ") || !strings.Contains(got, "event: n7\n") || strings.Contains(got, "event: n6\n") {
		t.Errorf("%.200q", got)
	}
	for range 100 {
		s.Emit("large", "a", strings.Repeat("x", 10<<10))
	}
	if got = sent(t, r); len(got) > 300<<10 || !strings.Contains(got, `"reason":"slow"`) {
		t.Errorf("%d bytes: %.100q", len(got), got)
	}
	s.Emit("huge", "a", strings.Repeat("x", 20<<10))
	if got = sent(t, r); len(got) > 300 || !strings.Contains(got, "event: huge\n") || !strings.Contains(got, `"too_large":true`) {
		t.Errorf("%.300q", got)
	}
}

func TestD62ReadersAreBounded(t *testing.T) {
	var s event.Sink
	var open []*event.Reader
	for range event.MaxReadersOfOne {
		open = append(open, follow(t, &s, "a", ""))
	}
	if _, err := s.Follow("a", ""); !errors.Is(err, event.ErrTooMany) {
		t.Errorf("one more reader of a key: %v", err)
	}
	for i := event.MaxReadersOfOne; i < event.MaxReaders; i++ {
		open = append(open, follow(t, &s, policy.Account(fmt.Sprint("k", i)), ""))
	}
	if _, err := s.Follow("z", ""); !errors.Is(err, event.ErrTooMany) {
		t.Errorf("one more reader: %v", err)
	}
	if _, err := s.FollowAll(""); !errors.Is(err, event.ErrTooMany) {
		t.Errorf("one more operator: %v", err)
	}
	for _, r := range open {
		r.Close()
	}
	follow(t, &s, "z", "").Close()
}

// TestD62WhatNobodyReadsIsForgotten ten minutes after the last reader disconnected.
func TestD62WhatNobodyReadsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s event.Sink
		r := follow(t, &s, "a", "")
		s.Emit("one", "a", nil)
		last := lastID(sent(t, r))
		r.Close()
		time.Sleep(9 * time.Minute) //nolint:forbidigo // of the bubble
		s.Emit("two", "a", nil)
		if !s.On() {
			t.Error("a reader that was away for a while has lost its place")
		}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // of the bubble
		s.Emit("three", "a", nil)
		if s.On() || s.Reading("a") {
			t.Error("events are made for nobody")
		}
		r = follow(t, &s, "a", last)
		defer r.Close()
		if got := sent(t, r); !strings.Contains(got, "unknown_id") || strings.Contains(got, "event: one") {
			t.Errorf("%q", got)
		}
	})
}

func TestD62ASilentStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s event.Sink
		r := follow(t, &s, "a", "")
		defer r.Close()
		if b, err := r.Next(t.Context(), time.Second); err != nil || b != nil {
			t.Errorf("after a second: %q %v", b, err)
		}
		if got := sent(t, r); got != ": heartbeat\n" {
			t.Errorf("%q", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Next(ctx, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("a reader that has left: %v", err)
		}
	})
}

// TestD62SecretsAreTakenOut of readers' events; held events are not read before they are released.
func TestD62SecretsAreTakenOut(t *testing.T) {
	s := event.Sink{Redact: func(line []byte) []byte { return []byte(strings.ReplaceAll(string(line), "sk-secret", "***")) }}
	r := follow(t, &s, "a", "")
	defer r.Close()
	h := s.Hold()
	h.Emit("held", "a", nil)
	if !h.Reading("a") {
		t.Error("a sink that holds has other readers")
	}
	s.Emit("one", "a", "sk-secret")
	if got := sent(t, r); strings.Contains(got, "secret") || !strings.Contains(got, "***") || strings.Contains(got, "event: held") {
		t.Errorf("%q", got)
	}
	h.Release()
	if got := sent(t, r); !strings.Contains(got, "event: held") {
		t.Errorf("%q", got)
	}
}

// TestD62WhoeverReadsAndWrites concurrently: each reader gets each event once, in order.
func TestD62WhoeverReadsAndWrites(t *testing.T) {
	var s event.Sink
	const writers, each = 4, 100 // fewer than are kept
	var wg sync.WaitGroup
	for range 4 {
		r := follow(t, &s, "a", "")
		wg.Go(func() {
			defer r.Close()
			n := 0
			for n < writers*each {
				b, err := r.Next(t.Context(), time.Minute)
				if err != nil || strings.Contains(string(b), event.Gap) {
					t.Errorf("%q %v", b, err)
					return
				}
				n += strings.Count(string(b), "event: x\n")
			}
		})
	}
	for range writers {
		wg.Go(func() {
			for range each {
				s.Emit("x", "a", nil)
				if r, err := s.Follow("b", ""); err == nil {
					r.Close()
				}
			}
		})
	}
	wg.Wait()
}

type embedded struct {
	ID string `json:"id"`
}

type shown struct {
	embedded
	N     int             `json:"n,omitempty"`
	Inner struct{ X int } `json:"inner"`
	Gone  string          `json:"-"`
}

// TestD62KindsHaveTheFieldsOfTheirData: an event without a kind is not declared.
func TestD62KindsHaveTheFieldsOfTheirData(t *testing.T) {
	k := event.Declare[*shown]("test:shown", "Always.")
	i := slices.IndexFunc(event.Catalogue(), func(d event.Declared) bool { return d.Name == "test:shown" })
	if d := event.Catalogue()[i]; d.When != "Always." || !slices.Equal(d.Fields, []string{"id", "n", "inner"}) {
		t.Errorf("%+v", d)
	}
	var s event.Sink
	r := follow(t, &s, "a", "")
	defer r.Close()
	event.Kind[int]{}.Emit(&s, "a", 1)
	k.Emit(&s, "a", &shown{N: 2})
	k.Emit(nil, "a", nil)
	if got := sent(t, r); strings.Count(got, "event: ") != 1 || !strings.Contains(got, `"n":2`) {
		t.Errorf("%q", got)
	}
}

// recorder keeps what is recorded.
type recorder struct{ names []string }

func (r *recorder) Record(_ time.Time, name string, _ policy.Account, _ any) {
	r.names = append(r.names, name)
}

// TestF04AuditedKindsAreRecorded, whether or not somebody reads events, and others are not.
func TestF04AuditedKindsAreRecorded(t *testing.T) {
	audited, other := event.Declare[int]("test:audited", "Always.").Audited(), event.Declare[int]("test:other", "Always.")
	var s event.Sink
	audited.Emit(&s, "a", 1)
	if s.On() {
		t.Error("events are made for nobody")
	}
	var r recorder
	s.RecordIn(&r)
	audited.Emit(&s, "a", 2)
	other.Emit(&s, "a", 3)
	audited.Emit(s.Hold(), "a", 4)
	audited.Emit(nil, "a", 5)
	if !s.On() {
		t.Error("events for the audit log are not made")
	}
	s.RecordIn(nil)
	audited.Emit(&s, "a", 6)
	if !slices.Equal(r.names, []string{"test:audited", "test:audited"}) {
		t.Errorf("%q", r.names)
	}
	i := slices.IndexFunc(event.Catalogue(), func(d event.Declared) bool { return d.Name == "test:audited" })
	if !event.Catalogue()[i].Audit {
		t.Error("the catalogue does not say so")
	}
}
