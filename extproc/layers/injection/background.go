package injection

import (
	"sync"
	"sync/atomic"

	"bardo.money/gateway/extproc/injection"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/models"
)

// Bounds of the background: requests whose texts are judged at a time, and the bytes of these texts. Texts beyond them are skipped.
const (
	maxBackground      = 64
	maxBackgroundBytes = 32 << 20
)

// Background judges texts while their requests continue. Safe for concurrent use.
type Background struct {
	slots   chan struct{}
	bytes   atomic.Int64
	running sync.WaitGroup
}

// NewBackground returns an idle Background.
func NewBackground() *Background { return &Background{slots: make(chan struct{}, maxBackground)} }

// run runs f, which ends within the layer's time limit, in a goroutine. It does not block, and returns false if there is no room.
func (b *Background) run(size int, f func()) bool {
	if b.bytes.Add(int64(size)) > maxBackgroundBytes {
		b.bytes.Add(int64(-size))
		return false
	}
	select {
	case b.slots <- struct{}{}:
	default:
		b.bytes.Add(int64(-size))
		return false
	}
	b.running.Add(1)
	guard.Go(func() {
		defer func() {
			<-b.slots
			b.bytes.Add(int64(-size))
			b.running.Done()
		}()
		f()
	})
	return true
}

// Wait waits until nothing runs in the background.
func (b *Background) Wait() { b.running.Wait() }

// Memory holds what outlives a configuration: the known verdicts and the background. The zero value is empty. Not safe for concurrent use.
type Memory struct {
	threshold  float64
	scores     bool
	detector   *injection.Detector
	background *Background
}

// With returns the detector for a threshold, with the process's classifier or without one (nil), and the background. The detector stays the same until the
// threshold changes, or a classifier is added or removed.
func (m *Memory) With(c models.Classifier, threshold float64) (*injection.Detector, *Background) {
	if m.detector == nil || m.scores != (c != nil) || m.threshold != threshold {
		m.scores, m.threshold, m.detector = c != nil, threshold, newDetector(c, threshold)
	}
	if m.background == nil {
		m.background = NewBackground()
	}
	return m.detector, m.background
}

func newDetector(c models.Classifier, threshold float64) *injection.Detector {
	if c == nil {
		return injection.NewDetector(nil, threshold, nil)
	}
	return injection.NewDetector(c, threshold, IsOff)
}
