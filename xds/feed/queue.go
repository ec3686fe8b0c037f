package feed

import (
	"sync"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/feed/feedpb"
	"bardo.money/gateway/xds/health"
)

const (
	queueSize   = 4096             // queued results while the control plane is disconnected; the oldest are dropped
	maxPings    = 256              // likewise for pings
	batchSize   = 512              // results in one report
	resultStale = 30 * time.Second // older results are not reported
)

// queue holds results to be reported. Its size is bounded. Safe for concurrent use.
type queue struct {
	wake chan struct{} // has one token if something was added

	mu       sync.Mutex
	ring     [queueSize]entry
	first, n int
	pings    []*feedpb.Ping
	wanted   map[policy.ProviderID]bool
	returned []string
	dropped  uint64
}

type entry struct {
	at     time.Time
	result health.Result
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), wanted: map[policy.ProviderID]bool{}}
}

func (q *queue) result(now time.Time, r health.Result) {
	q.mu.Lock()
	if q.n == queueSize {
		q.pop()
		q.dropped++
	}
	q.ring[(q.first+q.n)%queueSize] = entry{now, r}
	q.n++
	q.mu.Unlock()
	q.notify()
}

func (q *queue) pop() entry {
	e := q.ring[q.first]
	q.first, q.n = (q.first+1)%queueSize, q.n-1
	return e
}

func (q *queue) ping(p policy.ProviderID, err error) {
	ping := encodePing(p, err)
	q.mu.Lock()
	if len(q.pings) == maxPings {
		q.pings = q.pings[1:]
		q.dropped++
	}
	q.pings = append(q.pings, ping)
	q.mu.Unlock()
	q.notify()
}

func (q *queue) requestTrial(p policy.ProviderID) {
	q.mu.Lock()
	q.wanted[p] = true
	q.mu.Unlock()
	q.notify()
}

func (q *queue) returnTrial(p policy.ProviderID) {
	q.mu.Lock()
	q.returned = append(q.returned, string(p))
	q.mu.Unlock()
	q.notify()
}

func (q *queue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// begin clears the state of the previous stream.
func (q *queue) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.wanted)
	q.returned = nil
}

// take returns the next report; more is true if it does not contain everything.
func (q *queue) take(now time.Time) (r *feedpb.Report, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r = &feedpb.Report{Pings: q.pings, Returned: q.returned}
	q.pings, q.returned = nil, nil
	for p := range q.wanted {
		r.Wanted = append(r.Wanted, string(p))
	}
	clear(q.wanted)
	for q.n > 0 && len(r.GetResults()) < batchSize {
		e := q.pop()
		if now.Sub(e.at) > resultStale {
			q.dropped++
			continue
		}
		r.Results = append(r.Results, encodeResult(e.result))
	}
	r.Dropped = q.dropped
	return r, q.n > 0
}

func (q *queue) droppedCount() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}
