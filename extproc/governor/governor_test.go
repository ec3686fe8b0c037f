package governor_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/policy"
)

// world simulates the effect of a knob's value on requests.
type world struct {
	rng  *rand.Rand
	g    *governor.Governor
	n    uint64
	seen map[policy.Knobs]bool
}

func newWorld(o governor.Options) *world {
	g := governor.New(7)
	g.Configure(o)
	return &world{rng: rand.New(rand.NewPCG(1, 1)), g: g, seen: map[policy.Knobs]bool{}}
}

// request sends one in a conversation of its own; effect simulates the layers with the current values.
func (w *world) request(t *testing.T, task string, size int, effect func(k policy.Knobs, o *governor.Outcome)) {
	t.Helper()
	w.n++
	c := w.g.Choose(task, w.n, w.n)
	w.seen[c.Knobs] = true
	k := c.Knobs
	if k == (policy.Knobs{}) { // the layers' own
		k = policy.Knobs{CompressFrom: 16 << 10, MaxTools: 12, Similarity: 0.92}
	}
	if k.CompressFrom < 8<<10 || k.CompressFrom > 64<<10 || k.MaxTools < 6 || k.MaxTools > 12 || k.Similarity < 0.92 || k.Similarity > 0.99 {
		t.Fatalf("%+v is outside of the safe range", k)
	}
	o := governor.Outcome{RequestID: fmt.Sprint("r", w.n), Regime: "calm", Size: size, Input: 5000, Cached: 4000, Cost: 1000}
	effect(k, &o)
	w.g.Observe(&c, &o)
}

// value returns the value of a knob in use for a task.
func value(t *testing.T, g *governor.Governor, task, knob string) governor.KnobState {
	t.Helper()
	all := g.State().Knobs
	i := slices.IndexFunc(all, func(k governor.KnobState) bool { return k.Task == task && k.Knob == knob })
	if i < 0 {
		t.Fatalf("nothing is known of %s for %s", knob, task)
	}
	return all[i]
}

// costly: compression below 32 KiB costs more than it saves, because later requests have to be written to the cache again.
func (w *world) costly(k policy.Knobs, o *governor.Outcome) {
	if o.Size < k.CompressFrom {
		return
	}
	saved := policy.Micro(-150 + w.rng.IntN(60))
	if o.Size >= 32<<10 {
		saved = policy.Micro(200 + w.rng.IntN(100))
	}
	o.Layers = append(o.Layers, governor.LayerOutcome{Layer: "l5", Tokens: 100, Saved: saved})
}

// forgetful: with few tools, the model lacks one, and its caller repeats the request.
func (w *world) forgetful(k policy.Knobs, o *governor.Outcome) {
	o.Layers = append(o.Layers, governor.LayerOutcome{Layer: "l4", Tokens: 100, Saved: policy.Micro(300 - 20*k.MaxTools + w.rng.IntN(20))})
	o.Retried = k.MaxTools < 9 && w.rng.IntN(2) == 0
}

// wrong: an answer to a less similar question leads to a repetition, or a low score.
func (w *world) wrong(k policy.Knobs, o *governor.Outcome) {
	if w.rng.IntN(3) > 0 {
		return
	}
	o.Layers = append(o.Layers, governor.LayerOutcome{Layer: "l2", Tokens: 5000, Saved: 800})
	o.Retried = k.Similarity < 0.95 && w.rng.IntN(2) == 0
}

// TestC12TheGovernorFindsTheBetterValues, for each task its own, within a few thousand requests, and never leaves the safe range.
func TestC12TheGovernorFindsTheBetterValues(t *testing.T) {
	w := newWorld(governor.Options{Mode: governor.On})
	var changes []governor.Change
	w.g.Changed = func(c *governor.Change) { changes = append(changes, *c) }
	for range 6_000 {
		size := 9<<10 + w.rng.IntN(50<<10)
		w.request(t, "coding", size, func(k policy.Knobs, o *governor.Outcome) { w.costly(k, o); w.forgetful(k, o); w.wrong(k, o) })
		w.request(t, "other", size, func(k policy.Knobs, o *governor.Outcome) { // here everything is well as it is configured
			if size >= k.CompressFrom {
				o.Layers = append(o.Layers, governor.LayerOutcome{Layer: "l5", Tokens: 100, Saved: 100})
			}
			o.Layers = append(o.Layers, governor.LayerOutcome{Layer: "l4", Tokens: 100, Saved: policy.Micro(10 * k.MaxTools)})
		})
	}
	for _, row := range []struct {
		task, knob string
		want       int
	}{
		{"coding", "compression", 32 << 10},
		{"coding", "tools", 9},
		{"coding", "semantic", 960},
		{"other", "tools", 12},
		{"other", "semantic", 920},
	} {
		if got := value(t, w.g, row.task, row.knob); got.Value != row.want {
			t.Errorf("%s of %s: %+v, want %d", row.knob, row.task, got, row.want)
		}
	}
	if got := value(t, w.g, "other", "compression"); got.Value > 16<<10 {
		t.Errorf("compression of other: %+v", got)
	}
	for _, c := range changes {
		if !c.Applied || c.After < c.Before || c.Trials < 30 || c.From == c.To {
			t.Errorf("change %+v", c)
		}
	}
	if len(changes) < 3 {
		t.Errorf("%d changes were told", len(changes))
	}
}

// TestC12WithTheSameSeedTheSameIsDone.
func TestC12WithTheSameSeedTheSameIsDone(t *testing.T) {
	run := func() governor.State {
		w := newWorld(governor.Options{Mode: governor.On})
		for range 1500 {
			w.request(t, "coding", 9<<10+w.rng.IntN(50<<10), func(k policy.Knobs, o *governor.Outcome) { w.costly(k, o); w.forgetful(k, o) })
		}
		return w.g.State()
	}
	if a, b := run(), run(); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// TestC12AFrozenKnobStaysAsItIs, whatever the outcomes, and the others change.
func TestC12AFrozenKnobStaysAsItIs(t *testing.T) {
	w := newWorld(governor.Options{Mode: governor.On, Freeze: []string{"tools", "semantic"}})
	for range 3_000 {
		w.request(t, "coding", 9<<10+w.rng.IntN(50<<10), func(k policy.Knobs, o *governor.Outcome) {
			w.costly(k, o)
			w.forgetful(k, o)
			if k.MaxTools != 12 || k.Similarity != 0.92 {
				t.Fatalf("%+v", k)
			}
		})
	}
	if got := value(t, w.g, "coding", "tools"); !got.Frozen || got.Value != 12 {
		t.Errorf("%+v", got)
	}
	if got := value(t, w.g, "coding", "compression"); got.Frozen || got.Value != 32<<10 {
		t.Errorf("%+v", got)
	}
	w.g.Configure(governor.Options{Mode: governor.On, Freeze: []string{"compression", "tools", "semantic"}})
	for range 1_000 {
		w.request(t, "coding", 40<<10, func(k policy.Knobs, o *governor.Outcome) {
			if k.CompressFrom != 32<<10 {
				t.Fatalf("what was learned before is %+v", k)
			}
			o.Layers = append(o.Layers, governor.LayerOutcome{Layer: "l5", Saved: -900})
		})
	}
}

// TestC12AReportChangesNothing, but reports the changes. A trigger above a request's size needs no trial: the layer would not have run.
func TestC12AReportChangesNothing(t *testing.T) {
	w := newWorld(governor.Options{Mode: governor.Report})
	var told []governor.Change
	w.g.Changed = func(c *governor.Change) { told = append(told, *c) }
	for range 1_000 {
		w.request(t, "coding", 9<<10+w.rng.IntN(20<<10), w.costly)
	}
	if len(w.seen) != 1 || !w.seen[policy.Knobs{}] {
		t.Errorf("requests got %v", w.seen)
	}
	if len(told) == 0 || told[0].Applied || told[0].Knob != "compression" || told[0].From != 16<<10 || told[0].To <= 16<<10 {
		t.Errorf("told %+v", told)
	}
	s := w.g.State()
	if len(s.Tasks) != 1 || s.Tasks[0].Requests != 1_000 || s.Tasks[0].Cached != 4_000_000 || s.Tasks[0].Layers[0].Saved >= 0 {
		t.Errorf("%+v", s.Tasks)
	}
}

// TestC12OffDoesNothing, and neither does a governor that is not there.
func TestC12OffDoesNothing(t *testing.T) {
	for _, g := range []*governor.Governor{nil, governor.New(1)} {
		c := g.Choose("coding", 1, 1)
		g.Observe(&c, &governor.Outcome{RequestID: "r"})
		g.Rate("r", 1, nil)
		g.Wrong("r")
		if s := g.State(); c.Active() || c.Knobs != (policy.Knobs{}) || len(s.Tasks) > 0 || len(s.Knobs) > 0 || s.Mode != governor.Off {
			t.Errorf("%+v %+v", c, s)
		}
	}
}

// TestC12AConversationKeepsItsValues, while other conversations try others, and is recognised by its last request.
func TestC12AConversationKeepsItsValues(t *testing.T) {
	g := governor.New(3)
	g.Configure(governor.Options{Mode: governor.On})
	first := map[uint64]policy.Knobs{}
	for round := range 5 {
		for talk := uint64(1); talk < 200; talk++ {
			c := g.Choose("t", talk, uint64(round))
			if round == 0 {
				first[talk] = c.Knobs
			}
			if c.Knobs != first[talk] || c.Again {
				t.Fatalf("conversation %d got %+v, then %+v", talk, first[talk], c)
			}
		}
	}
	if c := g.Choose("t", 7, 4); !c.Again {
		t.Error("the same request again is not noticed")
	}
	kinds := map[policy.Knobs]int{}
	for _, k := range first {
		kinds[k]++
	}
	if len(kinds) < 4 || kinds[policy.Knobs{CompressFrom: 16 << 10, MaxTools: 12, Similarity: 0.92}] < 120 {
		t.Errorf("of 199 conversations: %v", kinds)
	}
}

// TestC12WhatCallersSayCounts for the values with which their answers were made, once, even if they change their score.
func TestC12WhatCallersSayCounts(t *testing.T) {
	w := newWorld(governor.Options{Mode: governor.On, Freeze: []string{"compression", "semantic"}})
	for range 2_000 {
		var k policy.Knobs
		w.request(t, "t", 1000, func(now policy.Knobs, o *governor.Outcome) {
			k = now
			o.Layers = append(o.Layers, governor.LayerOutcome{Layer: "l4"})
		})
		score, id := 0.9, fmt.Sprint("r", w.n)
		if k.MaxTools > 6 {
			score = 0.1
		}
		first := 1 - score
		w.g.Rate(id, first, nil)
		w.g.Rate(id, score, &first)
	}
	if got := value(t, w.g, "t", "tools"); got.Value != 6 {
		t.Errorf("%+v", got)
	}
	if s := w.g.State().Tasks[0]; s.Rated != 2_000 || s.Score < 0.1 || s.Score > 0.9 {
		t.Errorf("%+v", s)
	}
}

// TestC12WrongHitsRaiseTheThreshold: half of the questions have a similarity below 0.95, and their callers remove the hits, although each saved its
// whole cost.
func TestC12WrongHitsRaiseTheThreshold(t *testing.T) {
	for name, wrong := range map[string]func(g *governor.Governor, id string){
		"removed":            func(g *governor.Governor, id string) { g.Wrong(id); g.Wrong(id) },
		"rated":              func(g *governor.Governor, id string) { g.Rate(id, 0, nil) },
		"removed, and rated": func(g *governor.Governor, id string) { g.Wrong(id); g.Rate(id, 1, nil) },
	} {
		w := newWorld(governor.Options{Mode: governor.On, Freeze: []string{"compression", "tools"}})
		removed := 0
		for range 3_000 {
			bad := false
			w.request(t, "t", 1000, func(k policy.Knobs, o *governor.Outcome) {
				similarity := 0.96 + 0.03*w.rng.Float64()
				if w.rng.IntN(2) == 0 {
					similarity = 0.92 + 0.03*w.rng.Float64()
				}
				l := governor.LayerOutcome{Layer: "l2"}
				if similarity >= k.Similarity {
					o.Cost, l.Tokens, l.Saved, bad = 0, 5000, 1000, similarity < 0.95
				}
				o.Layers = append(o.Layers, l)
			})
			if bad {
				wrong(w.g, fmt.Sprint("r", w.n))
				removed++
			}
		}
		if got := value(t, w.g, "t", "semantic"); got.Value != 960 {
			t.Errorf("%s: %+v", name, got)
		}
		if s := w.g.State().Tasks[0]; name != "rated" && s.WrongHits != int64(removed) || name == "rated" && s.WrongHits != 0 || removed == 0 {
			t.Errorf("%s: %d of %d wrong hits", name, s.WrongHits, removed)
		}
	}
}

// TestC12AWrongHitWeighsAsTheLowestScore: the hit's own credit is removed; earlier and later scores change nothing; for any other request it counts
// as a score.
func TestC12AWrongHitWeighsAsTheLowestScore(t *testing.T) {
	hit := func(o *governor.Outcome) {
		o.Cost = 0
		o.Layers = append(o.Layers, governor.LayerOutcome{Layer: "l2", Saved: 1000})
	}
	miss := func(o *governor.Outcome) { o.Layers = append(o.Layers, governor.LayerOutcome{Layer: "l2"}) }
	one := 1.0
	for name, row := range map[string]struct {
		became func(*governor.Outcome)
		say    func(g *governor.Governor)
		want   float64
	}{
		"a hit":                       {hit, func(*governor.Governor) {}, 1},
		"a hit that is wrong":         {hit, func(g *governor.Governor) { g.Wrong("r1") }, -0.5},
		"of another request":          {hit, func(g *governor.Governor) { g.Wrong("r2") }, 1},
		"rated well before":           {hit, func(g *governor.Governor) { g.Rate("r1", 1, nil); g.Wrong("r1") }, -0.5},
		"rated well after":            {hit, func(g *governor.Governor) { g.Wrong("r1"); g.Rate("r1", 1, nil) }, -0.5},
		"rated well":                  {hit, func(g *governor.Governor) { g.Rate("r1", 1, nil) }, 1.5},
		"rated badly":                 {hit, func(g *governor.Governor) { g.Rate("r1", 0, nil) }, -0.5},
		"rated in between":            {hit, func(g *governor.Governor) { g.Rate("r1", 0.25, nil) }, 0.25},
		"rated well, and then badly":  {hit, func(g *governor.Governor) { g.Rate("r1", 1, nil); g.Rate("r1", 0, &one) }, -0.5},
		"a miss that is rated badly":  {miss, func(g *governor.Governor) { g.Rate("r1", 0, nil) }, -0.5},
		"a miss that is rated fairly": {miss, func(g *governor.Governor) { g.Rate("r1", 0.5, nil) }, 0},
	} {
		w := newWorld(governor.Options{Mode: governor.Report})
		w.request(t, "t", 1000, func(_ policy.Knobs, o *governor.Outcome) { row.became(o) })
		row.say(w.g)
		if got := value(t, w.g, "t", "semantic").Values[0]; got.Trials != 1 || got.Mean != row.want {
			t.Errorf("%s: %+v, want %v", name, got, row.want)
		}
	}
}

// TestK90TheGovernorsMemoryIsBounded: names that clients choose do not fill it.
func TestK90TheGovernorsMemoryIsBounded(t *testing.T) {
	g := governor.New(1)
	g.Configure(governor.Options{Mode: governor.On})
	for i := range 60_000 {
		c := g.Choose(fmt.Sprint("task", i%500), uint64(i+1), 1)
		g.Observe(&c, &governor.Outcome{RequestID: fmt.Sprint(i), Regime: fmt.Sprint("regime", i), Layers: []governor.LayerOutcome{{Layer: fmt.Sprint("l", i)}}})
	}
	s := g.State()
	regimes := map[string]int{}
	for _, task := range s.Tasks {
		regimes[task.Task]++
		if len(task.Layers) > 16 {
			t.Fatalf("%d layers", len(task.Layers))
		}
	}
	if len(regimes) > 128 {
		t.Errorf("%d tasks", len(regimes))
	}
	for task, n := range regimes {
		if n > 17 {
			t.Errorf("%d regimes of %s", n, task)
		}
	}
}

// TestC12OtherConfiguredValuesBeginAnew: the configured value is always among those that are tried, and a threshold is never below it.
func TestC12OtherConfiguredValuesBeginAnew(t *testing.T) {
	for _, base := range []policy.Knobs{{}, {Similarity: 0.985}, {Similarity: 0.995}, {MaxTools: 1}, {CompressFrom: 100_000, MaxTools: 40, Similarity: 0.5}} {
		g := governor.New(1)
		g.Configure(governor.Options{Mode: governor.On, Base: base})
		for i := range uint64(500) {
			k := g.Choose("t", i+1, 1).Knobs
			if base.Similarity > 0 && k.Similarity < base.Similarity || base.MaxTools > 0 && k.MaxTools > base.MaxTools || k.MaxTools < 1 || k.Similarity > 0.995 {
				t.Fatalf("%+v for %+v", k, base)
			}
		}
		for _, k := range g.State().Knobs {
			if k.Value != k.Configured || !slices.ContainsFunc(k.Values, func(a governor.ArmState) bool { return a.Value == k.Configured }) {
				t.Errorf("%+v", k)
			}
		}
	}
}

// TestC12WhatGoesWrongCountsAgainstAValue: few tools save most, and are used, unless requests with few of them are repeated, get invalid answers, or
// have callers that disable layers; and a history that has to be fetched again is shortened later.
func TestC12WhatGoesWrongCountsAgainstAValue(t *testing.T) {
	for name, wrong := range map[string]func(o *governor.Outcome){
		"nothing":      func(*governor.Outcome) {},
		"sent again":   func(o *governor.Outcome) { o.Retried = true },
		"wrong form":   func(o *governor.Outcome) { o.SchemaFailure = true },
		"switched off": func(o *governor.Outcome) { o.Overridden = true },
	} {
		w := newWorld(governor.Options{Mode: governor.On, Freeze: []string{"compression", "semantic"}})
		for range 3_000 {
			w.request(t, "t", 1000, func(k policy.Knobs, o *governor.Outcome) {
				o.Layers = append(o.Layers, governor.LayerOutcome{Layer: "l4", Tokens: 100, Saved: map[int]policy.Micro{6: 500, 9: 400, 12: 100}[k.MaxTools]})
				if k.MaxTools < 9 {
					wrong(o)
				}
			})
		}
		want := 9
		if name == "nothing" {
			want = 6
		}
		if got := value(t, w.g, "t", "tools"); got.Value != want {
			t.Errorf("%s: %+v, want %d", name, got, want)
		}
	}
	for recalled, want := range map[int64]int{0: 16 << 10, 1: 32 << 10} {
		w := newWorld(governor.Options{Mode: governor.On, Freeze: []string{"tools", "semantic"}})
		for range 4_000 {
			w.request(t, "t", 9<<10+w.rng.IntN(50<<10), func(k policy.Knobs, o *governor.Outcome) {
				if o.Size < k.CompressFrom {
					return
				}
				l := governor.LayerOutcome{Layer: "l5", Tokens: 100, Saved: 200}
				if o.Size < 32<<10 {
					l.Recalled = recalled
				}
				o.Layers = append(o.Layers, l)
			})
		}
		if got := value(t, w.g, "t", "compression"); got.Value != want {
			t.Errorf("%d recalled: %+v, want %d", recalled, got, want)
		}
	}
}

// TestC12OutcomesAreCountedByCategoryOfContext: of each layer, how the requests went that it changed or answered, by task and regime.
func TestC12OutcomesAreCountedByCategoryOfContext(t *testing.T) {
	w := newWorld(governor.Options{Mode: governor.Report})
	tools, history := governor.LayerOutcome{Layer: "l4", Tokens: 50, Saved: 5}, governor.LayerOutcome{Layer: "l5", Tokens: 70, Recalled: 2}
	idle := governor.LayerOutcome{Layer: "l5"}
	for _, o := range []governor.Outcome{
		{Regime: "bull", Layers: []governor.LayerOutcome{tools, history}, Retried: true},
		{Regime: "bull", Layers: []governor.LayerOutcome{tools, idle}, SchemaFailure: true, Overridden: true},
		{Regime: "bear", Layers: []governor.LayerOutcome{history}},
	} {
		w.request(t, "t", 20<<10, func(_ policy.Knobs, to *governor.Outcome) {
			to.Regime, to.Layers, to.Retried, to.SchemaFailure, to.Overridden = o.Regime, o.Layers, o.Retried, o.SchemaFailure, o.Overridden
		})
	}
	half := 0.5
	w.g.Rate("r1", half, nil)
	w.g.Rate("r1", 1, &half)
	w.g.Rate("r2", 0.5, nil)
	w.g.Rate("r3", 0, nil)
	type row struct {
		requests, acted, tokens, retries, failures, overrides, recalls, rated int64
		score                                                                 float64
	}
	want := map[string]row{
		"bull l4": {2, 2, 100, 1, 1, 1, 0, 2, 0.75},
		"bull l5": {2, 1, 70, 1, 0, 0, 2, 1, 1},
		"bear l5": {1, 1, 70, 0, 0, 0, 2, 1, 0},
	}
	for _, task := range w.g.State().Tasks {
		for _, l := range task.Layers {
			got := row{l.Requests, l.Acted, l.Tokens, l.Retries, l.SchemaFailures, l.Overrides, l.Recalls, l.Rated, l.Score}
			if name := task.Regime + " " + l.Layer; got != want[name] {
				t.Errorf("%s: %+v, want %+v", name, got, want[name])
			} else {
				delete(want, name)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("nothing is known of %v", want)
	}
}
