package attempt

import "time"

// Beat says when a client is to get a heartbeat: a period after the last thing that it got. C of a nil Beat never receives; Sent and Stop take none. Not safe
// for concurrent use.
type Beat struct {
	period time.Duration
	due    time.Time
	timer  *time.Timer // nil as long as nobody waits for C
}

// NewBeat is a Beat whose first period begins now.
func NewBeat(period time.Duration) *Beat { return &Beat{period: period, due: time.Now().Add(period)} }

// Sent begins a new period: the client got something.
func (b *Beat) Sent() {
	if b.timer != nil {
		b.timer.Reset(b.period)
		return
	}
	b.due = time.Now().Add(b.period)
}

// C receives when the client is to get a heartbeat. The caller calls Stop at the end.
func (b *Beat) C() <-chan time.Time {
	if b == nil {
		return nil
	}
	if b.timer == nil {
		b.timer = time.NewTimer(time.Until(b.due))
	}
	return b.timer.C
}

// Stop releases the timer of C.
func (b *Beat) Stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
}
