package extproc

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/replay"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// Answers that were not made for this request: stored ones, and those of another request's call that this one waited for (coalesced).

// joinCoalesced finds out whether an equal request is in flight, whose answer this one can wait for.
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

// foundBy is the cache status of a request that a layer answered.
func (x *exchange) foundBy() record.CacheStatus {
	if x.Similarity == 0 {
		return record.CacheHash
	}
	return record.CacheSemantic
}

// cacheEntry is the id of the stored answer that was served, or under which the answer is stored if it can be; "" for neither.
func (x *exchange) cacheEntry() string {
	switch {
	case x.stored != nil:
		return x.stored.Key.ID()
	case x.Cache != nil && x.Cache.Records():
		return x.Cache.ID()
	}
	return ""
}

// leaveCoalesced ends the request's part in a call that others may wait for: if it led the call without an answer, one of them takes over.
func (x *exchange) leaveCoalesced() {
	if x.Cache == nil {
		return
	}
	var err error
	if x.upstream != nil {
		err = x.upstream
	}
	x.Cache.Release(err)
}

// exhausted is the fault of a request that no candidate answered.
func (x *exchange) exhausted(fs []*upstream.Failure) *fault.Fault {
	if x.upstream = attempt.OwnKeyRefused(&x.View, fs); x.upstream == nil {
		x.upstream = upstream.Exhausted(fs)
	}
	if n := len(fs); n > 0 && (fs[n-1].Err == nil || !sameErrors(fs[n-1].Err.Dialect, x.Dialect.Name())) {
		x.upstream.Type = ""
	}
	return x.upstream
}

// sameErrors reports whether two formats have the same error types.
func sameErrors(a, b chat.Dialect) bool {
	family := func(d chat.Dialect) chat.Dialect {
		if d == chat.Responses || d == chat.Completions {
			return chat.OpenAI
		}
		return d
	}
	return family(a) == family(b)
}

// staleFallback is the stored answer that a request gets when every candidate failed; nil if there is none, or the request itself was refused.
func (x *exchange) staleFallback(fs []*upstream.Failure) *cache.Entry {
	if x.Cache == nil {
		return nil
	}
	for _, f := range fs {
		if !f.Retriable() || f.Kind == upstream.NotEncoded {
			return nil
		}
	}
	return x.Cache.StaleFallback()
}

// useStored makes a stored answer the exchange's, and returns the answer that writes it in the client's format.
func (x *exchange) useStored(e *cache.Entry, k record.CacheStatus) *answer {
	x.Replay(e)
	if x.stored, x.trace.Cache = e, k; k == record.CacheSemantic {
		x.trace.Similarity = math.Round(x.Similarity*1000) / 1000
	}
	x.current = &answer{
		x: x, res: e.By, dialect: e.Dialect, stream: x.Request.Stream, enc: newEncoder(&x.View, e.By, e.Dialect), reasoning: x.newPresenter(&e.By, e.Dialect),
	}
	return x.current
}

// replay answers with a stored answer.
func (x *exchange) replay(ctx context.Context, d stream.Client, e *cache.Entry, k record.CacheStatus) error {
	s := x.newDriven(d)
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
	return s.client.Reply(r)
}

// errIncomplete is a stored answer without an end.
var errIncomplete = errors.New("a stored answer has no end")

// storedReply is a stored answer as a JSON body.
func (x *exchange) storedReply(ctx context.Context, a *answer) (stream.Reply, error) {
	x.storedAnswer().Events(func(ev *chat.Event, _ bool) bool {
		a.pass(ctx, ev)
		return !a.over()
	})
	if err := a.incomplete(); err != nil {
		return stream.Reply{}, err
	}
	sum, err := x.settle(ctx, a, record.OK)
	if err != nil {
		return stream.Reply{}, err
	}
	h := sum.headers(x.answerHeaders(a.res))
	return stream.Reply{Status: http.StatusOK, Header: append(h, header.Field{Name: "content-type", Value: header.JSON}), Body: a.end}, nil
}

func (a *answer) incomplete() error {
	switch {
	case a.broken != nil:
		return a.broken
	case !a.ended:
		return errIncomplete
	}
	return nil
}

// settleStored charges nothing but what layers had made of calls, and leaves a record.
func (x *exchange) settleStored(ctx context.Context, outcome string) (*summary, error) {
	e := x.stored
	s := x.newSummary(outcome)
	s.By, s.Usage = e.By, e.Usage // its original usage is shown, and not charged
	s.Savings, s.Saved = x.savedByCache()
	x.Cache.Hit(e, s.Saved)
	total := x.bill.Total()
	if err := s.book(ctx, &total); err != nil {
		return nil, err
	}
	if err := x.bill.Payer().ReadBalance(ctx); err != nil { // the answer is sent whether that can be read or not
		x.gw.Log.Warn("a balance cannot be read", "request", x.ID, "error", err)
	}
	x.keepReasoning(x.current)
	return s, nil
}

// cacheHeaders append the cache status, an answer's age, and the log of the layers.
func (x *exchange) cacheHeaders(h header.List) header.List {
	if x.stored != nil {
		h = append(h, header.Field{Name: "age", Value: strconv.FormatInt(int64(x.Cache.Age(x.stored)/time.Second), 10)})
	}
	if x.trace.Cache != record.CacheUnused && (x.trace.Cache != record.CacheCoalesced || x.stored != nil) { // a request that still waits may have to make a call of its own
		h = append(h, header.Field{Name: cache.Header, Value: string(x.trace.Cache)})
	}
	if x.trace.Cache == record.CacheSemantic {
		h = append(h, header.Field{Name: "x-bardo-similarity", Value: strconv.FormatFloat(x.trace.Similarity, 'f', 3, 64)})
	}
	if did := x.pipelineLog(); did != "" {
		h = append(h, header.Field{Name: "x-bardo-pipeline", Value: did})
	}
	return h
}

// pipelineLog is the log of the layers, in milliseconds and tokens: "l3;dur=0.04, l4;dur=1.20;saved=11800". A layer over its time limit is marked
// late, and one that was skipped for that left.
func (x *exchange) pipelineLog() string {
	if len(x.Log) == 0 {
		return ""
	}
	b := make([]byte, 0, 24*len(x.Log))
	for i := range x.Log {
		e, note := &x.Log[i], x.Log[i].Note
		if e.Later != nil {
			if note = e.Later.Note(); note == "" {
				continue
			}
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(append(b, e.Layer...), ";dur="...)
		b = strconv.AppendFloat(b, float64(e.Took)/float64(time.Millisecond), 'f', 2, 64)
		switch {
		case e.TimedOut:
			b = append(b, ";left"...)
		case e.Late():
			b = append(b, ";late"...)
		}
		if e.Saved > 0 {
			b = strconv.AppendInt(append(b, ";saved="...), e.Saved, 10)
		}
		if note != "" {
			b = append(append(b, ';'), note...)
		}
	}
	return string(b)
}

// follow serves a coalesced request: it waits for the answer of another request's call. A stream that waits long gets heartbeats, which commit it
// to the driven path.
func (x *exchange) follow(ctx context.Context, d stream.Client) error {
	late := time.NewTimer(x.Config.Timeouts.Total)
	defer late.Stop()
	s := x.newDriven(d)
	defer s.beat.Stop()
	beat := s.beat.C
	if !x.Request.Stream { // nothing may come before a JSON body
		beat = nil
	}
	since := time.Now()
	for {
		select {
		case t := <-x.Cache.Outcome():
			x.Waited = time.Since(since)
			return s.afterWait(ctx, t)
		case <-beat:
			if err := s.heartbeat(x.Found[0]); err != nil {
				return err
			}
		case <-late.C:
			return s.fail(fault.New(fault.UpstreamTimeout, "the answer that this request waited for did not come in time", upstream.ErrTotalTimeout))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// afterWait serves a request whose waiting is over: with the answer of the other call, its failure, or a call of its own.
func (s *drivenStream) afterWait(ctx context.Context, t cache.Outcome) error {
	x := s.x
	if t.Entry != nil {
		return s.replay(ctx, t.Entry, record.CacheCoalesced)
	}
	x.trace.Cache = record.CacheMiss
	if t.Err != nil {
		if e := x.Cache.StaleFallback(); e != nil {
			return s.replay(ctx, e, record.CacheStale)
		}
		return s.fail(fault.From(t.Err))
	}
	if err := x.becomeLeader(ctx); err != nil {
		return s.fail(fault.From(err))
	}
	if s.begun || x.driven() {
		return s.run(ctx)
	}
	return x.forwardViaEnvoy(ctx, s.client)
}

// becomeLeader prepares a request that waited for a call of its own.
func (x *exchange) becomeLeader(ctx context.Context) error {
	if err := x.order(); err != nil {
		return err
	}
	return x.reserve(ctx)
}

// storedAnswer is the stored answer as this client shall see it.
func (x *exchange) storedAnswer() *replay.Answer {
	return &replay.Answer{
		Entry: x.stored, Format: cache.Format{Dialect: x.Request.Dialect, Stream: x.Request.Stream}, HideThoughts: x.view().Hides(), Fast: x.fast,
	}
}

// play streams the stored answer.
func (s *drivenStream) play(ctx context.Context, a *answer) (err error) {
	if !s.x.WholeAnswer { // a layer may refuse it: until then nothing is sent
		s.content = true
		if err := s.start(a.res); err != nil {
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
		a.pass(ctx, ev)
		return !a.over()
	})
	if err != nil {
		return err
	}
	if err := a.incomplete(); err != nil {
		return s.fail(fault.From(err))
	}
	if err := s.sendReady(a); err != nil {
		return err
	}
	return s.finish(ctx, a)
}
