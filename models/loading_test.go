package models_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/models"
)

// slow is a runtime whose models are loaded when release is closed; reads counts the started loads.
type slow struct {
	release chan struct{}
	mu      sync.Mutex
	reads   int
}

func (s *slow) load(string) (models.Runtime, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	<-s.release
	return models.Runtime{Version: "test", Open: func(string, string) (models.Session, error) { return fixed{}, nil }}, nil
}

// fixed is a session with an output of the embedding's size.
type fixed struct{}

func (fixed) Run(rows int, _, _ []int64) ([]float32, error) {
	out := make([]float32, rows*384)
	for i := range rows {
		out[i*384] = 1
	}
	return out, nil
}
func (fixed) Close() error { return nil }

func slowHost(t *testing.T) (*models.Host, *slow) {
	t.Helper()
	s := &slow{release: make(chan struct{})}
	o := options(t)
	o.Load = s.load
	h, err := models.NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	return h, s
}

func TestNobodyWaitsForAModelLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := slowHost(t)
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := h.Embedder().Embed(ctx, "text"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("while it is read: %v", err)
				}
			})
		}
		begin := time.Now()
		wg.Wait()
		if took := time.Since(begin); took != 60*time.Millisecond {
			t.Errorf("the callers waited for %v", took)
		}
		patient := make(chan error)
		go func() {
			_, err := h.Embedder().Embed(t.Context(), "text")
			patient <- err
		}()
		synctest.Wait()
		close(s.release)
		if err := <-patient; err != nil {
			t.Errorf("who waits has an answer: %v", err)
		}
		if s.reads != 1 {
			t.Errorf("the model was read %d times", s.reads)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAModelThatIsBeingReadIsClosedAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := slowHost(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := h.Embedder().Embed(ctx, "text"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		closed := make(chan error)
		go func() { closed <- h.Close() }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("it was closed while it was read")
		default:
		}
		close(s.release)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := h.Embedder().Embed(t.Context(), "text"); !errors.Is(err, models.ErrOff) {
			t.Errorf("after Close: %v", err)
		}
		if s.reads != 1 {
			t.Errorf("it was read %d times", s.reads)
		}
	})
}
