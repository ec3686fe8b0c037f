// Package classifier has the local model judge the prompts of requests that leave their model to the gateway, within a time limit. It says why where it
// does not: then the rules over the request decide alone.
package classifier

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/extproc/injection"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy/classify"
	"bardo.money/gateway/policy/intent"
)

// Budget is the time limit of a judgement.
const Budget = 25 * time.Millisecond

// Name is what X-Bardo-Pipeline calls it.
const Name = "classify"

// Classifier judges prompts. Safe for concurrent use.
type Classifier struct {
	Embedder models.Embedder
	Set      *classify.Set
	Safety   *injection.Detector // what layer l8 judges users' turns by; nil: it is not judged
}

// New makes a classifier of the gateway's models. injections is that of layer l8, nil for patterns alone; threshold is the layer's, 0 for the model's own.
func New(embedder models.Embedder, injections models.Classifier, threshold float64) (*Classifier, error) {
	set, err := classify.Prototypes()
	if err != nil {
		return nil, err
	}
	var scores injection.Classifier // not an interface that holds nil
	if injections != nil {
		scores = injections
	}
	off := func(err error) bool { return errors.Is(err, models.ErrOff) }
	return &Classifier{Embedder: embedder, Set: set, Safety: injection.NewDetector(scores, threshold, off)}, nil
}

// Judge says what a prompt is, or why it does not say anything: foreign (not plainly English, as the model is), off, busy, late, another-model (the vectors
// of the prototypes are not this model's) or failed.
func (c *Classifier) Judge(ctx context.Context, prompt string) (r *intent.Reading, why string) {
	text := classify.Text(prompt)
	if !classify.English(text) {
		return nil, "foreign"
	}
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	v, err := c.Embedder.Embed(ctx, text)
	if err != nil {
		return nil, reason(err)
	}
	if c.Embedder.Tag() != c.Set.Tag {
		return nil, "another-model"
	}
	said, ok := c.Set.Judge(v)
	if !ok {
		return nil, "another-model"
	}
	c.judgeSafety(ctx, prompt, &said)
	return &said, ""
}

// judgeSafety notes how probable it is that a prompt holds instructions that it should not hold. Where there is no time for that, or no verdict, the reading has none.
func (c *Classifier) judgeSafety(ctx context.Context, prompt string, r *intent.Reading) {
	if c.Safety == nil {
		return
	}
	f, err := c.Safety.Learn(ctx, c.Safety.KeyOf([]byte(prompt)), prompt, injection.NewBudget())
	if err != nil {
		return
	}
	score := f.Score(injection.User)
	r.Injection, r.Unsafe = &score, score >= c.Safety.Threshold()
}

func reason(err error) string {
	switch {
	case errors.Is(err, models.ErrOff):
		return "off"
	case errors.Is(err, models.ErrBusy):
		return "busy"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "late"
	}
	return "failed"
}
