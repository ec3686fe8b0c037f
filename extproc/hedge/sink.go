package hedge

import (
	"context"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/upstream"
)

// Answer is a sink that knows when its answer is over.
type Answer interface {
	attempt.Sink
	// IsOver reports whether the answer is complete or has failed.
	IsOver() bool
}

// decides reports whether a call wins by what its answer has so far: content, a complete answer without any, or a refusal by the operator's rules,
// after which no other candidate may answer.
func decides(a Answer) bool {
	if !a.HasContent() && !a.IsOver() {
		return false
	}
	f := a.Failure()
	return f == nil || reading.RefusalOf(f) != nil
}

// Sink returns the sink of the first call, for the answer a. ok: the answer is not an error of the provider.
func (r *Race) Sink(a Answer, ok bool) attempt.Sink {
	if r == nil {
		return a
	}
	return &sink{r: r, side: First, a: a, ok: ok}
}

// SecondSink returns the sink of the second call. Its answer is passed to probe, which has no effects outside itself, until it has content; if that wins, it is passed to
// the answer that adopt returns, from its beginning. ok: the answer is not an error of the provider.
func (r *Race) SecondSink(probe Answer, ok bool, adopt func() Answer) attempt.Sink {
	return &sink{r: r, side: Second, a: probe, ok: ok, adopt: adopt}
}

// sink is the sink of one call. It does nothing more once the other call has won.
type sink struct {
	r    *Race
	side Side
	a    Answer
	ok   bool

	adopt func() Answer // of the second call, before it wins; nil for any other
	taken []byte        // the answer that was passed to the probe
}

// lost reports whether the other call has won. The caller holds the lock.
func (s *sink) lost() bool { return s.r.won == s.side.other() }

// Feed implements attempt.Sink.
func (s *sink) Feed(ctx context.Context, b []byte, end bool) {
	if s.feed(ctx, b, end) {
		<-s.r.calls[First].done // from here on nobody else uses the request
		s.take(ctx, end)
	}
}

// feed is Feed up to the point at which the second call wins.
func (s *sink) feed(ctx context.Context, b []byte, end bool) (won bool) {
	defer s.r.Lock()()
	if s.lost() {
		return false
	}
	if s.a.Feed(ctx, b, end); s.adopt != nil {
		s.taken = append(s.taken, b...)
	}
	if s.r.won != neither || !s.ok || !decides(s.a) {
		return false
	}
	if s.r.win(s.side); s.side == First {
		s.r.notify()
		return false
	}
	return true
}

// take passes the answer of the second call, which has won, to the answer that the client gets.
func (s *sink) take(ctx context.Context, end bool) {
	defer s.r.Lock()()
	s.r.notify()
	s.a = s.adopt()
	s.adopt = nil
	s.a.Feed(ctx, s.taken, end)
	s.taken = nil
}

// Pass implements attempt.Sink.
func (s *sink) Pass(ctx context.Context) (done bool, err error) {
	defer s.r.Lock()()
	if s.lost() {
		return false, errLost
	}
	return s.a.Pass(ctx)
}

// Failure implements attempt.Sink.
func (s *sink) Failure() *upstream.Failure {
	defer s.r.Lock()()
	if s.lost() {
		return nil
	}
	return s.a.Failure()
}

// Refusal implements attempt.Sink.
func (s *sink) Refusal(status int) *chat.ProviderError {
	defer s.r.Lock()()
	return s.a.Refusal(status)
}

// HasContent implements attempt.Sink.
func (s *sink) HasContent() bool {
	defer s.r.Lock()()
	return !s.lost() && s.a.HasContent()
}

// LacksUsage implements attempt.Sink.
func (s *sink) LacksUsage() bool {
	defer s.r.Lock()()
	return !s.lost() && s.a.LacksUsage()
}
