package deferred

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/internal/seal"
)

// Limits of concurrent work.
const (
	maxDirect   = 4   // concurrent ordinary calls
	maxPerRound = 100 // requests per round
)

// Times of the worker.
const (
	longestTick    = time.Second
	shortestTick   = 20 * time.Millisecond
	firstPause     = 2 * time.Second // after a failure; doubled for each further one
	longestPause   = 5 * time.Minute
	reconcileEvery = time.Minute
	rememberGone   = 7 * 24 * time.Hour // how long a deleted answer is reported with 410 rather than 404
)

// Run works on requests until ctx is done. Interrupted work is begun again by the next Run.
func (s *Service) Run(ctx context.Context) error {
	var l life
	defer l.calls.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-tick.C:
		}
		next := longestTick
		switch st := s.store.Load(); {
		case st == nil:
		case !s.Runner.Draining():
			w := &worker{Service: s, life: &l, st: st, o: s.options.Load()}
			w.round(ctx)
			l.begun = true
			next = max(min(w.o.Poll/4, longestTick), shortestTick)
		case l.begun:
			stop() // interrupted work is repeated after the next start
		}
		tick.Reset(next)
	}
}

// life is the state of a Run that outlasts a round.
type life struct {
	begun      bool
	calls      sync.WaitGroup
	inFlight   chan struct{}
	reconciled time.Time
}

// worker is one round of a Run, and the calls that the round begins, which may outlast it. Its store and options do not change.
type worker struct {
	*Service
	*life

	st *Store
	o  *Options
}

// round does everything that is due.
func (w *worker) round(ctx context.Context) {
	if w.inFlight == nil {
		w.inFlight = make(chan struct{}, maxDirect)
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"reconcile with the ledger", w.reconcile},
		{"end what is late", w.expire},
		{"plan", w.plan},
		{"leave batches", w.expireBatches},
		{"look at batches", w.stepBatches},
		{"use results", w.useResults},
		{"call directly", w.callDirectly},
		{"delete what was kept long enough", w.clean},
	} {
		if ctx.Err() != nil {
			return
		}
		if err := guard.Err(func() error { return step.do(ctx) })(); err != nil && ctx.Err() == nil {
			w.Log.Error("deferred requests: a step failed, and is repeated", "step", step.what, "error", err)
		}
	}
}

// pause returns the delay after a number of failures.
func pause(tries int) time.Duration { return min(firstPause<<min(tries, 10), longestPause) }

// reconcile calls Service.reconcile once a minute.
func (w *worker) reconcile(ctx context.Context) error {
	if w.Now().Sub(w.reconciled) < reconcileEvery {
		return nil
	}
	if err := w.Service.reconcile(ctx, w.st, false); err != nil {
		return err
	}
	w.reconciled = w.Now()
	return nil
}

// reconcile matches the ledger's standing reservations with the requests: it restores missing ones and releases those of requests that are over. A
// killed gateway may leave either behind. first: no request is being accepted, so every reservation without a request is released.
func (s *Service) reconcile(ctx context.Context, st *Store, first bool) error {
	standing, err := s.Books.RequestsWithStandingHold(ctx, st.Owner())
	if err != nil {
		return err
	}
	ended, err := readAll(ctx, st, scanText, `SELECT id FROM request WHERE state IN (?, ?)`, over, gone)
	if err != nil {
		return err
	}
	open, err := st.open(ctx)
	if err != nil {
		return err
	}
	for i := range open {
		r := &open[i]
		if at := slices.Index(standing, r.ID); at >= 0 {
			standing = slices.Delete(standing, at, at+1)
		} else if r.Held > 0 {
			s.restore(ctx, st, r)
		}
	}
	for _, id := range standing {
		if first || slices.Contains(ended, id) {
			s.release(ctx, id)
		}
	}
	return nil
}

// restore renews the reservation of a request whose charge was not made.
func (s *Service) restore(ctx context.Context, st *Store, r *Request) {
	charged, err := s.Books.Charged(ctx, r.Account, r.ID)
	if err == nil && !charged {
		err = s.Books.ReserveStandingHold(ctx, r.Account, r.ID, r.Held, st.Owner())
	}
	if err != nil {
		s.Log.Warn("the money of a deferred request is not held at the moment", "request", r.ID, "error", err)
	}
}

// expire ends requests whose deadline has passed.
func (w *worker) expire(ctx context.Context) error {
	late, err := w.st.overdue(ctx)
	for i := range late {
		r := &late[i]
		if own, ok := w.claim(ctx, w.st, r); ok {
			err = errors.Join(err, w.end(own, r, &Served{Reply: w.Runner.Expired(r)}, "expired"))
			w.drop(r)
		}
	}
	return err
}

// end stores a request's answer, releases its reservation, and emits the event.
func (w *worker) end(ctx context.Context, r *Request, a *Served, state string) error {
	ctx = context.WithoutCancel(ctx)
	if err := w.st.finish(ctx, r.ID, &a.Reply); err != nil {
		return err
	}
	w.release(ctx, r.ID)
	now, err := w.st.find(ctx, r.Account, r.ID)
	if err == nil && now.Cancelled {
		return w.st.erase(ctx, r.ID)
	}
	w.emit(r, state, a.Reply.Status)
	return err
}

// plan decides which requests become part of a batch.
func (w *worker) plan(ctx context.Context) error {
	all, err := w.st.inState(ctx, queued, maxPerRound)
	for i := range all {
		r := &all[i]
		if own, ok := w.claim(ctx, w.st, r); ok {
			err = errors.Join(err, w.planOne(own, r))
			w.drop(r)
		}
	}
	return err
}

func (w *worker) planOne(ctx context.Context, r *Request) error {
	if !w.o.Batches || r.Secret || w.waitsUntil(r).Sub(w.Now()) <= w.o.Gather {
		return w.setDirect(ctx, r)
	}
	if err := w.st.content(ctx, r); err != nil {
		return errors.Join(err, w.setDirect(ctx, r)) // setDirect's call fails, and reports why
	}
	p, err := w.Runner.Plan(ctx, r)
	switch {
	case errors.Is(context.Cause(ctx), ErrCancelled):
		return w.setDirect(ctx, r) // it ends there
	case err != nil || p == nil:
		return w.setDirect(ctx, r) // setDirect's call fails, and reports why
	case ctx.Err() != nil:
		return ctx.Err()
	}
	switch err := w.st.group(ctx, r, p); {
	case errors.Is(err, ErrCancelled) || errors.Is(context.Cause(ctx), ErrCancelled):
		return w.setDirect(ctx, r)
	case err != nil:
		return err
	}
	w.emit(r, "batched", 0)
	return nil
}

func (w *worker) setDirect(ctx context.Context, r *Request) error {
	return w.st.move(context.WithoutCancel(ctx), r, direct, w.Now(), 0)
}

// waitsUntil returns when a request stops waiting for a batch or an idle gateway.
func (w *worker) waitsUntil(r *Request) time.Time {
	return r.Deadline.Add(-min(w.o.Fallback, r.Deadline.Sub(r.At)/2))
}

// useResults answers requests from their batches' results.
func (w *worker) useResults(ctx context.Context) error {
	all, err := w.st.inState(ctx, fetched, maxPerRound)
	for i := range all {
		r := &all[i]
		if own, ok := w.claim(ctx, w.st, r); ok {
			err = errors.Join(err, w.answer(own, r))
			w.drop(r)
		}
	}
	return err
}

// callDirectly answers requests by ordinary calls, while the gateway is idle, or when it is time.
func (w *worker) callDirectly(ctx context.Context) error {
	all, err := w.st.inState(ctx, direct, maxPerRound)
	for i := range all {
		r := &all[i]
		if w.Now().Before(w.waitsUntil(r)) && !w.Runner.Idle() && !r.Cancelled {
			continue
		}
		select {
		case w.inFlight <- struct{}{}:
		default:
			return err
		}
		own, ok := w.claim(ctx, w.st, r)
		if !ok {
			<-w.inFlight
			continue
		}
		w.calls.Add(1)
		guard.Go(func() {
			defer w.calls.Done()
			defer func() { <-w.inFlight }()
			defer w.drop(r)
			if err := w.answer(own, r); err != nil && ctx.Err() == nil {
				w.Log.Error("a deferred request was not answered yet", "request", r.ID, "error", err)
			}
		})
	}
	return err
}

// answer has a request answered, and stores the answer. After a temporary failure it is tried again later.
func (w *worker) answer(ctx context.Context, r *Request) error {
	calls, err := w.st.calls(ctx, r.ID)
	if err == nil {
		err = w.st.content(ctx, r)
	}
	switch {
	case errors.Is(err, seal.ErrKey): // the operator has changed deferred.key
		w.Log.Error("a deferred request cannot be read any more", "request", r.ID, "error", err)
		return w.end(ctx, r, &Served{Reply: w.Runner.Expired(r)}, "failed")
	case err != nil:
		return err
	}
	if r.Cancelled && len(calls) == 0 { // no work had begun
		return w.end(ctx, r, &Served{}, "cancelled")
	}
	ctx, cancel := context.WithDeadline(ctx, r.Deadline)
	defer cancel()
	keep := func(c *Call) error { return w.st.keepCall(context.WithoutCancel(ctx), r.ID, c) }
	again := w.Now().Add(pause(r.tries))
	a := w.Runner.Answer(ctx, r, &Run{Calls: calls, Keep: keep, Last: r.Cancelled || !again.Before(r.Deadline), Cancelled: r.Cancelled})
	switch {
	case errors.Is(context.Cause(ctx), ErrCancelled): // it is booked
		return w.end(ctx, r, &a, "cancelled")
	case ctx.Err() != nil && !a.Booked:
		return nil // the next round, or the next start, continues
	case a.Again:
		return w.st.move(context.WithoutCancel(ctx), r, r.state, again, r.tries+1)
	}
	state := "answered"
	if a.Reply.Status/100 != 2 {
		state = "failed"
	}
	return w.end(ctx, r, &a, state)
}

// clean deletes answers after their retention, and later the memory of their requests.
func (w *worker) clean(ctx context.Context) error {
	now := w.Now()
	n, err := w.st.exec(ctx, `UPDATE request SET state = ?, size = 0, answer = NULL WHERE state = ? AND (done <= ? OR delivered <= ?)`,
		gone, over, now.Add(-w.o.Keep).UnixMicro(), now.Add(-w.o.KeepDelivered).UnixMicro())
	if err != nil {
		return err
	}
	if n > 0 {
		err = w.st.truncate(ctx)
	}
	_, err2 := w.st.exec(ctx, `DELETE FROM request WHERE state = ? AND done <= ?`, gone, now.Add(-rememberGone).UnixMicro())
	return errors.Join(err, err2)
}
