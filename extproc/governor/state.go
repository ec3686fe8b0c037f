package governor

import (
	"cmp"
	"maps"
	"slices"

	"bardo.money/gateway/policy"
)

// Outcomes are what became of the requests of a task in a regime.
type Outcomes struct {
	Requests       int64           `json:"requests"`
	Input          int64           `json:"input_tokens"`
	Cached         int64           `json:"cached_tokens"`
	Retries        int64           `json:"retries"`
	SchemaFailures int64           `json:"schema_failures"`
	Overrides      int64           `json:"overrides"`
	Recalls        int64           `json:"recalls"`
	WrongHits      int64           `json:"wrong_hits"` // of the semantic cache, removed by callers
	Rated          int64           `json:"rated"`
	Score          float64         `json:"mean_score"` // of those that were rated
	Layers         []LayerOutcomes `json:"layers"`

	score float64
}

// LayerOutcomes are what one layer did on them.
type LayerOutcomes struct {
	Layer    string       `json:"layer"`
	Requests int64        `json:"requests"` // that it ran on
	Tokens   int64        `json:"saved_tokens"`
	Saved    policy.Micro `json:"saved_usd"`
}

// maxLayers bounds the layers that are counted.
const maxLayers = 16

// outcomes are those of a regime.
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
	out.Retries += one(o.Retried)
	out.SchemaFailures += one(o.SchemaFailure)
	out.Overrides += one(o.Overridden)
	for i := range o.Layers {
		out.Recalls = policy.AddTokens(out.Recalls, o.Layers[i].Recalled)
		out.countLayer(&o.Layers[i])
	}
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (o *Outcomes) countLayer(l *LayerOutcome) {
	i := slices.IndexFunc(o.Layers, func(at LayerOutcomes) bool { return at.Layer == l.Layer })
	if i < 0 {
		if len(o.Layers) >= maxLayers {
			return
		}
		i = len(o.Layers)
		o.Layers = append(o.Layers, LayerOutcomes{Layer: l.Layer})
	}
	at := &o.Layers[i]
	at.Requests++
	at.Tokens, at.Saved = policy.AddTokens(at.Tokens, l.Tokens), at.Saved.Plus(l.Saved)
}

// State is what the governor knows and does.
type State struct {
	Mode  Mode        `json:"mode"`
	Knobs []KnobState `json:"knobs"` // by task
	Tasks []TaskState `json:"tasks"` // by task and regime
}

// KnobState is a knob for a kind of task.
type KnobState struct {
	Task       string     `json:"task"`
	Knob       string     `json:"knob"`
	Layer      string     `json:"layer"`
	Configured int        `json:"configured"`
	Value      int        `json:"value"` // in use, or what would be used with the mode on
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

// State is a copy of what is known now.
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
	out.Layers = slices.Clone(o.Layers)
	slices.SortFunc(out.Layers, func(a, b LayerOutcomes) int { return cmp.Compare(a.Layer, b.Layer) })
	if o.Rated > 0 {
		out.Score = o.score / float64(o.Rated)
	}
	return out
}
