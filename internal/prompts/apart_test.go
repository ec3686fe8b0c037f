package prompts_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"bardo.money/gateway/internal/prompts"
)

// stuck is a sink that writes when it is allowed to, or gives up.
type stuck struct {
	collected

	free    chan struct{}
	blocked atomic.Int32 // calls that wait
}

func (s *stuck) Write(ctx context.Context, batch []*prompts.Entry) error {
	s.blocked.Add(1)
	defer s.blocked.Add(-1)
	select {
	case <-s.free:
		return s.collected.Write(ctx, batch)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestASinkApartDelaysNoOther: its writers never wait; dropped entries are counted, and logged once; pending ones are written at the end.
func TestASinkApartDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c counts
		var log strings.Builder
		s := &stuck{free: make(chan struct{})}
		a := prompts.Async(s, c.add, slog.New(slog.NewTextHandler(&log, nil)))
		write := func(id string) {
			t.Helper()
			if err := a.Write(t.Context(), []*prompts.Entry{entry(id, nil)}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		write("a")
		write("b")
		if s.ids() != "" || s.blocked.Load() != 1 {
			t.Errorf("%q is written", s.ids())
		}
		long := &prompts.Entry{Request: []prompts.Text{{Text: strings.Repeat("x", prompts.MaxWaiting)}}}
		if err := a.Write(t.Context(), []*prompts.Entry{long}); err != nil || c.of(prompts.Unsent) != 1 {
			t.Errorf("%v, %d of one that has no room", err, c.of(prompts.Unsent))
		}
		close(s.free)
		synctest.Wait()
		if s.ids() != "ab" || c.of(prompts.Unsent) != 1 {
			t.Errorf("%q is written, %d is not", s.ids(), c.of(prompts.Unsent))
		}
		s.fail(errors.New("no receiver"))
		write("c")
		write("d")
		s.fail(nil)
		write("e")
		if err := a.Close(); err != nil || !s.closed || s.ids() != "abe" || c.of(prompts.Unsent) != 3 {
			t.Errorf("%v, closed %v, %q is written, %d is not", err, s.closed, s.ids(), c.of(prompts.Unsent))
		}
		if text := log.String(); strings.Count(text, "no receiver") != 1 || strings.Count(text, "sent again") != 1 {
			t.Errorf("the gateway's log is %s", text)
		}
	})
}

// TestASinkApartIsNotWaitedForAtTheEnd for longer than the log takes to end.
func TestASinkApartIsNotWaitedForAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c counts
		s := &stuck{free: make(chan struct{})}
		a := prompts.Async(s, c.add, slog.New(slog.DiscardHandler))
		for range 100 {
			if err := a.Write(t.Context(), []*prompts.Entry{entry("x", nil)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil || !s.closed || s.ids() != "" || c.of(prompts.Unsent) != 100 {
			t.Errorf("%v, closed %v, %q is written, %d is not", err, s.closed, s.ids(), c.of(prompts.Unsent))
		}
	})
}
