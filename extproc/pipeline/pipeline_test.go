package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// layer records that it ran.
type layer struct {
	name    string
	ran     *[]string
	answer  bool
	watches bool
	err     error
	late    error // of Response

	profiles []string
}

func (l layer) Name() string { return l.name }

func (l layer) Profiles() []string { return l.profiles }

func (l layer) Request(_ context.Context, x *pipeline.Exchange) error {
	*l.ran = append(*l.ran, l.name)
	if l.answer {
		x.Answer = cache.NewEntry([]chat.Event{{Kind: chat.End}})
	}
	if l.watches {
		x.Watch(l.name, l)
	}
	return l.err
}

// Response doubles the event: unchanged, and with the layer's name appended.
func (l layer) Response(_ context.Context, _ *pipeline.Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error) {
	more := *ev
	more.Text = append(append([]byte(nil), ev.Text...), l.name...)
	return append(out, *ev, more), l.late
}

// picky is a layer that does not apply to requests of OpenAI's clients.
type picky struct{ layer }

func (picky) Applies(x *pipeline.Exchange) bool { return x.Request.Dialect != chat.OpenAI }

func TestLayersRunInOrderAndAnswersPassInReverse(t *testing.T) {
	var ran []string
	p := pipeline.New(layer{name: "a", ran: &ran, watches: true}, layer{name: "b", ran: &ran, watches: true})
	x := &pipeline.Exchange{}
	if err := p.Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ran, ""); got != "ab" {
		t.Errorf("layers ran as %q, want ab", got)
	}
	if len(x.Log) != 2 || x.Log[0].Layer != "a" || x.Log[1].Layer != "b" {
		t.Errorf("log is %+v, want one entry per layer", x.Log)
	}
	for range 2 { // the second event uses the first one's buffers
		evs, err := x.Response(t.Context(), &chat.Event{Kind: chat.Text})
		var texts []string
		for _, ev := range evs {
			texts = append(texts, string(ev.Text))
		}
		if got := strings.Join(texts, ","); err != nil || got != ",a,b,ba" {
			t.Errorf("answer passed as %q, %v; want the last layer first", got, err)
		}
	}
}

func TestAnAnswerWithoutWatchersIsForwarded(t *testing.T) {
	var ran []string
	x := &pipeline.Exchange{}
	if err := pipeline.New(layer{name: "a", ran: &ran}).Request(t.Context(), x); err != nil || x.Watched() {
		t.Errorf("%v, watched: %v", err, x.Watched())
	}
}

func TestALayerThatFailsOnAnAnswerIsNamed(t *testing.T) {
	var ran []string
	x := &pipeline.Exchange{}
	if err := pipeline.New(layer{name: "a", ran: &ran, watches: true, late: errors.New("broken")}).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Response(t.Context(), &chat.Event{}); err == nil || !strings.Contains(err.Error(), "layer a: broken") {
		t.Errorf("error is %v", err)
	}
}

func TestAStoredAnswerPassesOnlyTheLayersBeforeTheCache(t *testing.T) {
	var ran []string
	watching := func(name string) layer { return layer{name: name, ran: &ran, watches: true} }
	x := &pipeline.Exchange{CacheLayer: "b"}
	if err := pipeline.New(watching("a"), watching("b"), watching("c")).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	x.Replay(cache.NewEntry(nil))
	evs, err := x.Response(t.Context(), &chat.Event{})
	if err != nil || len(evs) != 2 || string(evs[1].Text) != "a" || x.Answer == nil {
		t.Errorf("it passed as %+v, %v", evs, err)
	}
}

func TestALayerThatDoesNotApplyIsNotLogged(t *testing.T) {
	var ran []string
	p := pipeline.New(picky{layer{name: "a", ran: &ran}})
	for want, d := range []chat.Dialect{chat.OpenAI, chat.Anthropic} {
		x := &pipeline.Exchange{Request: &chat.Request{Dialect: d}}
		if err := p.Request(t.Context(), x); err != nil || len(x.Log) != want {
			t.Errorf("%s: log %+v, %v; want %d entries", d, x.Log, err, want)
		}
	}
}

func TestALayerThatAnswersEndsTheRun(t *testing.T) {
	var ran []string
	p := pipeline.New(layer{name: "cache", ran: &ran, answer: true}, layer{name: "later", ran: &ran})
	if err := p.Request(t.Context(), &pipeline.Exchange{}); err != nil {
		t.Fatal(err)
	}
	if len(ran) != 1 {
		t.Errorf("ran %v, want only the layer that answered", ran)
	}
}

func TestAnErrorOfALayerKeepsItsFault(t *testing.T) {
	var ran []string
	p := pipeline.New(layer{name: "guard", ran: &ran, err: fault.Newf(fault.InvalidRequest, "no")})
	err := p.Request(t.Context(), &pipeline.Exchange{})
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.InvalidRequest {
		t.Errorf("error is %v, want the layer's fault", err)
	}
}

// TestAProfileRunsTheLayersThatNameIt: D-30. Full, and an unknown profile, run all.
func TestAProfileRunsTheLayersThatNameIt(t *testing.T) {
	for profile, want := range map[string]string{"minimal": "a", "fast": "a b", "standard": "b", "full": "a b c", "": "a b c", "typo": "a b c"} {
		var ran []string
		p := pipeline.New(
			layer{name: "a", ran: &ran, profiles: []string{"minimal", "fast"}}, layer{name: "b", ran: &ran, profiles: []string{"fast", "standard"}}, layer{name: "c", ran: &ran},
		)
		x := &pipeline.Exchange{Profile: profile}
		if err := p.Request(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(ran, " "); got != want || len(x.Log) != len(ran) {
			t.Errorf("%q ran %s and logged %d, want %s", profile, got, len(x.Log), want)
		}
	}
}

// patient waits for a request of OpenAI's clients.
type patient struct{ layer }

func (patient) Waits(x *pipeline.Exchange) bool { return x.Request.Dialect == chat.OpenAI }

func TestALayerThatWaitsIsKnownBeforeItRuns(t *testing.T) {
	p := pipeline.New(layer{name: "a"}, patient{layer{name: "b", profiles: []string{"fast"}}})
	for _, row := range []struct {
		profile string
		dialect chat.Dialect
		want    bool
	}{{"full", chat.OpenAI, true}, {"fast", chat.OpenAI, true}, {"minimal", chat.OpenAI, false}, {"full", chat.Anthropic, false}} {
		if got := p.Waits(&pipeline.Exchange{Profile: row.profile, Request: &chat.Request{Dialect: row.dialect}}); got != row.want {
			t.Errorf("%s, %s: waits is %v", row.profile, row.dialect, got)
		}
	}
}

func TestEachSlotHasItsOwnStatePerExchange(t *testing.T) {
	numbers, words := pipeline.NewSlot[int](), pipeline.NewSlot[string]()
	var x, y pipeline.Exchange
	if numbers.In(&x) != nil || words.In(&x) != nil {
		t.Error("an exchange begins with state")
	}
	*numbers.Of(&x), *words.Of(&x), *words.Of(&y) = 7, "x", "y"
	if *numbers.In(&x) != 7 || *words.In(&x) != "x" || *words.In(&y) != "y" || *numbers.Of(&x) != 7 {
		t.Errorf("x has %d and %q, y %q", *numbers.In(&x), *words.In(&x), *words.In(&y))
	}
	if numbers.In(&y) != nil {
		t.Error("y has a number")
	}
}

// slow is an optional layer. It waits until its time limit, and then gives up, or finishes its work.
type slow struct {
	layer
	budget   time.Duration
	finishes bool
	finished *int
}

func (l slow) Budget() time.Duration { return l.budget }

func (l slow) Request(ctx context.Context, x *pipeline.Exchange) error {
	if l.budget < time.Hour {
		<-ctx.Done()
	}
	if !l.finishes {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("looking: %w", err)
		}
	}
	return l.layer.Request(ctx, x)
}

func (l slow) Finish(*pipeline.Exchange, policy.ProviderID, keyring.ID) { *l.finished++ }

// TestR09ALayerHasATimeLimit: one that gives up at its limit is skipped, and the request continues; one that finishes nevertheless is late. A request
// whose own time limit has expired does not continue.
func TestR09ALayerHasATimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			budget   time.Duration
			finishes bool
			left     bool
			ran      string
			finished int
		}{
			{budget: time.Hour, ran: "ab", finished: 1},
			{budget: time.Millisecond, left: true, ran: "b"},
			{budget: time.Millisecond, finishes: true, ran: "ab", finished: 1},
		} {
			var ran []string
			finished := 0
			x := &pipeline.Exchange{}
			p := pipeline.New(slow{layer{name: "a", ran: &ran}, row.budget, row.finishes, &finished}, layer{name: "b", ran: &ran})
			if err := p.Request(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			p.Finish(x, "p", "")
			e := x.Log[0]
			if got := strings.Join(ran, ""); got != row.ran || e.TimedOut != row.left || e.Budget != row.budget || finished != row.finished || x.Log[1].Budget != 0 {
				t.Errorf("%v: ran %q, finished %d times: %+v", row.budget, got, finished, x.Log)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		finished := 0
		if err := pipeline.New(slow{layer{name: "a"}, time.Minute, false, &finished}).Request(ctx, &pipeline.Exchange{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request that is over goes on: %v", err)
		}
	})
	for e, late := range map[pipeline.Entry]bool{
		{Took: 2}: false, {Took: 2, Budget: 2}: false, {Took: 3, Budget: 2}: true,
	} {
		if e.Late() != late {
			t.Errorf("%+v is late: %v", e, !late)
		}
	}
}

// TestAnnouncedHeadersHaveTheirValueOfTheMoment, and are omitted while they have none.
func TestAnnouncedHeadersHaveTheirValueOfTheMoment(t *testing.T) {
	var x pipeline.Exchange
	value := ""
	x.Announce("x-a", func() string { return value })
	x.Announce("x-b", func() string { return "b" })
	own := header.List{{Name: "x-own", Value: "1"}}
	if got := x.Announced(own); len(got) != 2 || got.Get("x-b") != "b" {
		t.Errorf("%v", got)
	}
	value = "0.97"
	if got := x.Announced(own); len(got) != 3 || got.Get("x-a") != "0.97" || got.Get("x-own") != "1" {
		t.Errorf("%v", got)
	}
}

// timed is a layer that only computes.
type timed struct {
	layer

	expected time.Duration
}

func (l timed) Expected(*pipeline.Exchange) time.Duration { return l.expected }

func (l timed) Request(ctx context.Context, x *pipeline.Exchange) error {
	<-time.After(2 * time.Millisecond)
	return l.layer.Request(ctx, x)
}

// TestR09ALayerThatComputesTooLongIsShown, and what it did is used.
func TestR09ALayerThatComputesTooLongIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, late := range []bool{false, true} {
			expected := 2 * time.Millisecond
			if late {
				expected--
			}
			var ran []string
			x := &pipeline.Exchange{}
			if err := pipeline.New(timed{layer{name: "a", ran: &ran}, expected}, layer{name: "b", ran: &ran}).Request(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			if e := x.Log[0]; e.Budget != expected || e.TimedOut || e.Late() != late || len(ran) != 2 {
				t.Errorf("%v: ran %q: %+v", expected, ran, e)
			}
		}
	})
}

// TestALayerAfterADisconnectIsNotRun: even if the one before it can continue without what it waited for.
func TestALayerAfterADisconnectIsNotRun(t *testing.T) {
	ctx, leave := context.WithCancelCause(t.Context())
	var ran []string
	gone := errors.New("gone")
	err := pipeline.New(leaving{layer{name: "a", ran: &ran}, func() { leave(gone) }}, layer{name: "b", ran: &ran}).Request(ctx, &pipeline.Exchange{})
	if !errors.Is(err, gone) || len(ran) != 1 {
		t.Errorf("%v, ran %q", err, ran)
	}
}

// leaving is a layer during which the client disconnects.
type leaving struct {
	layer

	leave func()
}

func (l leaving) Request(ctx context.Context, x *pipeline.Exchange) error {
	l.leave()
	return l.layer.Request(ctx, x)
}
