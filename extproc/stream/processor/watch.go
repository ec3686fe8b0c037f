package processor

import (
	"sync"
	"time"
)

// watch answers a client whose body is late. A stream's receive ends only with the stream: so the answer is sent beside it, from which
// Envoy ends the stream.
type watch struct {
	timer *time.Timer

	mu  sync.Mutex
	due time.Time // zero while nobody waits
}

// begin calls late, once, if wait is not called before the time is over. It is the end of the wait.
func (w *watch) begin(wait time.Duration, late func()) {
	if wait <= 0 {
		return
	}
	w.mu.Lock()
	w.due = time.Now().Add(wait)
	w.mu.Unlock()
	if w.timer != nil {
		w.timer.Reset(wait)
		return
	}
	w.timer = time.AfterFunc(wait, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.due.IsZero() && !time.Now().Before(w.due) {
			w.due = time.Time{}
			late()
		}
	})
}

// end ends the wait: late will not be called, or has returned.
func (w *watch) end() {
	if w.timer == nil {
		return
	}
	w.timer.Stop()
	w.mu.Lock()
	w.due = time.Time{}
	w.mu.Unlock()
}
