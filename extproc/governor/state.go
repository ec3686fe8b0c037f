package governor

import (
	"cmp"
	"maps"
	"slices"

	"bardo.money/gateway/policy"
)

// Outcomes are the outcomes of a task's requests in a regime.
type Outcomes struct {
	Requests int64 `json:"requests"`
	Input    int64 `json:"input_tokens"`
	Cached   int64 `json:"cached_tokens"`
	Tally
	WrongHits int64           `json:"wrong_hits"` // semantic cache hits that callers removed
	Layers    []LayerOutcomes `json:"layers"`
}

// Tally is the repetitions and scores of requests.
type Tally struct {
	Retries        int64   `json:"retries"`
	SchemaFailures int64   `json:"schema_failures"`
	Overrides      int64   `json:"overrides"`
	Recalls        int64   `json:"recalls"`
	Rated          int64   `json:"rated"`
	Score          float64 `json:"mean_score"` // of the rated ones

	score float64
}

// LayerOutcomes are the effect of one layer, and so of one category of context, on them: tools (l4), history (l5), stored answers (l2, l3), repeated
// prefixes (l1).
type LayerOutcomes struct {
	Layer    string       `json:"layer"`
	Requests int64        `json:"requests"` // on which it ran
	Tokens   int64        `json:"saved_tokens"`
	Saved    policy.Micro `json:"saved_usd"`
	Acted    int64        `json:"acted"` // requests that it changed or answered
	Tally                 // of these requests
}

// maxLayers is the maximum number of layers that are counted.
const maxLayers = 16

// outcomes returns the outcomes in a regime.
func (t *task) outcomes(regime string) *Outcomes {
	if _, ok := t.regimes[regime]; !ok && len(t.regimes) >= maxRegime {
		regime = other
	}
	out, ok := t.regimes[regime]
	if !ok {
		out = &Outcomes{}
		t.regimes[regime] = out
	}
	return out
}

func (t *task) count(o *Outcome) {
	out := t.outcomes(o.Regime)
	out.Requests++
	out.Input, out.Cached = policy.AddTokens(out.Input, o.Input), policy.AddTokens(out.Cached, o.Cached)
	out.add(o)
	for i := range o.Layers {
		l := &o.Layers[i]
		out.Recalls = policy.AddTokens(out.Recalls, l.Recalled)
		if at := out.layer(l.Layer); at != nil {
			at.count(l, o)
		}
	}
}

// add counts a request, without its recalls.
func (f *Tally) add(o *Outcome) {
	f.Retries += one(o.Retried)
	f.SchemaFailures += one(o.SchemaFailure)
	f.Overrides += one(o.Overridden)
}

// addScore adds a score; n is the number of new requests: 0 if it replaces an earlier score.
func (f *Tally) addScore(score float64, n int64) {
	f.Rated += n
	f.score += score
}

func (f *Tally) mean() float64 {
	if f.Rated == 0 {
		return 0
	}
	return f.score / float64(f.Rated)
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// layer returns the outcomes of one layer; nil beyond maxLayers.
func (o *Outcomes) layer(name string) *LayerOutcomes {
	i := slices.IndexFunc(o.Layers, func(at LayerOutcomes) bool { return at.Layer == name })
	if i < 0 {
		if len(o.Layers) >= maxLayers {
			return nil
		}
		i = len(o.Layers)
		o.Layers = append(o.Layers, LayerOutcomes{Layer: name})
	}
	return &o.Layers[i]
}

func (at *LayerOutcomes) count(l *LayerOutcome, o *Outcome) {
	at.Requests++
	at.Tokens, at.Saved = policy.AddTokens(at.Tokens, l.Tokens), at.Saved.Plus(l.Saved)
	if !l.acted() {
		return
	}
	at.Acted++
	at.add(o)
	at.Recalls = policy.AddTokens(at.Recalls, l.Recalled)
}

// State is the governor's state for display.
type State struct {
	Mode  Mode        `json:"mode"`
	Knobs []KnobState `json:"knobs"` // sorted by task
	Tasks []TaskState `json:"tasks"` // sorted by task and regime
}

// KnobState is a knob for a kind of task.
type KnobState struct {
	Task       string     `json:"task"`
	Knob       string     `json:"knob"`
	Layer      string     `json:"layer"`
	Configured int        `json:"configured"`
	Value      int        `json:"value"` // current value, or the one that mode on would use
	Frozen     bool       `json:"frozen"`
	Values     []ArmState `json:"values"`
}

// ArmState is one value of a knob.
type ArmState struct {
	Value  int     `json:"value"`
	Trials int64   `json:"trials"`
	Mean   float64 `json:"mean_reward"` // -1 to 1
}

// TaskState are the outcomes of a kind of task in a regime.
type TaskState struct {
	Task   string `json:"task"`
	Regime string `json:"regime"`
	Outcomes
}

// State returns a copy of the current state.
func (g *Governor) State() State {
	s := State{Mode: Off, Knobs: []KnobState{}, Tasks: []TaskState{}}
	if g == nil {
		return s
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Mode = g.o.Mode
	names := g.tasks.Keys()
	slices.Sort(names)
	for _, name := range names {
		t, ok := g.tasks.Peek(name)
		if !ok {
			continue
		}
		for k := range knobs {
			s.Knobs = append(s.Knobs, g.knobState(name, t, k))
		}
		for _, regime := range slices.Sorted(maps.Keys(t.regimes)) {
			s.Tasks = append(s.Tasks, TaskState{name, regime, t.regimes[regime].copied()})
		}
	}
	return s
}

func (g *Governor) knobState(name string, t *task, k Knob) KnobState {
	s := KnobState{
		Task: name, Knob: k.String(), Layer: knobLayers[k], Configured: g.values[k][g.configured(k)], Value: g.values[k][t.best[k]], Frozen: g.frozen[k],
	}
	for i, value := range g.values[k] {
		s.Values = append(s.Values, ArmState{value, t.trials(k, i), t.mean(k, i)})
	}
	return s
}

func (o *Outcomes) copied() Outcomes {
	out := *o
	out.Score, out.Layers = out.mean(), slices.Clone(o.Layers)
	for i := range out.Layers {
		out.Layers[i].Score = out.Layers[i].mean()
	}
	slices.SortFunc(out.Layers, func(a, b LayerOutcomes) int { return cmp.Compare(a.Layer, b.Layer) })
	return out
}
