package module

import "time"

// timer ends a wait. The zero value is not running.
type timer struct {
	t     *time.Timer
	fired chan struct{}
}

func (t *timer) start(timeout time.Duration, d *client) {
	if timeout <= 0 || t.t != nil {
		return
	}
	fired := make(chan struct{})
	t.fired = fired
	t.t = time.AfterFunc(timeout, func() {
		close(fired)
		d.post(posted{run: func(int) {}}) // the worker has to resume a coroutine
	})
}

func (t *timer) late() bool { return t.fired != nil && isClosed(t.fired) }

func (t *timer) stop() {
	if t.t != nil {
		t.t.Stop()
	}
}
