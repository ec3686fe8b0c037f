package injection

import (
	"sync"
	"sync/atomic"

	"bardo.money/gateway/extproc/injection"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/models"
)

// Bounds of what is judged beside requests: how many requests' texts at a time, and their bytes. What comes on top is skipped.
const (
	maxBeside      = 64
	maxBesideBytes = 32 << 20
)

// Beside judges texts beside their requests. Safe for concurrent use.
type Beside struct {
	slots chan struct{}
	bytes atomic.Int64
	all   sync.WaitGroup
}

// NewBeside returns one that is idle.
func NewBeside() *Beside { return &Beside{slots: make(chan struct{}, maxBeside)} }

// run runs f, which ends within the layer's time limit, in a goroutine of its own. It returns false, at once, if there is no room.
func (b *Beside) run(size int, f func()) bool {
	if b.bytes.Add(int64(size)) > maxBesideBytes {
		b.bytes.Add(int64(-size))
		return false
	}
	select {
	case b.slots <- struct{}{}:
	default:
		b.bytes.Add(int64(-size))
		return false
	}
	b.all.Add(1)
	guard.Go(func() {
		defer func() {
			<-b.slots
			b.bytes.Add(int64(-size))
			b.all.Done()
		}()
		f()
	})
	return true
}

// Wait waits until nothing is judged beside requests.
func (b *Beside) Wait() { b.all.Wait() }

// Memory is what outlives a configuration: what is known of texts, and what is judged beside requests. The zero value is empty. For one configuration at a
// time.
type Memory struct {
	asked    float64
	scores   bool
	detector *injection.Detector
	beside   *Beside
}

// With returns the detector with the process's classifier, or without one (nil), for a threshold, and what judges beside requests. The detector is the same while
// the threshold is, and while there is a classifier or none.
func (m *Memory) With(c models.Classifier, threshold float64) (*injection.Detector, *Beside) {
	if m.detector == nil || m.scores != (c != nil) || m.asked != threshold {
		m.scores, m.asked, m.detector = c != nil, threshold, newDetector(c, threshold)
	}
	if m.beside == nil {
		m.beside = NewBeside()
	}
	return m.detector, m.beside
}

func newDetector(c models.Classifier, threshold float64) *injection.Detector {
	if c == nil {
		return injection.NewDetector(nil, threshold, nil)
	}
	return injection.NewDetector(c, threshold, IsOff)
}
