package governor

import (
	"bardo.money/gateway/policy"
)

// Outcome is the outcome of a request.
type Outcome struct {
	RequestID string
	Regime    string
	Size      int            // in bytes, before the layers changed it
	Input     int64          // tokens of its prompt, as its provider reported them
	Cached    int64          // of them, read from the provider's cache
	Cost      policy.Micro   // the charge
	Layers    []LayerOutcome // of the layers that ran

	Retried       bool // it repeats the previous request
	SchemaFailure bool // its answer violated the schema
	Overridden    bool // its caller disabled layers
}

// LayerOutcome is the effect of one layer on a request.
type LayerOutcome struct {
	Layer    string
	Tokens   int64 // saved
	Saved    policy.Micro
	Recalled int64 // parts that it omitted from earlier requests, and that had to be fetched again
}

// acted reports whether the layer changed or answered the request.
func (l *LayerOutcome) acted() bool { return l.Tokens != 0 || l.Saved != 0 || l.Recalled > 0 }

// acted returns the layers that changed or answered the request.
func (o *Outcome) acted() (names []string) {
	for i := range o.Layers {
		if o.Layers[i].acted() {
			names = append(names, o.Layers[i].Layer)
		}
	}
	return names
}

// task is the state of a kind of task.
type task struct {
	best    [knobs]int   // indexes of the current values
	arms    [knobs][]arm // not of Compression
	gaps    []gap        // of Compression
	regimes map[string]*Outcomes
}

// arm is the statistics of one value of a knob.
type arm struct {
	trials int64
	reward float64 // the sum
}

func (a *arm) mean() float64 {
	if a.trials == 0 {
		return 0
	}
	return a.reward / float64(a.trials)
}

// maxTrials limits the number of trials in a value's mean, so that old ones lose weight.
const maxTrials = 4000

func (a *arm) add(reward float64) {
	a.trials++
	a.reward += reward
	if a.trials >= maxTrials {
		a.trials /= 2
		a.reward /= 2
	}
}

// Penalties, in shares of a request's cost.
const (
	perRetry    = 0.2
	perFailure  = 0.5
	perOverride = 0.1
	perRecall   = 0.3
	mostRecalls = 2
)

// reward returns a value from -1 to 1: the share of the request's cost that a layer saved, less penalties.
func (o *Outcome) reward(l *LayerOutcome) float64 {
	return max(-1, min(1, o.gain(l)-o.trouble()))
}

// hit returns the reward of a semantic cache hit; 0 for any other request.
func (o *Outcome) hit() float64 {
	for i := range o.Layers {
		if l := &o.Layers[i]; l.Layer == knobLayers[Semantic] && l.Saved > 0 {
			return o.reward(l)
		}
	}
	return 0
}

// gain returns the share of the request's cost that a layer saved, less what had to be fetched again.
func (o *Outcome) gain(l *LayerOutcome) float64 {
	r := 0.0
	if whole := float64(o.Cost) + max(float64(l.Saved), -float64(l.Saved)); whole > 0 {
		r = float64(l.Saved) / whole
	}
	return r - perRecall*float64(min(l.Recalled, mostRecalls))
}

func (o *Outcome) trouble() (t float64) {
	if o.Retried {
		t += perRetry
	}
	if o.SchemaFailure {
		t += perFailure
	}
	if o.Overridden {
		t += perOverride
	}
	return t
}

// Observe records the outcome of a request, and changes a knob if another value has done better.
func (g *Governor) Observe(c *Choice, o *Outcome) {
	if g == nil || !c.active {
		return
	}
	for _, change := range g.observe(c, o) {
		if g.Changed != nil {
			g.Changed(&change)
		}
	}
}

func (g *Governor) observe(c *Choice, o *Outcome) (changes []Change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.o.Mode == Off {
		return nil
	}
	t := g.task(c.task)
	t.count(o)
	g.rated.Add(o.RequestID, rating{task: c.task, regime: o.Regime, tried: c.tried, size: o.Size, hit: o.hit(), layers: o.acted()})
	for k := range knobs {
		if c.tried[k] >= len(g.values[k]) || !g.credit(t, k, c.tried[k], o) {
			continue
		}
		if change, ok := g.decide(t, k); ok {
			change.Task = c.task
			changes = append(changes, change)
		}
	}
	return changes
}

// credit adds a value's reward; false if the request says nothing about the knob.
func (g *Governor) credit(t *task, k Knob, tried int, o *Outcome) bool {
	var l *LayerOutcome
	for i := range o.Layers {
		if o.Layers[i].Layer == knobLayers[k] {
			l = &o.Layers[i]
		}
	}
	if k == Compression {
		return g.creditTrigger(t, tried, l, o)
	}
	if l == nil {
		return false
	}
	t.arms[k][tried].add(o.reward(l))
	return true
}

// Conditions for a change: both values were tried often enough, and the new mean is significantly better.
const (
	leastTrials = 30
	leastGain   = 0.02
)

// decide changes a knob if another value did better.
func (g *Governor) decide(t *task, k Knob) (c Change, changed bool) {
	now := t.best[k]
	next := now
	for i := range g.values[k] {
		if t.mean(k, i) > t.mean(k, next) && t.known(k, i, now) {
			next = i
		}
	}
	was, is := t.mean(k, now), t.mean(k, next)
	if next == now || g.frozen[k] || is < was+leastGain {
		return c, false
	}
	t.best[k] = next
	return Change{
		Knob: k.String(), Layer: knobLayers[k], From: g.values[k][now], To: g.values[k][next], Before: was, After: is, Trials: t.trials(k, next),
		Applied: g.o.Mode == On,
	}, true
}

// Rate records a caller's score of an answer, from 0 to 1, which replaces its earlier one (nil for none). 0.5 is neutral.
func (g *Governor) Rate(request string, score float64, before *float64) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r, ok := g.rated.Get(request)
	if !ok || g.o.Mode == Off {
		return
	}
	t := g.task(r.task)
	more, n := score-0.5, int64(1)
	if before != nil {
		more, n = score-*before, 0
	}
	for k := range knobs {
		if a := t.rated(g, k, &r); a != nil && a.trials > 0 && k != Semantic {
			a.reward += more
		}
	}
	if !r.wrong {
		g.rescore(request, &r, score)
	}
	if before != nil {
		score -= *before
	}
	out := t.outcomes(r.regime)
	out.addScore(score, n)
	for _, name := range r.layers {
		if at := out.layer(name); at != nil {
			at.addScore(score, n)
		}
	}
}

// rescore applies a caller's score of an answer to the semantic cache's threshold, replacing its earlier one. Down to 0.5 the answer keeps its credit;
// below, it loses it, since an unusable answer saves nothing.
func (g *Governor) rescore(request string, r *rating, score float64) {
	a := g.task(r.task).rated(g, Semantic, r)
	if a == nil || a.trials == 0 {
		return
	}
	now := score - 0.5 - r.hit*max(0, 1-2*score)
	a.reward += now - r.adjustment
	r.adjustment = now
	g.rated.Add(request, *r)
}

// Wrong records, once, that a caller removed a semantic cache hit as wrong. It weighs as much as the lowest score, and later scores do not change it.
func (g *Governor) Wrong(request string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r, ok := g.rated.Get(request)
	if !ok || r.wrong || g.o.Mode == Off {
		return
	}
	r.wrong = true
	g.rescore(request, &r, 0)
	g.task(r.task).outcomes(r.regime).WrongHits++
}

// rated returns the statistics that a rating of an answer counts for.
func (t *task) rated(g *Governor, k Knob, r *rating) *arm {
	switch values := g.values[k]; {
	case r.tried[k] >= len(values):
		return nil
	case k != Compression:
		return &t.arms[k][r.tried[k]]
	case r.size >= values[r.tried[k]]:
		return &t.gaps[gapOf(values, r.size)].ran
	}
	return nil
}
