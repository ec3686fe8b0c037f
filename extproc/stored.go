package extproc

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
)

// Answers that are not made for this request: stored ones, and those that another request's call brought.

// known is what the cache knew of a request, in the words of X-Bardo-Cache.
type known string

const (
	knownNothing   known = "" // the request has nothing to do with the cache
	knownMiss      known = "miss"
	knownHash      known = "hash"
	knownStale     known = "stale"     // no provider answered
	knownCoalesced known = "coalesced" // another request's call answers it
)

// orMiss is what a record says.
func (k known) orMiss() string {
	if k == knownNothing {
		k = knownMiss
	}
	return string(k)
}

// measure is what the metrics count; ok is false for what has nothing to do with the cache.
func (k known) measure() (c telemetry.Cache, ok bool) {
	switch k {
	case knownNothing:
		return 0, false
	case knownMiss:
		return telemetry.CacheMiss, true
	case knownHash:
		return telemetry.CacheHash, true
	case knownStale:
		return telemetry.CacheStale, true
	case knownCoalesced:
		return telemetry.CacheCoalesced, true
	}
	return 0, false
}

// join finds out whether others are asking the same at this moment.
func (x *exchange) join() {
	if x.Cache == nil || x.Answer != nil {
		return
	}
	x.known = knownMiss
	e, waits := x.Cache.Join()
	if x.Answer = e; waits {
		x.known = knownCoalesced
	}
}

// leave ends the exchange's part in a call that others may wait for.
func (x *exchange) leave() {
	if x.Cache == nil {
		return
	}
	var err error
	if x.upstream != nil {
		err = x.upstream
	}
	x.Cache.Leave(err)
}

// exhausted is what the client is told when no candidate answered.
func (x *exchange) exhausted(fs []*upstream.Failure) *fault.Fault {
	if x.upstream = x.ownKeyRefused(fs); x.upstream == nil {
		x.upstream = upstream.Exhausted(fs)
	}
	if n := len(fs); n > 0 && (fs[n-1].Err == nil || !sameErrors(fs[n-1].Err.Dialect, x.dialect.Name())) {
		x.upstream.Type = ""
	}
	return x.upstream
}

// sameErrors reports whether two formats have the same words for errors.
func sameErrors(a, b chat.Dialect) bool {
	family := func(d chat.Dialect) chat.Dialect {
		if d == chat.Responses || d == chat.Completions {
			return chat.OpenAI
		}
		return d
	}
	return family(a) == family(b)
}

// standIn is the stored answer that a request gets when every candidate failed; nil if there is none. What the caller got wrong
// itself is told to it.
func (x *exchange) standIn(fs []*upstream.Failure) *cache.Entry {
	if x.Cache == nil {
		return nil
	}
	for _, f := range fs {
		if !f.Retriable() || f.Kind == upstream.NotEncoded {
			return nil
		}
	}
	return x.Cache.StandIn()
}

// useStored makes a stored answer the exchange's own, and returns what writes it in the client's form.
func (x *exchange) useStored(e *cache.Entry, k known) *answer {
	x.Replay(e)
	x.stored, x.known = e, k
	x.current = &answer{
		x: x, res: e.By, spoken: e.Spoken, stream: x.Request.Stream, enc: x.newEncoder(e.By, e.Spoken), shown: x.newShown(&e.By, e.Spoken),
	}
	return x.current
}

// replay answers from the store.
func (x *exchange) replay(ctx context.Context, d stream.Client, e *cache.Entry, k known) error {
	s := x.newDriven(d)
	defer s.beat.Stop()
	return s.replay(ctx, e, k)
}

// replay answers from the store; the head of a stream may be out already.
func (s *drivenStream) replay(ctx context.Context, e *cache.Entry, k known) error {
	a := s.x.useStored(e, k)
	if s.x.Request.Stream {
		return s.play(ctx, a)
	}
	r, err := s.x.wholeStored(ctx, a)
	if err != nil {
		return s.fail(fault.From(err))
	}
	return s.client.Reply(r)
}

// errIncomplete is a stored answer without an end.
var errIncomplete = errors.New("a stored answer has no end")

// wholeStored is a stored answer as a JSON body.
func (x *exchange) wholeStored(ctx context.Context, a *answer) (stream.Reply, error) {
	x.storedEvents(func(ev *chat.Event, _ bool) bool {
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
	h := append(x.answerHeaders(a.res), sum.headers()...)
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

// settleStored charges nothing, and leaves a record.
func (x *exchange) settleStored(ctx context.Context, outcome string) (*summary, error) {
	e := x.stored
	s := &summary{x: x, to: e.By, outcome: outcome, Total: meter.Total{Usage: e.Usage}, saved: e.Cost.Charge(x.rt.spread(x.Principal.Tier))}
	x.settled = s
	x.Cache.Hit(e, s.saved)
	if err := s.book(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	s.readBalance(ctx)
	x.keepReasoning(x.current)
	return s, nil
}

// readBalance tells a prepaid key what it has. A stored answer goes out whether that can be read or not.
func (s *summary) readBalance(ctx context.Context) {
	if !s.x.Principal.Prepaid {
		return
	}
	b, err := s.x.gw.Ledger.Balance(ctx, s.x.Principal.Account)
	if err != nil {
		s.x.gw.Log.Warn("a balance cannot be read", "request", s.x.ID, "error", err)
		return
	}
	s.prepaid, s.balance = true, b.Amount
}

// cacheHeaders say what the cache knew, and what the layers did.
func (x *exchange) cacheHeaders(h header.List) header.List {
	if x.stored != nil {
		h = append(h, header.Field{Name: "age", Value: strconv.FormatInt(int64(x.Cache.Age(x.stored)/time.Second), 10)})
	}
	if x.known != knownNothing && (x.known != knownCoalesced || x.stored != nil) { // who still waits may yet have to ask
		h = append(h, header.Field{Name: cache.Header, Value: string(x.known)})
	}
	if did := x.pipelineLog(); did != "" {
		h = append(h, header.Field{Name: "x-bardo-pipeline", Value: did})
	}
	return h
}

// pipelineLog is what the layers did, in milliseconds and tokens: "l3;dur=0.04, l4;dur=1.20;saved=11800". A layer that took longer than it
// may is late, and one that gave up for that is left.
func (x *exchange) pipelineLog() string {
	if len(x.Log) == 0 {
		return ""
	}
	b := make([]byte, 0, 24*len(x.Log))
	for i := range x.Log {
		e := &x.Log[i]
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(append(b, e.Layer...), ";dur="...)
		b = strconv.AppendFloat(b, float64(e.Took)/float64(time.Millisecond), 'f', 2, 64)
		switch {
		case e.Left:
			b = append(b, ";left"...)
		case e.Late():
			b = append(b, ";late"...)
		}
		if e.Saved > 0 {
			b = strconv.AppendInt(append(b, ";saved="...), e.Saved, 10)
		}
	}
	return string(b)
}
