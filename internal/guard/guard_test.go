package guard_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/internal/guard"
)

// reported collects what is reported during a test. Tests that use it do not run in parallel.
func reported(t *testing.T) <-chan string {
	t.Helper()
	out := make(chan string, 16)
	guard.Report(func(p *guard.Panic, stack string) { out <- p.Error() + "\n" + stack })
	t.Cleanup(func() { guard.Report(nil) })
	return out
}

func TestAPanicInAGoroutineIsCountedAndReported(t *testing.T) {
	out, before := reported(t), guard.Count()
	ended := make(chan struct{})
	guard.Go(func() {
		defer close(ended)
		panic("a value that quotes the prompt")
	})
	<-ended
	got := <-out
	if !strings.Contains(got, "a panic with a string") || strings.Contains(got, "the prompt") || !strings.Contains(got, "guard_test.go") {
		t.Errorf("reported is %s", got)
	}
	if n := guard.Count() - before; n != 1 {
		t.Errorf("%d panics are counted", n)
	}
}

func TestAPanicIsAnError(t *testing.T) {
	reported(t)
	var none map[string]int
	err := guard.Err(func() error { none["x"]++; return nil })()
	p, ok := errors.AsType[*guard.Panic](err)
	fault, isRuntime := errors.AsType[runtime.Error](err)
	if !ok || !isRuntime || !strings.Contains(p.Error(), fault.Error()) {
		t.Errorf("the error is %v", err)
	}
	own := errors.New("own")
	if err := guard.Err(func() error { return own })(); !errors.Is(err, own) {
		t.Errorf("the error is %v, want f's own", err)
	}
}

func TestNobodyNeedsToBeTold(*testing.T) {
	guard.Report(nil)
	guard.Func(func() { panic(1) })()
}

// TestALoopGoesOnAfterAPanic, a second later, until it returns or its context is done.
func TestALoopGoesOnAfterAPanic(t *testing.T) {
	reported(t)
	synctest.Test(t, func(t *testing.T) {
		began, rounds := time.Now(), 0
		err := guard.Again(t.Context(), func() error {
			if rounds++; rounds < 4 {
				panic(rounds)
			}
			return nil
		})()
		if err != nil || rounds != 4 || time.Since(began) != 3*time.Second {
			t.Errorf("%v, %d rounds in %v", err, rounds, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		rounds = 0
		err = guard.Again(ctx, func() error { rounds++; panic(rounds) })()
		if _, ok := errors.AsType[*guard.Panic](err); !ok || rounds != 2 {
			t.Errorf("%v after %d rounds", err, rounds)
		}
	})
}
