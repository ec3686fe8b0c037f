// Package compress is layer L5: it shortens the history of a conversation (D-34), in steps. What has no meaning, or was said by the call before, is left out
// at once. Behind the last turns, results go that are out of date, nearly repeated later, or that nothing asked since concerns. Only then a cheap model may
// summarise old turns. No system prompt, none of the last turns and not the newest message of the user change; no call loses its result, and no request
// grows.
//
// A change of what was sent before makes the provider's prompt cache useless from there on. So these changes are made together, when the requests to come
// save more than it costs to write the prompt's rest to the cache again, or when the cache has forgotten it anyway. Which changes are possible follows from
// the conversation alone, each from the turns up to its own; which are made is remembered, so that each turn begins with what the turn before sent.
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

// MinBody is how many bytes a request has at least whose history is shortened. A request's Knobs may say another number.
const MinBody = 16 << 10

const (
	leastBody = 4 << 10 // MinBody, whatever the Knobs say
	minResult = 300     // bytes of a result that is worth replacing
	keepTurns = 4       // answers of the model at the end whose turns stay as they are
)

// Layer shortens histories. Safe for concurrent use.
type Layer struct {
	Off       bool
	Recall    bool    // the model gets a tool that shows it what was left out, where nothing else in the conversation does
	Memory    *Memory // shared across changes of the configuration; nil: nothing is remembered, and nothing summarised
	Keep      int     // answers of the model at the end whose turns stay as they are; 0 means 4
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

// Applies reports whether the request may have a history that is worth shortening. What an enclave attests covers the request as it was sent (D-30).
func (l Layer) Applies(x *pipeline.Exchange) bool {
	return !l.Off && x.Request.Op == chat.Generate && len(x.Request.Doc.Bytes) >= bodyOf(x) && !x.ForEnclave()
}

// bodyOf is how many bytes a request has at least whose history is shortened.
func bodyOf(x *pipeline.Exchange) int {
	if k := x.Knobs.CompressFrom; k > 0 {
		return max(k, leastBody)
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

// usualTime is how long that may take, without a summary.
const usualTime = 100 * time.Millisecond

// Expected implements pipeline.Timed. A summary has a limit of its own beside it.
func (l Layer) Expected(*pipeline.Exchange) time.Duration {
	if l.summarises() {
		return usualTime + l.Summaries.timeout()
	}
	return usualTime
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
		notes = l.recall(p)
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
		l.Memory.sent(p.keys, talk{horizon: p.horizon, retry: p.retry})
	}
	x.Log = append(x.Log, p.report(saved, notes))
	return nil
}
