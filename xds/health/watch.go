package health

import (
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
	// Probe asks one provider for a sign of life; any answer below 500 is one. It is called from several goroutines.
	Probe   func(context.Context, policy.ProviderID) error
	Every   time.Duration // 0 means 30 s
	Timeout time.Duration // of one ping; 0 means 10 s
}

// Run pings all providers at once, and again after each interval, until ctx is done. It waits for what it started.
func (p Prober) Run(ctx context.Context) {
	every, timeout := p.Every, p.Timeout
	if every == 0 {
		every = 30 * time.Second
	}
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		p.round(ctx, timeout)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p Prober) round(ctx context.Context, timeout time.Duration) {
	var wg sync.WaitGroup
	for _, id := range p.Tracker.ids() {
		if p.Tracker.Disabled(id) {
			continue
		}
		wg.Go(func() {
			limited, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			err := p.Probe(limited, id)
			if ctx.Err() != nil || errors.Is(err, ErrNotAsked) {
				return // the program stops, or has no way out: that says nothing about the provider
			}
			p.Tracker.Ping(time.Now(), id, err)
		})
	}
	wg.Wait()
}
