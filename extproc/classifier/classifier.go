// Package classifier has the local model judge the prompts of requests that leave their model to the gateway, within a time limit. It says why where it
// does not: then the rules over the request decide alone.
package classifier

import (
	"context"
	"errors"
	"time"

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
	return &said, ""
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
