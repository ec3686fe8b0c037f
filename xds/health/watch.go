package health

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"bardo.money/gateway/policy"
)

// Watch calls push when the order may have changed: after results, pings and switches, and when a provider has cooled
// down. Changes that come while push runs are one call. It blocks until ctx is done; one Watch per tracker.
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
		push()
	}
}

// nextChange is how long until the order changes without anything happening.
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

// ErrNotAsked is the error of a ping that never left this machine: it says nothing about the provider.
var ErrNotAsked = errors.New("the provider was not asked")

// Prober pings every provider in turn, so that one nobody asks for is known to work, or not, before it is needed.
type Prober struct {
	Tracker *Tracker
	// Probe asks one provider for a sign of life; any answer below 500 is one, but a Refusal. It is called from several goroutines.
	Probe   func(context.Context, policy.ProviderID) error
	Every   time.Duration // 0 means 30 s
	Timeout time.Duration // of one ping; 0 means 10 s
	Soon    time.Duration // until a ping is repeated that nobody was asked by, or that was the first without a connection; 0 means 1 s
}

// Run pings all providers at once, and again after each interval; those about which the tracker has doubts at once. It runs until ctx is
// done and waits for what it started.
func (p Prober) Run(ctx context.Context) {
	p.Every, p.Timeout, p.Soon = cmp.Or(p.Every, 30*time.Second), cmp.Or(p.Timeout, 10*time.Second), cmp.Or(p.Soon, time.Second)
	r := round{Prober: p, due: map[policy.ProviderID]time.Time{}, began: map[policy.ProviderID]time.Time{}, under: map[policy.ProviderID]bool{}, ended: make(chan pingEnd)}
	var wg sync.WaitGroup
	defer wg.Wait()
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
			wg.Go(func() {
				again := p.ping(ctx, id)
				select {
				case r.ended <- pingEnd{id, again}:
				case <-ctx.Done():
				}
			})
		}
		wake.Reset(r.next(time.Now()))
	}
}

// round is when whom a prober pings next. One goroutine uses it.
type round struct {
	Prober
	due   map[policy.ProviderID]time.Time // zero: now
	began map[policy.ProviderID]time.Time // the last ping
	under map[policy.ProviderID]bool      // pings under way; true: it is to be repeated at once
	ended chan pingEnd
}

// pingEnd is a ping that is over.
type pingEnd struct {
	id    policy.ProviderID
	again bool // soon
}

// begin is whom to ping now; they count as under way.
func (r *round) begin(now time.Time) (ids []policy.ProviderID) {
	for _, id := range r.Tracker.ids() {
		if _, under := r.under[id]; under || r.due[id].After(now) || r.Tracker.Disabled(id) {
			continue
		}
		r.under[id], r.began[id], r.due[id] = false, now, now.Add(r.Every)
		ids = append(ids, id)
	}
	return ids
}

// end notes that a ping is over.
func (r *round) end(e pingEnd) {
	switch {
	case r.under[e.id]:
		r.due[e.id] = r.soonest(e.id)
	case e.again:
		r.due[e.id] = time.Now().Add(r.Soon)
	}
	delete(r.under, e.id)
}

func (r *round) hurry(ids map[policy.ProviderID]bool) {
	for id := range ids {
		if _, under := r.under[id]; under {
			r.under[id] = true
		} else {
			r.due[id] = r.soonest(id)
		}
	}
}

// soonest is the earliest time of a provider's next ping.
func (r *round) soonest(id policy.ProviderID) time.Time { return r.began[id].Add(r.Soon) }

// next is how long until somebody is to be pinged, if nothing happens before.
func (r *round) next(now time.Time) time.Duration {
	wait := r.Every
	for _, id := range r.Tracker.ids() {
		if _, under := r.under[id]; !under && !r.Tracker.Disabled(id) {
			wait = min(wait, max(r.due[id].Sub(now), 0))
		}
	}
	return wait
}

// ping asks one provider, and reports whether to ask again soon.
func (p Prober) ping(ctx context.Context, id policy.ProviderID) (again bool) {
	limited, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	err := p.Probe(limited, id)
	if ctx.Err() != nil {
		return false // the program stops, which says nothing about the provider
	}
	if errors.Is(err, ErrNotAsked) {
		return true
	}
	p.Tracker.Ping(time.Now(), id, err)
	return isUnreached(err) && !p.Tracker.isOut(id)
}
