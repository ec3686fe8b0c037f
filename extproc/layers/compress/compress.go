// Package compress is layer L5: it shortens the history of a conversation (D-34), in steps. Formatting without meaning, and results that repeat the previous
// call's, are left out immediately. Before the last turns, results are left out that are outdated, nearly repeated later, or irrelevant to everything since.
// Only then a cheap model may summarise old turns. System prompts, the last turns and the user's newest message are never changed; no call loses its result,
// and no request grows.
//
// A change of what was sent before invalidates the provider's prompt cache from there on. So these changes are made together, when future requests save more
// than it costs to write the rest of the prompt to the cache again, or when the cache has expired anyway. Which changes are possible depends only on the
// conversation, each on the turns up to its own; which were made is remembered, so that each request begins with what the previous one sent.
package compress

import (
	"context"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
)

// Name is the layer's name in X-Bardo-Pipeline.
const Name = "l5"

// MinBody is the size in bytes from which a request's history is shortened. A request's Knobs may have another number.
const MinBody = 16 << 10

const (
	minKnobBody = 4 << 10 // the least MinBody by Knobs
	minResult   = 300     // bytes of the shortest result that is replaced
	keepTurns   = 4       // last answers of the model whose turns are not changed
)

// Layer shortens histories. Safe for concurrent use.
type Layer struct {
	Off       bool
	Recall    bool    // the model gets a tool to read what was left out and is nowhere else in the conversation
	Memory    *Memory // shared across changes of the configuration; nil: nothing is remembered or summarised
	Keep      int     // last answers of the model whose turns are not changed; 0 means 4
	Summaries Summaries

	without steps
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Timed     = Layer{}
	_ pipeline.Waiting   = Layer{}
	_ pipeline.Caller    = Layer{}
	_ pipeline.Stepped   = Layer{}
)

// Name is "l5".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileStandard}

// Profiles implements pipeline.Layer.
func (Layer) Profiles() []string { return profiles }

// Applies reports whether the request may have a history that is worth shortening. Requests to enclaves are not changed, since attestations cover them (D-30).
func (l Layer) Applies(x *pipeline.Exchange) bool {
	return !l.Off && x.Request.Op == chat.Generate && len(x.Request.Doc.Bytes) >= minBodyOf(x) && !x.ForEnclave()
}

// minBodyOf is the size in bytes from which the request's history is shortened.
func minBodyOf(x *pipeline.Exchange) int {
	if k := x.Knobs.CompressFrom; k > 0 {
		return max(k, minKnobBody)
	}
	return MinBody
}

// Waits implements pipeline.Waiting: a summary is a call of a model.
func (l Layer) Waits(x *pipeline.Exchange) bool { return l.summarises() && l.Applies(x) }

// Steps implements pipeline.Stepped.
func (Layer) Steps() []string { return stepNames[:] }

// WithoutStep implements pipeline.Stepped.
func (l Layer) WithoutStep(name string) pipeline.Layer {
	if i := slices.Index(stepNames[:], name); i >= 0 {
		l.without |= 1 << i
	}
	return l
}

func (l Layer) keep() int {
	if l.Keep > 0 {
		return l.Keep
	}
	return keepTurns
}

// expectedTime is the expected time of Request without a summary.
const expectedTime = 100 * time.Millisecond

// Expected implements pipeline.Timed. It includes the time limit of a summary.
func (l Layer) Expected(*pipeline.Exchange) time.Duration {
	if l.summarises() {
		return expectedTime + l.Summaries.timeout()
	}
	return expectedTime
}

// Request shortens the history.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	t, err := x.Transcript()
	if err != nil {
		return err
	}
	p := l.newPlan(x, t)
	if len(p.list) == 0 && !l.summarises() {
		return nil
	}
	var notes []string
	if l.summarises() {
		notes = l.useSummary(p)
	}
	p.find()
	if l.summarises() && notes == nil {
		if notes, err = l.summarise(ctx, p); err != nil {
			return err
		}
	}
	saved, err := l.apply(p)
	if err != nil {
		return err
	}
	if l.Memory != nil {
		l.Memory.noteSent(p.keys, lastSent{horizon: p.horizon, retry: p.retry})
	}
	x.Log = append(x.Log, p.report(saved, notes))
	return nil
}
