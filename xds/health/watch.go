package health

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
)

// Watch calls push when the order may have changed: after results, pings and switches, and at the end of cooldowns. Changes while push runs are
// merged into one call, and so are those of a while after it, twice as long as it took and at most longestRest, because many providers change
// concurrently when a gateway starts. It blocks until ctx is done; one Watch per tracker.
func (t *Tracker) Watch(ctx context.Context, push func()) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(t.nextChange(time.Now()))
		select {
		case <-ctx.Done():
			return
		case <-t.changed:
		case <-timer.C:
		}
		began := time.Now()
		push()
		timer.Reset(min(2*time.Since(began), maxRest))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// maxRest limits how long a change waits after a push.
const maxRest = 250 * time.Millisecond

// nextChange returns the time until the order changes without new results.
func (t *Tracker) nextChange(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := 24 * time.Hour
	for _, r := range t.records {
		if r.cooling(now) {
			next = min(next, r.coolsUntil().Sub(now))
		}
	}
	return next
}

// ErrNotSent is the error of a ping that was not sent: it does not affect the provider's health.
var ErrNotSent = errors.New("the provider was not asked")

// Prober pings all providers regularly, so that the health of unused ones is known.
type Prober struct {
	Tracker *Tracker
	// Probe pings one provider; any status below 500 is a success, except a Refusal. It is called concurrently.
	Probe   func(context.Context, policy.ProviderID) error
	Every   time.Duration // 0 means 30 s
	Timeout time.Duration // of one ping; 0 means 10 s
	Soon    time.Duration // delay of a second ping after one that was not sent, or after the first without a connection; 0 means 1 s
}

// Run pings all providers immediately and at each interval, and those that the tracker suspects immediately. It runs until ctx is done and waits
// for its goroutines.
func (p Prober) Run(ctx context.Context) {
	p.Every, p.Timeout, p.Soon = cmp.Or(p.Every, 30*time.Second), cmp.Or(p.Timeout, 10*time.Second), cmp.Or(p.Soon, time.Second)
	r := schedule{Prober: p, due: map[policy.ProviderID]time.Time{}, began: map[policy.ProviderID]time.Time{}, inFlight: map[policy.ProviderID]bool{}, ended: make(chan pingEnd)}
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop() // so that a panic does not wait for pings
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-r.ended:
			r.end(e)
		case <-p.Tracker.pinging:
			r.hurry(p.Tracker.takeUrgent())
		case <-wake.C:
		}
		for _, id := range r.begin(time.Now()) {
			wg.Go(guard.Func(func() {
				e := pingEnd{id: id}
				defer func() { // after a panic, too: otherwise it would stay in flight
					select {
					case r.ended <- e:
					case <-ctx.Done():
					}
				}()
				e.again = p.ping(ctx, id)
			}))
		}
		wake.Reset(r.next(time.Now()))
	}
}

// schedule is a prober's schedule. Only one goroutine uses it.
type schedule struct {
	Prober
	due      map[policy.ProviderID]time.Time // zero: now
	began    map[policy.ProviderID]time.Time // the last ping
	inFlight map[policy.ProviderID]bool      // pings in flight; true if it is to be repeated immediately
	ended    chan pingEnd
}

// pingEnd is a finished ping.
type pingEnd struct {
	id    policy.ProviderID
	again bool // soon
}

// begin returns the providers to ping now and marks them as in flight.
func (r *schedule) begin(now time.Time) (ids []policy.ProviderID) {
	for _, id := range r.Tracker.ids() {
		if _, under := r.inFlight[id]; under || r.due[id].After(now) || r.Tracker.Disabled(id) {
			continue
		}
		r.inFlight[id], r.began[id], r.due[id] = false, now, now.Add(r.Every)
		ids = append(ids, id)
	}
	return ids
}

// end records the end of a ping.
func (r *schedule) end(e pingEnd) {
	switch {
	case r.inFlight[e.id]:
		r.due[e.id] = r.earliest(e.id)
	case e.again:
		r.due[e.id] = time.Now().Add(r.Soon)
	}
	delete(r.inFlight, e.id)
}

func (r *schedule) hurry(ids map[policy.ProviderID]bool) {
	for id := range ids {
		if _, under := r.inFlight[id]; under {
			r.inFlight[id] = true
		} else {
			r.due[id] = r.earliest(id)
		}
	}
}

// earliest returns the earliest time of a provider's next ping.
func (r *schedule) earliest(id policy.ProviderID) time.Time { return r.began[id].Add(r.Soon) }

// next returns the time until the next ping.
func (r *schedule) next(now time.Time) time.Duration {
	wait := r.Every
	for _, id := range r.Tracker.ids() {
		if _, under := r.inFlight[id]; !under && !r.Tracker.Disabled(id) {
			wait = min(wait, max(r.due[id].Sub(now), 0))
		}
	}
	return wait
}

// ping pings one provider, and returns whether to repeat it soon.
func (p Prober) ping(ctx context.Context, id policy.ProviderID) (again bool) {
	limited, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	err := p.Probe(limited, id)
	if ctx.Err() != nil {
		return false // the program stops: not the provider's fault
	}
	if errors.Is(err, ErrNotSent) {
		return true
	}
	p.Tracker.Ping(time.Now(), id, err)
	return isUnreached(err) && !p.Tracker.isOut(id)
}
