// Package injection finds instructions for a model in texts that should have none: overrides of its instructions, changes of its role, exfiltration of data,
// hidden marks. Texts are decoded, matched with patterns and scored by a local classifier; both results make one score. The package knows only the source of a
// text, neither its request nor the reaction to a finding.
package injection

import (
	"context"
	"errors"
	"runtime"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/internal/guard"
)

// Source is the origin of a text in a request.
type Source uint8

// The sources.
const (
	User     Source = iota // a user's turn
	Result                 // the result of a tool
	Document               // a document, or a result of a search
	sources
)

var sourceNames = [sources]string{"user", "tool_result", "document"}

// String returns the source's name.
func (s Source) String() string { return sourceNames[s] }

// Sources returns all sources.
func Sources() []Source { return []Source{User, Result, Document} }

// Classifier scores texts. Safe for concurrent use.
type Classifier interface {
	// Score returns the probability that a text has instructions for a model, from 0 to 1.
	Score(ctx context.Context, text string) (float64, error)
	// Tag identifies the model: scores with different tags are not comparable. It is "" before the first score.
	Tag() string
}

// Finding is the result for a text. Only its scores depend on the text's source.
type Finding struct {
	Kinds   Kinds   // of the matching patterns
	Pattern float64 // the highest combined weight of the patterns in one unit
	Model   float64 // the classifier's highest score
	Scored  bool    // the classifier scored the text, or no score was needed
	Encoded bool    // a pattern matched in an encoded or hidden part
	Partial bool    // the text is too long: some of it was not matched, or not scored

	scores [sources]float64
}

// trust is the weight of the classifier's score by source. The classifier is trained for results of tools, but has false positives in code and documents, so its
// score alone never reaches the default threshold. Users' texts legitimately have instructions.
var trust = [sources]float64{User: 0.75, Result: 0.88, Document: 0.88}

// Score returns the probability that a text of a source has illegitimate instructions, from 0 to 1: the highest probability, over its units, that the patterns or
// the classifier are right.
func (f *Finding) Score(s Source) float64 { return f.scores[s] }

// add adds the result of a unit.
func (f *Finding) add(u *unit) {
	w := u.weight()
	f.Kinds |= u.kinds
	f.Pattern, f.Model = max(f.Pattern, w), max(f.Model, u.model)
	f.Encoded = f.Encoded || u.encoded && u.kinds != 0
	for s := range f.scores {
		f.scores[s] = max(f.scores[s], combined(w, u.model, Source(s)))
	}
}

// DefaultThreshold is the score from which a text counts as an injection, chosen on the tuning part of the set in e2e/injectioneval.
const DefaultThreshold = 0.9

// maxText is the number of examined bytes of a text: of a longer one, the beginning and the end.
const maxText = 256 << 10

// Detector examines texts. Safe for concurrent use.
type Detector struct {
	classifier Classifier       // nil: only patterns
	off        func(error) bool // reports whether an error means that the classifier does not run
	threshold  float64
	memo       memo
	windows    *lru.Cache[memoKey, float64] // the classifier's scores
	long       chan struct{}                // semaphore of long texts
}

// longText is the length, in bytes, of texts that take tens of milliseconds. At most half of the processors examine such texts.
const longText = 16 << 10

// NewDetector returns a detector for a threshold (0 means the default). Without a classifier (nil), or if it does not run, which off reports for its errors, only
// patterns are used. The classifier scores only parts of a text for which its score can decide about the threshold.
func NewDetector(c Classifier, threshold float64, off func(error) bool) *Detector {
	if threshold <= 0 {
		threshold = DefaultThreshold
	}
	guard.Go(func() { plainPatterns() })               // the first request should not have to wait for them, nor the start
	windows, _ := lru.New[memoKey, float64](memoTexts) // fails for a size below 1 only
	return &Detector{classifier: c, off: off, threshold: threshold, memo: newMemo(), windows: windows, long: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// Threshold is the score from which a text counts as an injection.
func (d *Detector) Threshold() float64 { return d.threshold }

// Find examines a text. With an error of the classifier or of ctx, the finding is that of the patterns that were matched.
func (d *Detector) Find(ctx context.Context, text string) (Finding, error) {
	return d.find(ctx, text, nil)
}

func (d *Detector) find(ctx context.Context, text string, b *Budget) (f Finding, err error) {
	if !b.text(len(text)) {
		return f, ErrBudget
	}
	units, err := d.read(ctx, text)
	if err != nil {
		return f, err
	}
	f.Partial = len(text) > maxText
	err = d.score(ctx, units, b, &f)
	for i := range units {
		f.add(&units[i])
	}
	return f, err
}

// read decodes a text into units. The error is that of ctx.
func (d *Detector) read(ctx context.Context, text string) ([]unit, error) {
	if len(text) > longText {
		select {
		case d.long <- struct{}{}:
			defer func() { <-d.long }()
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v := decode(text)
	return v.units(ctx), nil
}

// Worst returns the decoded part of a text that looks most like instructions, for verification by another model.
func (d *Detector) Worst(ctx context.Context, text string) (part string) {
	units, err := d.read(ctx, text)
	if err != nil {
		return ""
	}
	highest := -1.0
	for i := range units {
		if u := &units[i]; u.text != "" && u.weight() > highest {
			part, highest = u.text, u.weight()
		}
	}
	return part
}

// score scores units with the classifier. f.Scored stays false if a score that could decide is missing.
func (d *Detector) score(ctx context.Context, units []unit, b *Budget, f *Finding) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range units {
		if combined(units[i].weight(), 0, User) >= d.threshold { // a score cannot change the result
			f.Scored = true
			return nil
		}
	}
	chosen, left := choose(units, d.matters)
	f.Partial = f.Partial || left > 0
	for _, u := range chosen {
		if d.classifier == nil {
			return nil
		}
		switch err := d.window(ctx, u, b); {
		case errors.Is(err, ErrBudget):
			return err
		case err != nil && d.off(err):
			return nil
		case err != nil:
			return err
		}
	}
	f.Scored = true
	return nil
}

// window scores one unit, unless its score is cached.
func (d *Detector) window(ctx context.Context, u *unit, b *Budget) (err error) {
	k, tag := d.KeyOf([]byte(u.text)), d.tag()
	if score, ok := d.windows.Get(d.memo.keyWith(k, tag)); ok && tag != "" {
		u.model = score
		return nil
	}
	if !b.window() {
		return ErrBudget
	}
	if u.model, err = d.classifier.Score(ctx, u.text); err != nil {
		return err
	}
	if tag := d.tag(); tag != "" {
		d.windows.Add(d.memo.keyWith(k, tag), u.model)
	}
	return nil
}

// matters reports whether the classifier's score of a unit can decide about the threshold. Code is not scored, because of false positives.
func (d *Detector) matters(u *unit) bool {
	return combined(u.weight(), 1, Result) >= d.threshold && !u.isCode()
}

// Cached returns the cached finding of a key; ok is false if there is none with the current classifier.
func (d *Detector) Cached(k Key) (f Finding, ok bool) { return d.memo.get(k, d.tag()) }

// Learn is Find for the text of a key, within a request's budget. The finding is cached; one without a score, only until the classifier runs.
func (d *Detector) Learn(ctx context.Context, k Key, text string, b *Budget) (Finding, error) {
	f, err := d.find(ctx, text, b)
	if tag := d.tag(); err == nil && (f.Scored || tag == "") {
		d.memo.put(k, tag, f)
	}
	return f, err
}

func (d *Detector) tag() string {
	if d.classifier == nil {
		return ""
	}
	return d.classifier.Tag()
}
