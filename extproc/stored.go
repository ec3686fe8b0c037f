package extproc

import (
	"context"
	"math"
	"net/http"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/replay"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// Answers that were not made for this request: stored ones, and those of another request's call that this one waited for (coalesced).

// cacheStatus returns the cache status of a request that a layer answered.
func (x *exchange) cacheStatus() record.CacheStatus {
	if x.Similarity == 0 {
		return record.CacheHash
	}
	return record.CacheSemantic
}

// staleFallback returns the stored answer for a request whose candidates all failed; nil if there is none, or the request itself was refused.
func (x *exchange) staleFallback(ctx context.Context, fs []*upstream.Failure) *cache.Entry {
	if x.Cache == nil {
		return nil
	}
	for _, f := range fs {
		if !f.Retriable() || f.Kind == upstream.NotEncoded {
			return nil
		}
	}
	return x.Cache.StaleFallback(ctx)
}

// useStored makes a stored answer the exchange's, and returns the answer that writes it in the client's format.
func (x *exchange) useStored(e *cache.Entry, k record.CacheStatus) *reading.Answer {
	x.Replay(e)
	if x.report.Stored, x.trace.Cache = e, k; k == record.CacheSemantic {
		x.trace.Similarity = math.Round(x.Similarity*1000) / 1000
	}
	x.outcome.Current = reading.NewStored(&x.report, e)
	return x.outcome.Current
}

// storedReply returns a stored answer as a JSON body.
func (x *exchange) storedReply(ctx context.Context, a *reading.Answer) (stream.Reply, error) {
	x.storedAnswer().Events(func(ev *chat.Event, _ bool) bool {
		a.Show(ctx, ev)
		return !a.IsOver()
	})
	if err := a.Incomplete(); err != nil {
		return stream.Reply{}, err
	}
	sum, err := x.outcome.Settle(ctx, a, record.OK)
	if err != nil {
		return stream.Reply{}, err
	}
	h := sum.Headers(x.answerHeaders(a.By))
	return stream.Reply{Status: http.StatusOK, Header: append(h, header.Field{Name: "content-type", Value: header.JSON}), Body: a.End}, nil
}

// storedAnswer returns the stored answer in the form that this client gets.
func (x *exchange) storedAnswer() *replay.Answer {
	return &replay.Answer{
		Entry: x.report.Stored, Format: cache.Format{Dialect: x.Request.Dialect, Stream: x.Request.Stream}, HideThoughts: x.report.Reading().Hides(), Fast: x.fast,
	}
}

// joinCoalesced looks for an equal request in flight, whose answer this one can wait for.
func (x *exchange) joinCoalesced() {
	if x.Cache == nil || x.Answer != nil {
		return
	}
	x.trace.Cache = record.CacheMiss
	e, waits := x.Cache.Join()
	if x.Answer = e; waits {
		x.trace.Cache = record.CacheCoalesced
	}
}

// leaveCoalesced ends the request's part in a coalesced call: if it was the leader and has no answer, a waiter takes over.
func (x *exchange) leaveCoalesced() {
	if x.Cache == nil {
		return
	}
	var err error
	if x.outcome.Unanswered != nil {
		err = x.outcome.Unanswered
	}
	x.Cache.Release(err)
}

// replay answers with a stored answer.
func (x *exchange) replay(ctx context.Context, e *cache.Entry, k record.CacheStatus) error {
	s := x.newDriven()
	defer s.beat.Stop()
	return s.replay(ctx, e, k)
}

// replay answers with a stored answer; the head of a stream may have been sent already.
func (s *drivenStream) replay(ctx context.Context, e *cache.Entry, k record.CacheStatus) error {
	a := s.x.useStored(e, k)
	if s.x.Request.Stream {
		return s.play(ctx, a)
	}
	r, err := s.x.storedReply(ctx, a)
	if err != nil {
		return s.fail(fault.From(err))
	}
	return s.x.client.Reply(r)
}

// play streams the stored answer.
func (s *drivenStream) play(ctx context.Context, a *reading.Answer) (err error) {
	if !s.x.WholeAnswer { // a layer may refuse it: until then nothing is sent
		s.content = true
		if err := s.start(a.By); err != nil {
			return err
		}
	}
	stored := s.x.storedAnswer()
	p := stored.NewPacer()
	defer p.Stop()
	stored.Events(func(ev *chat.Event, step bool) bool {
		if step && p.Due() {
			if err = s.flush(a); err == nil {
				err = p.Wait(ctx)
			}
			if err != nil {
				return false
			}
		}
		a.Show(ctx, ev)
		return !a.IsOver()
	})
	if err != nil {
		return err
	}
	if err := a.Incomplete(); err != nil {
		return s.fail(fault.From(err))
	}
	if err := s.sendReady(a); err != nil {
		return err
	}
	return s.finish(ctx, a)
}
