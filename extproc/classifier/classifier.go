// Package classifier runs the local model on the prompts of requests that leave the model to the gateway, within a time limit. Without a result it
// returns the reason, and only the rules decide.
package classifier

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/extproc/injection"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/classify"
	"bardo.money/gateway/policy/intent"
)

// Budget is how long a request waits for its result. A slower run continues in the background, for the next request with the same prompt: most
// requests of an agent repeat the user's turn.
const Budget = 25 * time.Millisecond

// Limits of runs and stored results.
const (
	limit   = 5 * time.Second // of one run
	maxOpen = 64              // concurrent runs
	maxKept = 4_096           // stored results, about 250 bytes each
)

// Name is its name in X-Bardo-Pipeline.
const Name = "classify"

// Classifier classifies prompts. Make one with New. Safe for concurrent use.
type Classifier struct {
	embedder models.Embedder
	set      *classify.Set
	safety   *injection.Detector // the detector of layer l8 for users' turns; nil: injections are not detected
	kept     *lru.Cache[key, *intent.Reading]
	open     chan struct{} // one slot per concurrent run
}

// key is a prompt of an account. Accounts do not share results, not even by timing.
type key [sha256.Size]byte

// New returns a classifier with the gateway's models. injections is that of layer l8, nil for patterns alone; threshold is the layer's, 0 for the
// model's own.
func New(embedder models.Embedder, injections models.Classifier, threshold float64) (*Classifier, error) {
	set, err := classify.Prototypes()
	if err != nil {
		return nil, err
	}
	var scores injection.Classifier // nil instead of an interface that holds a nil pointer
	if injections != nil {
		scores = injections
	}
	off := func(err error) bool { return errors.Is(err, models.ErrOff) }
	return build(embedder, set, injection.NewDetector(scores, threshold, off)), nil
}

func build(embedder models.Embedder, set *classify.Set, safety *injection.Detector) *Classifier {
	kept, _ := lru.New[key, *intent.Reading](maxKept) // fails for a size below 1 only
	return &Classifier{embedder: embedder, set: set, safety: safety, kept: kept, open: make(chan struct{}, maxOpen)}
}

// Classify returns the reading of an account's prompt, or why there is none: foreign (not plain English, the model's language), off, busy, late,
// another-model (the prototypes' vectors are not this model's) or failed. The reading is shared and must not be changed.
func (c *Classifier) Classify(ctx context.Context, account policy.Account, prompt string) (r *intent.Reading, reason string) {
	text := classify.Text(prompt)
	if !classify.English(text) {
		return nil, "foreign"
	}
	k := key(sha256.Sum256([]byte(string(account) + "\x00" + prompt)))
	if r, ok := c.kept.Get(k); ok {
		return r, ""
	}
	select {
	case c.open <- struct{}{}:
	default:
		return nil, "busy"
	}
	j := &classification{done: make(chan struct{}), reason: "failed"}
	guard.Go(func() {
		defer func() { <-c.open }()
		defer close(j.done)
		c.classify(j, k, text, prompt)
	})
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	select {
	case <-j.done:
		return j.reading.Load(), j.reason
	case <-ctx.Done():
	}
	if r := j.reading.Load(); r != nil {
		return r, ""
	}
	return nil, "late"
}

// classification is a run in progress. The reading is set before the run is over, without the verdict on injections.
type classification struct {
	reading atomic.Pointer[intent.Reading]
	done    chan struct{}
	reason  string // why there is no reading; valid once it is done
}

// classify does a run, and stores its result if it is complete.
func (c *Classifier) classify(j *classification, k key, text, prompt string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	reading, reason := c.read(ctx, text)
	if reason != "" {
		j.reason = reason
		return
	}
	j.reading.Store(&reading)
	j.reason = ""
	if c.safety == nil {
		c.kept.Add(k, &reading)
		return
	}
	f, err := c.safety.Learn(ctx, c.safety.KeyOf([]byte(prompt)), prompt, injection.NewBudget())
	if err != nil {
		return
	}
	whole, score := reading, f.Score(injection.User)
	whole.Injection, whole.Unsafe = &score, score >= c.safety.Threshold()
	j.reading.Store(&whole)
	if f.Scored { // else the model of l8 may be ready for the next request
		c.kept.Add(k, &whole)
	}
}

// read returns the reading from the embedder's vector of a text.
func (c *Classifier) read(ctx context.Context, text string) (r intent.Reading, reason string) {
	v, err := c.embedder.Embed(ctx, text)
	if err != nil {
		return r, reasonOf(err)
	}
	if c.embedder.Tag() != c.set.Tag {
		return r, "another-model"
	}
	r, ok := c.set.Classify(v)
	if !ok {
		return r, "another-model"
	}
	return r, ""
}

func reasonOf(err error) string {
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
