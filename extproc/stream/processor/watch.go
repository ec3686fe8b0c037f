package processor

import (
	"sync"
	"time"
)

// bodyDeadline answers a client whose body times out. A blocked receive cannot be cancelled, so the answer is sent concurrently; Envoy then ends
// the stream.
type bodyDeadline struct {
	timer *time.Timer

	mu       sync.Mutex
	deadline time.Time // zero if not waiting
}

// begin calls late once after wait, unless end is called before.
func (w *bodyDeadline) begin(wait time.Duration, late func()) {
	if wait <= 0 {
		return
	}
	w.mu.Lock()
	w.deadline = time.Now().Add(wait)
	w.mu.Unlock()
	if w.timer != nil {
		w.timer.Reset(wait)
		return
	}
	w.timer = time.AfterFunc(wait, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.deadline.IsZero() && !time.Now().Before(w.deadline) {
			w.deadline = time.Time{}
			late()
		}
	})
}

// end stops the wait. Afterwards late is not running and will not be called.
func (w *bodyDeadline) end() {
	if w.timer == nil {
		return
	}
	w.timer.Stop()
	w.mu.Lock()
	w.deadline = time.Time{}
	w.mu.Unlock()
}
