package hedge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
)

var (
	errLeft  = errors.New("the client has disconnected")
	errPanic = attempt.PanicError{Cause: errors.New("a panic")}
)

// answer is an answer in letters: c is content, . is none, e ends it, x is an error of the provider, r is content that a rule refuses, ! is a panic.
type answer struct {
	got string
}

func (a *answer) Feed(_ context.Context, b []byte, _ bool) {
	if a.got += string(b); strings.Contains(a.got, "!") {
		panic("!")
	}
}

func (a *answer) Pass(context.Context) (bool, error) { return strings.Contains(a.got, "e"), nil }

func (a *answer) Failure() *upstream.Failure {
	switch {
	case strings.Contains(a.got, "x"):
		return &upstream.Failure{Kind: upstream.ByStatus, Status: 500}
	case strings.Contains(a.got, "r"):
		return &upstream.Failure{Kind: upstream.NotEncoded, Cause: fault.Newf(fault.ToolRefused, "no")}
	}
	return nil
}

func (*answer) Refusal(int) *chat.ProviderError { return nil }
func (a *answer) HasContent() bool              { return strings.ContainsAny(a.got, "cr") }
func (a *answer) LacksUsage() bool              { return false }
func (a *answer) IsOver() bool                  { return strings.ContainsAny(a.got, "exr") }

// owner is a request whose calls are scripts: letters of an answer, one per second.
type owner struct {
	race    *Race
	refuses bool
	client  *answer // the answer that the client gets
	log     []string
	panics  bool
}

func (o *owner) Begin(context.Context) bool {
	if o.panics {
		panic("in Begin")
	}
	o.log = append(o.log, "begin")
	return !o.refuses
}

func (o *owner) Failed(s Side, _ *upstream.Failure) { o.log = append(o.log, fmt.Sprint("failed ", s)) }

func (o *owner) Won(s Side, cancelled bool) {
	o.log = append(o.log, fmt.Sprintf("won %d %v", s, cancelled))
}

func (o *owner) Panicked(any) error { return errPanic }

// call plays a script as attempt.Writer.Do makes a call.
func (o *owner) call(script string, s Side) Call {
	return func(ctx context.Context) (f *upstream.Failure, err error) {
		defer func() {
			if recover() != nil {
				err = errPanic
			}
		}()
		var sink attempt.Sink
		for i := range script {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(time.Second):
			}
			if sink == nil {
				sink = o.open(s)
			}
			sink.Feed(ctx, []byte(script[i:i+1]), i == len(script)-1)
			if done, err := sink.Pass(ctx); done || err != nil {
				return nil, err
			}
			if f := sink.Failure(); f != nil {
				return f, nil
			}
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
}

func (o *owner) open(s Side) attempt.Sink {
	defer o.race.Lock()()
	if s == First {
		o.client = &answer{}
		return o.race.Sink(o.client, true)
	}
	return o.race.SecondSink(&answer{}, true, func() Answer {
		o.client = &answer{}
		return o.client
	})
}

// TestARace: the second call begins after 2.5 seconds; a script has one letter per second.
func TestARace(t *testing.T) {
	for _, row := range []struct {
		about, first, second string
		client               string // what the client got
		side                 Side
		log                  string
		took                 time.Duration
	}{
		{"the first is in time", ".cce", "ce", ".cce", First, "", 4 * time.Second},
		{"the first is over before", "x", "ce", "x", First, "", time.Second},
		{"the second is faster", "......", ".cce", ".cce", Second, "begin, won 1 true", 6500 * time.Millisecond},
		{"the second sends nothing, the first wins", "....cce", "", "....cce", First, "begin, won 0 true", 7 * time.Second},
		{"the second is slower", "...ccce", "...ce", "...ccce", First, "begin, won 0 true", 7 * time.Second},
		{"the first fails", "...x", "..ce", "..ce", Second, "begin, failed 0, won 1 false", 6500 * time.Millisecond},
		{"the second fails", ".....ce", ".x", ".....ce", First, "begin, failed 1, won 0 false", 7 * time.Second},
		{"both fail, the first first", "...x", "...x", "", Second, "begin, failed 0", 6500 * time.Millisecond},
		{"both fail, the second first", "......x", ".x", "", First, "begin, failed 1", 7 * time.Second},
		{"an answer without content", "......", ".e", ".e", Second, "begin, won 1 true", 4500 * time.Millisecond},
		{"an answer that is refused decides", "...r", "....ce", "...r", First, "begin, won 0 true", 4 * time.Second},
		{"an answer that fails with its first content does not", "......ce", ".cx", ".cx", Second, "begin, won 1 true", 5500 * time.Millisecond},
	} {
		t.Run(row.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, began := &owner{}, time.Now()
				o.race = &Race{After: 2500 * time.Millisecond, Owner: o}
				r := o.race.Run(t.Context(), o.call(row.first, First), o.call(row.second, Second))
				if log := strings.Join(o.log, ", "); log != row.log || r.Side != row.side || r.Begun != (row.log != "") || r.Decided != strings.Contains(row.log, "won") || r.Open {
					t.Errorf("%s: %+v", log, r)
				}
				if row.client != "" && o.client.got != row.client || time.Since(began) != row.took || r.Err != nil || (r.Failure != nil) != (o.client.Failure() != nil) {
					t.Errorf("the client got %q after %s: %+v", o.client.got, time.Since(began), r)
				}
				if (r.Other != nil) != slices.ContainsFunc(o.log, func(s string) bool { return strings.HasPrefix(s, "failed") }) {
					t.Errorf("the other call: %v", r.Other)
				}
			})
		})
	}
}

// TestARaceWithoutASecondCall: its owner refuses it.
func TestARaceWithoutASecondCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{refuses: true}
		o.race = &Race{After: time.Second, Owner: o}
		r := o.race.Run(t.Context(), o.call("...ce", First), o.call("ce", Second))
		if r.Begun || r.Decided || r.Side != First || r.Failure != nil || r.Err != nil || o.client.got != "...ce" || len(o.log) != 1 {
			t.Errorf("%+v: %v", r, o.log)
		}
	})
}

// TestARaceEndsWithItsRequest: both calls end when the client has disconnected, before or after one has won, and in a panic of either.
func TestARaceEndsWithItsRequest(t *testing.T) {
	for _, row := range []struct {
		about, first, second string
		leaves               time.Duration // the client
		panics               bool          // the owner, at the beginning of the second call
		open                 bool
		side                 Side
		want                 error
	}{
		{"both are silent", "......", "......", 4 * time.Second, false, true, First, errLeft},
		{"the first has failed", "...x", "......", 5 * time.Second, false, false, Second, errLeft},
		{"the second has failed", "......", "x", 5 * time.Second, false, false, First, errLeft},
		{"the second has won", "......", "ccccccc", 5 * time.Second, false, false, Second, errLeft},
		{"the first panics", "....!", ".....", time.Minute, false, true, First, errPanic},
		{"the second panics", "......", ".!", time.Minute, false, true, First, errPanic},
		{"the second panics after it has won", "......", "cc!", time.Minute, false, false, Second, errPanic},
		{"the second panics alone", "...x", "...!", time.Minute, false, false, Second, errPanic},
		{"the second panics before it is sent", "......", "", time.Minute, true, true, First, errPanic},
	} {
		t.Run(row.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(row.leaves, func() { cancel(errLeft) })
				o := &owner{panics: row.panics}
				o.race = &Race{After: 2500 * time.Millisecond, Owner: o}
				r := o.race.Run(ctx, o.call(row.first, First), o.call(row.second, Second))
				if !errors.Is(r.Err, row.want) || r.Open != row.open || r.Side != row.side || r.Failure != nil || !r.Begun {
					t.Errorf("%+v: %v", r, o.log)
				}
			})
		})
	}
}

// TestARaceWaitsForItsSecondCallAfterAPanic outside of the first call.
func TestARaceWaitsForItsSecondCallAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{}
		o.race = &Race{After: time.Second, Owner: o}
		ended := false
		defer func() {
			if recover() == nil || !ended {
				t.Error("the panic is gone, or the second call is not over")
			}
		}()
		o.race.Run(t.Context(), func(context.Context) (*upstream.Failure, error) {
			<-time.After(3 * time.Second)
			panic("outside")
		}, func(ctx context.Context) (*upstream.Failure, error) {
			f, err := o.call(".......", Second)(ctx)
			ended = true
			return f, err
		})
	})
}

// TestWithoutARaceASinkIsUnchanged.
func TestWithoutARaceASinkIsUnchanged(t *testing.T) {
	var none *Race
	a := &answer{}
	none.Lock()()
	if none.Sink(a, true) != attempt.Sink(a) {
		t.Error("another sink")
	}
}
