package models

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
)

// counts is a Meter.
type counts struct {
	mu      sync.Mutex
	batches []int
	refused map[string]int
	waiting int
}

func (c *counts) ModelQueued(_ string, n int) { c.mu.Lock(); c.waiting = n; c.mu.Unlock() }

func (c *counts) ModelRan(_ string, n int, _ time.Duration) {
	c.mu.Lock()
	c.batches = append(c.batches, n)
	c.mu.Unlock()
}

func (c *counts) ModelWaited(string, time.Duration) {}

func (c *counts) ModelRefused(_, reason string) {
	c.mu.Lock()
	if c.refused == nil {
		c.refused = map[string]int{}
	}
	c.refused[reason]++
	c.mu.Unlock()
}

// slow is a Session that takes a second, and returns the first token of each row.
type slow struct{ closed *int }

func (s slow) Run(rows int, ids, mask []int64) ([]float32, error) {
	if slices.Contains(mask, 0) {
		return nil, errors.New("padding")
	}
	<-time.After(time.Second)
	out := make([]float32, rows)
	for i := range out {
		switch out[i] = float32(ids[i*len(ids)/rows]); out[i] {
		case 13:
			return nil, errors.New("no")
		case 14:
			panic("no")
		}
	}
	return out, nil
}

func (s slow) Close() error { *s.closed++; return nil }

func newSlow(t *testing.T, o PoolOptions) (p *Pool, c *counts, closed *int) {
	t.Helper()
	c, closed = new(counts), new(int)
	o.Meter = c
	p, err := NewPool("m", 1, o, func() (Session, error) { return slow{closed}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return p, c, closed
}

// ask calls the pool in a goroutine, and waits until the input is queued or running.
func ask(ctx context.Context, p *Pool, ids ...int64) <-chan string {
	answer := make(chan string, 1)
	go func() {
		out, err := p.Do(ctx, ids)
		answer <- fmt.Sprint(out, err)
	}()
	synctest.Wait()
	return answer
}

func TestAPoolsQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c, _ := newSlow(t, PoolOptions{Queue: 2})
		first, second, third := ask(t.Context(), p, 1), ask(t.Context(), p, 2), ask(t.Context(), p, 3)
		began := time.Now()
		if _, err := p.Do(t.Context(), []int64{4}); !errors.Is(err, ErrBusy) || time.Since(began) > 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if a, b, d := <-first, <-second, <-third; a != "[1] <nil>" || b != "[2] <nil>" || d != "[3] <nil>" {
			t.Error(a, b, d)
		}
		if c.refused["full"] != 1 || c.waiting != 0 || fmt.Sprint(c.batches) != "[1 2]" {
			t.Errorf("%+v", c)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestOnlyInputsOfOneLengthRunTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c, _ := newSlow(t, PoolOptions{Batch: 3})
		var answers []<-chan string
		for i, ids := range [][]int64{{1}, {2, 0}, {3}, {4, 0}, {5, 0}, {6, 0}, {7, 0}} {
			answers = append(answers, ask(t.Context(), p, ids...))
			if i == 0 {
				continue // it runs, the others wait
			}
		}
		for i, a := range answers {
			if got := <-a; got != fmt.Sprintf("[%d] <nil>", i+1) {
				t.Errorf("input %d: %s", i+1, got)
			}
		}
		if got := fmt.Sprint(c.batches); got != "[1 3 1 2]" { // 1; 2, 4, 5; 3; 6, 7
			t.Error(got)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestARunHasABoundedNumberOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c, _ := newSlow(t, PoolOptions{})
		var answers []<-chan string
		for i, length := range []int{1, 256, 256, 256, 600, 600} {
			ids := make([]int64, length)
			ids[0] = int64(i)
			answers = append(answers, ask(t.Context(), p, ids...))
		}
		for i, a := range answers {
			if got := <-a; got != fmt.Sprintf("[%d] <nil>", i) {
				t.Errorf("input %d: %s", i, got)
			}
		}
		if got := fmt.Sprint(c.batches); got != "[1 2 1 1 1]" {
			t.Error(got)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestADeadlineEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c, _ := newSlow(t, PoolOptions{})
		running := ask(t.Context(), p, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if got := <-ask(ctx, p, 2); !strings.Contains(got, "deadline exceeded") || time.Since(begin) != 500*time.Millisecond {
			t.Errorf("%s after %s", got, time.Since(begin))
		}
		if got := <-running; got != "[1] <nil>" {
			t.Error(got)
		}
		if c.refused["deadline"] != 1 || fmt.Sprint(c.batches) != "[1]" {
			t.Errorf("%+v: what nobody waits for was run", c)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestSessionsWorkBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, closed := newSlow(t, PoolOptions{Sessions: 2})
		begin := time.Now()
		a, b := ask(t.Context(), p, 1), ask(t.Context(), p, 2, 2)
		<-a
		<-b
		if took := time.Since(begin); took != time.Second {
			t.Error(took)
		}
		if err := p.Close(); err != nil || *closed != 2 {
			t.Error(err, *closed)
		}
	})
}

func TestAFailedRunFailsItsInputsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := newSlow(t, PoolOptions{})
		for ids, want := range map[int64]string{13: "[] model m: no", 14: "[] model m: panic: no", 1: "[1] <nil>"} {
			if got := <-ask(t.Context(), p, ids); got != want {
				t.Errorf("%d: %s", ids, got)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAClosedPoolFailsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, closed := newSlow(t, PoolOptions{})
		running, waiting := ask(t.Context(), p, 1), ask(t.Context(), p, 2)
		if err := p.Close(); err != nil || *closed != 1 {
			t.Error(err, *closed)
		}
		if a, b := <-running, <-waiting; a != "[1] <nil>" || !strings.Contains(b, ErrClosed.Error()) {
			t.Error(a, b)
		}
		if _, err := p.Do(t.Context(), []int64{1}); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

func TestAModelOfAnotherSizeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := 0
		if _, err := NewPool("m", 7, PoolOptions{Sessions: 2, Meter: new(counts)}, func() (Session, error) { return slow{&closed}, nil }); err == nil || !strings.Contains(err.Error(), "expected 7 each") || closed != 1 {
			t.Error(err, closed)
		}
	})
}

func TestWindowsOverlap(t *testing.T) {
	for _, c := range []struct {
		tokens, size, overlap int
		want                  string
	}{{0, 4, 1, "[]"}, {4, 4, 1, "[[0 1 2 3]]"}, {5, 4, 1, "[[0 1 2 3] [3 4]]"}, {8, 4, 2, "[[0 1 2 3] [2 3 4 5] [4 5 6 7]]"}, {9, 4, 0, "[[0 1 2 3]]"}} {
		tokens := make([]int32, c.tokens)
		for i := range tokens {
			tokens[i] = int32(i)
		}
		if got := fmt.Sprint(slices.Collect(windows(tokens, c.size, c.overlap))); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestDegenerateTexts(t *testing.T) {
	for _, c := range []struct {
		tokens []int32
		want   bool
	}{
		{nil, false},
		{[]int32{7, 7}, false},
		{[]int32{7, 7, 7}, true},
		{[]int32{7, 7, 8}, true},
		{[]int32{7, 7, 8, 9}, false},
		{[]int32{1, 1, 1}, false}, // the unknown token: other scripts, or an attempt to hide
		{[]int32{7, 7, 7, 7, 7, 7, 7, 7, 2, 3, 4}, true},
		{[]int32{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 2, 3, 4, 5}, false},
	} {
		if got := degenerate(c.tokens, 1); got != c.want {
			t.Errorf("%v: %v", c.tokens, got)
		}
	}
}
