package extproc

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
)

// follow waits for the answer of another request's call. A stream that waits long gets heartbeats, which commit it to the driven path.
func (x *exchange) follow(ctx context.Context, d stream.Client) error {
	late := time.NewTimer(x.rt.Timeouts.Total)
	defer late.Stop()
	s := x.newDriven(d)
	defer s.beat.Stop()
	beat := s.beat.C
	if !x.Request.Stream { // nothing may come before a body in one piece
		beat = nil
	}
	since := time.Now()
	for {
		select {
		case t := <-x.Cache.Turn():
			x.waited = time.Since(since)
			return s.turn(ctx, t)
		case <-beat:
			if err := s.heartbeat(x.Found[0]); err != nil {
				return err
			}
		case <-late.C:
			return s.fail(fault.New(fault.UpstreamTimeout, "the answer that this request waited for did not come in time", errTotal))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// totalTime is what is left of the request's time: who waited for others has less.
func (x *exchange) totalTime() time.Duration {
	return max(x.rt.Timeouts.Total-x.waited, time.Second)
}

// turn does what waiting came to.
func (s *drivenStream) turn(ctx context.Context, t cache.Turn) error {
	x := s.x
	if t.Entry != nil {
		return s.replay(ctx, t.Entry, knownCoalesced)
	}
	x.known = knownMiss
	if t.Err != nil {
		if e := x.Cache.StandIn(); e != nil {
			return s.replay(ctx, e, knownStale)
		}
		return s.fail(fault.From(t.Err))
	}
	if err := x.lead(ctx); err != nil {
		return s.fail(fault.From(err))
	}
	if s.begun || x.driven() {
		return s.run(ctx)
	}
	return x.carry(ctx, s.client)
}

// lead prepares a request that waited to ask by itself.
func (x *exchange) lead(ctx context.Context) error {
	if err := x.order(); err != nil {
		return err
	}
	return x.reserve(ctx)
}
