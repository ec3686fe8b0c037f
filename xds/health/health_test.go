package health

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/policy"
)

var (
	start      = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	configured = []policy.ProviderID{"a", "b", "c"}
	errPing    = errors.New("no sign of life")
)

func tracker() *Tracker { return NewTracker(Options{}, configured...) }

func (t *Tracker) many(now time.Time, p policy.ProviderID, k Kind, n int) {
	for range n {
		t.Report(now, Result{Provider: p, Kind: k})
	}
}

func wantOrder(t *testing.T, tr *Tracker, now time.Time, want ...policy.ProviderID) {
	t.Helper()
	if got := tr.Order(now, configured); !slices.Equal(got, want) {
		t.Errorf("at %v the order is %v, want %v", now.Sub(start), got, want)
	}
}

var lastPlaceCases = []struct {
	name    string
	happens func(*Tracker)
	state   State
	last    bool
}{
	{"nothing", func(*Tracker) {}, Unknown, false},
	{"success", func(tr *Tracker) { tr.many(start, "a", OK, 1) }, Healthy, false},
	{"four failures in a row", func(tr *Tracker) { tr.many(start, "a", Failure, 4) }, Healthy, false},
	{"five failures in a row", func(tr *Tracker) { tr.many(start, "a", Failure, 5) }, Down, true},
	{"a success between failures", func(tr *Tracker) {
		tr.many(start, "a", Failure, 4)
		tr.many(start, "a", OK, 1)
		tr.many(start, "a", Failure, 4)
	}, Healthy, false},
	{"two failures of thirty-eight", func(tr *Tracker) {
		tr.many(start, "a", OK, 36)
		tr.many(start, "a", Failure, 2)
	}, Down, true},
	{"one failure of twenty is not above 5 %", func(tr *Tracker) {
		tr.many(start, "a", OK, 19)
		tr.many(start, "a", Failure, 1)
	}, Healthy, false},
	{"a high rate of few requests", func(tr *Tracker) {
		tr.many(start, "a", OK, 15)
		tr.many(start, "a", Failure, 4)
	}, Healthy, false},
	{"failures that are long past", func(tr *Tracker) {
		tr.many(start.Add(-6*time.Minute), "a", Failure, 4)
		tr.many(start, "a", OK, 20)
		tr.many(start, "a", Failure, 1)
	}, Healthy, false},
	{"two failed pings", func(tr *Tracker) {
		for range 2 {
			tr.Ping(start, "a", errPing)
		}
	}, Healthy, false},
	{"three failed pings", func(tr *Tracker) {
		for range 3 {
			tr.Ping(start, "a", errPing)
		}
	}, Down, true},
	{"a good ping between", func(tr *Tracker) {
		for _, err := range []error{errPing, errPing, nil, errPing, errPing} {
			tr.Ping(start, "a", err)
		}
	}, Healthy, false},
	{"K-53: any number of 429s cools down and is not broken", func(tr *Tracker) { tr.many(start, "a", RateLimited, 100) }, Degraded, true},
	{"K-54: mistakes of callers, and paths it has not", func(tr *Tracker) { tr.many(start, "a", Ignored, 100) }, Healthy, false},
	{"a refused credential", func(tr *Tracker) { tr.many(start, "a", Refused, 1) }, CredentialRefused, true},
	{"a refused credential, taken again", func(tr *Tracker) {
		tr.many(start, "a", Refused, 3)
		tr.many(start, "a", OK, 1)
	}, Healthy, false},
	{"a ping with a refused credential", func(tr *Tracker) { tr.Ping(start, "a", refusedPing(401)) }, CredentialRefused, true},
	{"a ping that says that it is taken again", func(tr *Tracker) {
		tr.many(start, "a", Refused, 1)
		tr.Ping(start, "a", refusedPing(401))
		tr.Ping(start, "a", nil)
	}, Healthy, false},
	{"a list of models that anybody may read", func(tr *Tracker) {
		tr.many(start, "a", Refused, 1)
		tr.Ping(start, "a", nil)
	}, CredentialRefused, true},
	{"a list of models that nobody may read", func(tr *Tracker) {
		tr.many(start, "a", OK, 1)
		tr.Ping(start, "a", refusedPing(403))
	}, Healthy, false},
	{"another address or credential", func(tr *Tracker) {
		tr.many(start, "a", Refused, 1)
		tr.Renew("a")
	}, Unknown, false},
	{"one request without a connection", func(tr *Tracker) { tr.many(start, "a", Unreachable, 1) }, Healthy, false},
	{"two requests without a connection", func(tr *Tracker) { tr.many(start, "a", Unreachable, 2) }, Down, true},
	{"a request and a ping without a connection", func(tr *Tracker) {
		tr.many(start, "a", Unreachable, 1)
		tr.Ping(start, "a", &Unreached{})
	}, Down, true},
	{"a ping without a connection while another's arrive", func(tr *Tracker) {
		tr.Ping(start, "a", nil)
		for range 9 {
			tr.PingFrom(start, "elsewhere", "a", &Unreached{})
		}
	}, Healthy, false},
	{"a connection again", func(tr *Tracker) {
		tr.many(start, "a", Unreachable, 2)
		tr.Ping(start, "a", nil)
	}, Healthy, false},
	{"K-53: a row of failures with 429s in between", func(tr *Tracker) {
		tr.many(start, "a", Failure, 4)
		tr.many(start, "a", RateLimited, 3)
		tr.many(start, "a", Ignored, 3)
		tr.many(start, "a", Failure, 1)
	}, Down, true},
}

func TestWhatPutsAProviderLast(t *testing.T) {
	for _, tt := range lastPlaceCases {
		t.Run(tt.name, func(t *testing.T) {
			tr := tracker()
			tt.happens(tr)
			want := configured
			if tt.last {
				want = []policy.ProviderID{"b", "c", "a"}
			}
			wantOrder(t, tr, start, want...)
			if got := tr.Snapshot(start)[0]; got.State != tt.state || got.State.Out() != (got.Reason != "") {
				t.Errorf("status is %+v, want %s", got, tt.state)
			}
		})
	}
}

func refusedPing(status int) error { return &Refusal{Status: status, Reason: "unknown key"} }

// TestAFirstSignOfTroubleIsLookedAtAtOnce: a ping checks it, and is repeated soon while the result is uncertain.
func TestAFirstSignOfTroubleIsLookedAtAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := tracker()
		var asked atomic.Int32
		p := Prober{Tracker: tr, Every: time.Hour, Probe: func(_ context.Context, id policy.ProviderID) error {
			if id != "a" {
				return nil
			}
			switch asked.Add(1) {
			case 1:
				return ErrNotSent // Envoy does not run yet
			case 2:
				return nil
			}
			return &Unreached{}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.Run(ctx)
		<-time.After(time.Minute)
		if got := tr.Snapshot(time.Now())[0]; got.State != Healthy || asked.Load() != 2 {
			t.Errorf("after the start, %d pings: %+v", asked.Load(), got)
		}
		tr.many(time.Now(), "a", Failure, 1)
		<-time.After(time.Minute)
		if got := tr.Snapshot(time.Now())[0]; got.State != Down || asked.Load() != 4 {
			t.Errorf("after a failure, %d pings: %+v", asked.Load(), got)
		}
	})
}

func TestK53RateLimitsCoolDownForAsLongAsTheProviderSays(t *testing.T) {
	for _, tt := range []struct{ says, want time.Duration }{
		{0, time.Second}, {time.Millisecond, time.Second}, {7 * time.Second, 7 * time.Second}, {time.Hour, 5 * time.Minute}, {-time.Hour, time.Second},
	} {
		tr := tracker()
		tr.Report(start, Result{Provider: "a", Kind: RateLimited, RetryAfter: tt.says})
		wantOrder(t, tr, start.Add(tt.want-1), "b", "c", "a")
		wantOrder(t, tr, start.Add(tt.want), configured...)
		if got := tr.Snapshot(start)[0].CoolUntil; !got.Equal(start.Add(tt.want)) {
			t.Errorf("it is said to be cool at %v, want %v", got.Sub(start), tt.want)
		}
	}
}

func TestAShorterRetryAfterDoesNotEndALongerOne(t *testing.T) {
	tr := tracker()
	tr.Report(start, Result{Provider: "a", Kind: RateLimited, RetryAfter: time.Minute})
	tr.Report(start, Result{Provider: "a", Kind: RateLimited, RetryAfter: time.Second})
	wantOrder(t, tr, start.Add(30*time.Second), "b", "c", "a")
}

func TestThoseInTroubleStayInTheOrder(t *testing.T) {
	tr := tracker()
	tr.many(start, "a", Failure, 5)
	tr.many(start, "b", RateLimited, 1)
	wantOrder(t, tr, start, "c", "b", "a")
	tr.many(start, "b", Failure, 5)
	tr.many(start, "c", Failure, 5)
	wantOrder(t, tr, start, configured...) // all down: as configured, and the last one standing is tried
	if got := tr.Order(start, configured[:1]); len(got) != 1 {
		t.Errorf("the only provider is gone: %v", got)
	}
}

func TestAnOperatorTakesAProviderOutAndBack(t *testing.T) {
	tr := tracker()
	if !tr.SetDisabled("a", true) || tr.SetDisabled("ghost", true) {
		t.Error("SetDisabled does not know its providers")
	}
	wantOrder(t, tr, start, "b", "c")
	if got := tr.Snapshot(start)[0].State; got != Disabled || !tr.Disabled("a") {
		t.Errorf("state is %s", got)
	}
	tr.SetDisabled("a", false)
	wantOrder(t, tr, start, configured...)
}

func TestAProviderComesBackThroughOneRequest(t *testing.T) {
	tr := tracker()
	tr.many(start, "a", Failure, 5)
	early, done := tr.Plan(start.Add(14*time.Second), configured)
	done()
	if early[0] == "a" {
		t.Fatal("it is tried again at once")
	}
	now := start.Add(15 * time.Second)
	first, done := tr.Plan(now, configured)
	defer done()
	second, doneSecond := tr.Plan(now, configured)
	defer doneSecond()
	if first[0] != "a" || second[0] == "a" {
		t.Errorf("plans are %v and %v, want one request alone to try a", first, second)
	}
	wantOrder(t, tr, now, "b", "c", "a")
	tr.Report(now, Result{Provider: "a", Kind: OK})
	wantOrder(t, tr, now, configured...)
	tr.many(now, "a", Failure, 4)
	wantOrder(t, tr, now, configured...) // what was before does not count
}

func TestASuccessThatNobodyProbedForDoesNotBringItBack(t *testing.T) {
	tr := tracker()
	tr.many(start, "a", Failure, 5)
	tr.many(start, "a", OK, 3) // requests that were under way
	wantOrder(t, tr, start, "b", "c", "a")
}

func TestK53TheProbeIsAlwaysFreedAgain(t *testing.T) {
	due := start.Add(15 * time.Second)
	for _, tt := range []struct {
		name string
		end  func(tr *Tracker, done func())
		free time.Time // when another request may probe
	}{
		{"the request ends elsewhere", func(_ *Tracker, done func()) { done() }, due},
		{"it was the caller's mistake", func(tr *Tracker, _ func()) { tr.many(due, "a", Ignored, 1) }, due},
		{"it is rate-limited", func(tr *Tracker, _ func()) { tr.many(due, "a", RateLimited, 1) }, due.Add(time.Second)},
		{"it fails", func(tr *Tracker, done func()) { tr.many(due, "a", Failure, 1); done() }, due.Add(30 * time.Second)},
		{"nobody ever says", func(*Tracker, func()) {}, due.Add(2 * time.Minute)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := tracker()
			tr.many(start, "a", Failure, 5)
			_, done := tr.Plan(due, configured)
			tt.end(tr, done)
			if order, done := tr.Plan(tt.free.Add(-1), configured); tt.free.After(due) && order[0] == "a" {
				t.Error("another request probes too early")
			} else {
				done()
			}
			if order, _ := tr.Plan(tt.free, configured); order[0] != "a" {
				t.Errorf("nobody may probe: %v", order)
			}
		})
	}
}

func TestAnEndedRequestDoesNotFreeTheProbeOfTheNext(t *testing.T) {
	tr := tracker()
	tr.many(start, "a", Failure, 5)
	due := start.Add(15 * time.Second)
	_, done := tr.Plan(due, configured)
	tr.many(due, "a", Ignored, 1)
	if order, _ := tr.Plan(due, configured); order[0] != "a" {
		t.Fatalf("order is %v", order)
	}
	done()
	if order, _ := tr.Plan(due, configured); order[0] == "a" {
		t.Error("two requests probe at once")
	}
}

func TestK55ADeadPrimaryIsTriedAFewTimesAMinute(t *testing.T) {
	tr := tracker()
	tried := 0
	for now := start; now.Before(start.Add(time.Minute)); now = now.Add(10 * time.Millisecond) {
		order, done := tr.Plan(now, configured)
		if order[0] == "a" {
			tried++
			tr.Report(now, Result{Provider: "a", Kind: Failure})
		}
		tr.Report(now, Result{Provider: "b", Kind: OK})
		done()
	}
	if tried < 6 || tried > 9 {
		t.Errorf("the dead primary was tried %d times by 6,000 requests", tried)
	}
}

func TestPingsBringBackWhatPingsTookAway(t *testing.T) {
	tr := tracker()
	for range 3 {
		tr.Ping(start, "a", errPing)
	}
	tr.Ping(start, "a", nil)
	wantOrder(t, tr, start, configured...)
	tr.many(start, "a", Failure, 5)
	tr.Ping(start, "a", nil)
	wantOrder(t, tr, start, "b", "c", "a") // a list of models does not prove that requests work
}

func TestStatusCountsTheWindow(t *testing.T) {
	tr := tracker()
	for i := range 100 {
		tr.Report(start, Result{Provider: "a", Kind: OK, Latency: time.Duration(i+1) * time.Millisecond})
	}
	tr.many(start, "a", Failure, 1)
	got := tr.Snapshot(start.Add(time.Minute))[0]
	if got.Requests != 101 || got.ErrorRate < 0.009 || got.ErrorRate > 0.01 || got.Latency < 60*time.Millisecond || got.Latency > 80*time.Millisecond {
		t.Errorf("status is %+v", got)
	}
	if got := tr.Snapshot(start.Add(6 * time.Minute))[0]; got.Requests != 0 {
		t.Errorf("after the window %d requests are left", got.Requests)
	}
}

func TestTrackKeepsWhatIsKnown(t *testing.T) {
	tr := tracker()
	tr.many(start, "a", Failure, 5)
	tr.Track("a", "d")
	tr.Report(start, Result{Provider: "b", Kind: Failure})
	got := tr.Snapshot(start)
	if len(got) != 2 || got[0].State != Down || got[1].State != Unknown {
		t.Errorf("status is %+v", got)
	}
}

func TestWatchPushesWhatMattersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := tracker()
		<-tr.changed // of Track
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var pushes atomic.Int32
		go tr.Watch(ctx, func() { pushes.Add(1) })
		expect := func(what string, want int32) {
			t.Helper()
			synctest.Wait()
			if got := pushes.Swap(0); got != want {
				t.Errorf("%s pushed %d times, want %d", what, got, want)
			}
		}
		tr.many(time.Now(), "a", OK, 50)
		tr.many(time.Now(), "b", Failure, 1)
		expect("what changes no order", 0)
		tr.many(time.Now(), "a", Failure, 3)
		expect("a provider that goes down", 1)
		tr.Report(time.Now(), Result{Provider: "b", Kind: RateLimited, RetryAfter: 7 * time.Second})
		expect("a provider that cools down", 1)
		<-time.After(7 * time.Second)
		expect("a provider that has cooled down", 1)
		<-time.After(time.Hour)
		expect("an hour of peace", 0)
		tr.SetDisabled("c", true)
		tr.SetDisabled("c", true)
		expect("an operator", 1)
	})
}

func TestWatchMergesChangesAfterAPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := tracker()
		<-tr.changed // of Track
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var pushes atomic.Int32
		takes := 10 * time.Millisecond
		go tr.Watch(ctx, func() { pushes.Add(1); <-time.After(takes) })
		many := func(what string, want int32) {
			t.Helper()
			for i := range 30 { // one each millisecond
				tr.SetDisabled("a", i%2 == 0)
				<-time.After(time.Millisecond)
			}
			<-time.After(time.Second)
			if got := pushes.Swap(0); got != want {
				t.Errorf("%s: %d pushes, want %d", what, got, want)
			}
		}
		many("30 changes while a push and its rest take 30 ms", 2) // the first, and all others
		takes = 10 * time.Second
		tr.SetDisabled("b", true)
		<-time.After(takes + maxRest/2)
		tr.SetDisabled("b", false)
		<-time.After(maxRest)
		if got := pushes.Load(); got != 2 {
			t.Errorf("a change waited more than %s after a push: %d pushes", maxRest, got)
		}
		<-time.After(takes) // for the last one to end
	})
}

func TestTheProberPingsAllInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := tracker()
		tr.SetDisabled("c", true)
		var asked atomic.Int32
		p := Prober{Tracker: tr, Probe: func(ctx context.Context, id policy.ProviderID) error {
			asked.Add(1)
			if id == "a" {
				<-ctx.Done() // hangs: the ping's own time-out ends it
				return ctx.Err()
			}
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { p.Run(ctx); close(ended) }()
		<-time.After(15 * time.Second)
		if got := tr.Snapshot(time.Now()); got[1].State != Healthy || got[2].State != Disabled || asked.Load() != 2 {
			t.Errorf("after one round of %d pings: %+v", asked.Load(), got)
		}
		<-time.After(time.Minute)
		if got := tr.Snapshot(time.Now())[0]; got.State != Down {
			t.Errorf("after three rounds: %+v", got)
		}
		<-time.After(20 * time.Second) // inside the fourth round
		cancel()
		<-ended
		if n := tr.records["a"].pings[""].failed; n != 3 {
			t.Errorf("a ping that the end of the program cut short was counted: %d", n)
		}
	})
}

func BenchmarkPlanAndReport(b *testing.B) {
	tr := tracker()
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		_, done := tr.Plan(now, configured)
		tr.Report(now, Result{Provider: "a", Kind: OK, Latency: time.Millisecond})
		done()
	}
}
