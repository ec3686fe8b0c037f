package attempt

import "time"

// Beat schedules a client's heartbeats: one period after the last bytes that were sent to it. On a nil Beat, C never receives, and Sent and Stop do
// nothing. Not safe for concurrent use.
type Beat struct {
	period time.Duration
	due    time.Time
	timer  *time.Timer // nil until C is called
}

// NewBeat returns a Beat whose first period begins now.
func NewBeat(period time.Duration) *Beat { return &Beat{period: period, due: time.Now().Add(period)} }

// Sent restarts the period: bytes were sent to the client.
func (b *Beat) Sent() {
	if b.timer != nil {
		b.timer.Reset(b.period)
		return
	}
	b.due = time.Now().Add(b.period)
}

// C returns a channel that receives when a heartbeat is due. The caller calls Stop at the end.
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
