// Package hedge is about hedged requests: if a request's first candidate gives no content for a while, another candidate is called beside it, and the
// first of the two that gives content answers. A Race runs the two calls; a Share bounds how many requests have two. What a call is, what it costs and
// what is recorded of it is the Owner's.
package hedge

import (
	"context"
	"errors"
	"sync"
	"time"

	"bardo.money/gateway/extproc/upstream"
)

// Side is one of the two calls of a race.
type Side uint8

// The calls.
const (
	First Side = iota
	Second
	neither
)

func (s Side) other() Side { return Second - s }

// errLost is the cause by which the call ends whose candidate was slower.
var errLost = errors.New("another candidate gave content first")

// Owner is the request behind a race. The race calls one method at a time, and none while a sink of one of the calls is in use.
type Owner interface {
	// Begin reports whether the second call is sent now: the first one has given no content for the time of the race. It prepares the second call.
	Begin(ctx context.Context) bool
	// Failed is called when one call has failed while the other goes on, which is the request's only call from then on.
	Failed(s Side, f *upstream.Failure)
	// Won is called when one of two calls has given content, before the content is used. cancelled: the other call is ended for that; otherwise it has
	// failed.
	Won(s Side, cancelled bool)
	// Panicked logs a panic in the second call; the error is the request's.
	Panicked(value any) error
}

// Call makes one of the calls, and returns what attempt.Writer.Do returns. It passes the answer to a sink of the race.
type Call func(ctx context.Context) (*upstream.Failure, error)

// Race makes the first call of a request, and after a while the second. The state of the request that both calls use is guarded by Lock. Of a nil Race,
// which is a request without a second call, Lock and Sink change nothing.
type Race struct {
	After time.Duration // from the first call to the second
	Owner Owner

	mu    sync.Mutex
	begun bool // the second call was sent
	won   Side
	last  Side // the call that ended last
	calls [2]state
}

// state is one call.
type state struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it has ended
	ended  bool
	noted  bool // the owner knows of its failure
	f      *upstream.Failure
	err    error
}

// Result is how a race ended.
type Result struct {
	Begun   bool              // there was a second call
	Decided bool              // one of two calls gave content
	Side    Side              // the call that the request has its result of: the one that gave content, else the one that failed last
	Failure *upstream.Failure // of that call
	Err     error             // of that call
	Other   *upstream.Failure // of the other call; nil if there was none, or it did not fail
	Open    bool              // the second call ended with the request, and the first one did, too
}

// Run makes the calls, and waits for the end of both.
func (r *Race) Run(ctx context.Context, first, second Call) Result {
	one, cancelFirst := context.WithCancelCause(ctx)
	two, cancelSecond := context.WithCancelCause(ctx)
	r.calls = [2]state{{cancel: cancelFirst, done: make(chan struct{})}, {cancel: cancelSecond, done: make(chan struct{})}}
	r.won = neither
	timer := time.AfterFunc(r.After, func() { r.runSecond(two, second) })
	ended := sync.OnceFunc(func() { close(r.calls[First].done) })
	wait := sync.OnceFunc(func() {
		if !timer.Stop() {
			<-r.calls[Second].done
		}
	})
	defer wait() // and after a panic in the first call
	defer cancelSecond(nil)
	defer cancelFirst(nil)
	defer ended()
	f, err := first(one)
	r.end(First, f, err)
	ended()
	wait()
	return r.result()
}

// runSecond makes the second call, if there is to be one.
func (r *Race) runSecond(ctx context.Context, call Call) {
	defer close(r.calls[Second].done)
	defer func() {
		if v := recover(); v != nil {
			unlock := r.Lock()
			r.begun = true
			unlock()
			r.end(Second, nil, r.Owner.Panicked(v))
		}
	}()
	if r.begin(ctx) {
		f, err := call(ctx)
		r.end(Second, f, err)
	}
}

// begin asks the owner for the second call, unless the first one has ended or given content.
func (r *Race) begin(ctx context.Context) bool {
	defer r.Lock()()
	if r.won == neither && !r.calls[First].ended {
		r.begun = r.Owner.Begin(ctx)
	}
	return r.begun
}

// end records the end of a call. A call that ended with its request, or in a panic, ends the other.
func (r *Race) end(s Side, f *upstream.Failure, err error) {
	defer r.Lock()()
	c, other := &r.calls[s], &r.calls[s.other()]
	c.ended, c.f, c.err, r.last = true, f, err, s
	switch {
	case r.won != neither || !r.begun:
	case f == nil:
		other.cancel(err)
	case !other.ended:
		r.note(s)
	}
}

// note notifies the owner of a failure, once.
func (r *Race) note(s Side) {
	if c := &r.calls[s]; c.f != nil && !c.noted {
		c.noted = true
		r.Owner.Failed(s, c.f)
	}
}

// win makes a call the winner, and cancels the other.
func (r *Race) win(s Side) {
	r.won = s
	if r.begun {
		r.calls[s.other()].cancel(errLost)
	}
}

// notify notifies the owner of the winner.
func (r *Race) notify() {
	if !r.begun {
		return
	}
	other := r.won.other()
	r.note(other)
	r.Owner.Won(r.won, r.calls[other].f == nil)
}

func (r *Race) result() Result {
	defer r.Lock()()
	s := r.won
	if s == neither {
		if s = First; r.begun && r.calls[First].f != nil {
			s = r.last
		}
	}
	c, other := &r.calls[s], &r.calls[s.other()]
	return Result{
		Begun: r.begun, Decided: r.begun && r.won != neither, Side: s, Failure: c.f, Err: c.err, Other: other.f,
		Open: r.begun && r.won == neither && r.calls[First].f == nil && r.calls[Second].f == nil,
	}
}

// Lock locks the state that the calls share, until the returned function is called.
func (r *Race) Lock() (unlock func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	return r.mu.Unlock
}

// Leads returns the call that heartbeats are sent for: the winner, else the first. Call it under Lock.
func (r *Race) Leads() Side {
	if r.won == Second {
		return Second
	}
	return First
}
