// Package injection finds instructions for a model in texts that should hold none: overrides of its instructions, changes of its role, requests to pass data
// on, hidden marks. Texts are decoded first, then matched with patterns and scored by a local classifier, and both make one score. It does not know what a text
// is part of, beyond its source, nor what happens to one that holds instructions.
package injection

import (
	"context"
	"errors"
	"runtime"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Source is where a text of a request comes from.
type Source uint8

// The sources.
const (
	User     Source = iota // a user's turn
	Result                 // the result of a tool
	Document               // a document, or a result of a search
	sources
)

var sourceNames = [sources]string{"user", "tool_result", "document"}

// String is the source's name.
func (s Source) String() string { return sourceNames[s] }

// Sources are all.
func Sources() []Source { return []Source{User, Result, Document} }

// Classifier scores texts. Safe for concurrent use.
type Classifier interface {
	// Score is the probability that a text holds instructions for a model, from 0 to 1.
	Score(ctx context.Context, text string) (float64, error)
	// Tag identifies the model: scores of different tags are not comparable. It is "" before the first score.
	Tag() string
}

// Finding is what was found in a text. It does not depend on the text's source, but for its scores.
type Finding struct {
	Kinds   Kinds   // of the patterns that match
	Pattern float64 // how much the patterns of one place weigh together, at most
	Model   float64 // the classifier's highest score
	Scored  bool    // the classifier had its say, or none was needed
	Encoded bool    // a pattern matches in what was encoded or hidden
	Partial bool    // the text is too long: of some of it nothing is known, or not what the classifier says

	scores [sources]float64
}

// trust is how much the classifier's score weighs by source. It is trained for results of tools, but is as sure of some code and documents: alone it never
// reaches the default threshold. Users give instructions all the time.
var trust = [sources]float64{User: 0.75, Result: 0.88, Document: 0.88}

// Score is the probability that a text of a source holds instructions that it should not hold, from 0 to 1: in one of its parts, either the patterns are right,
// or the classifier.
func (f *Finding) Score(s Source) float64 { return f.scores[s] }

// note adds what a unit says.
func (f *Finding) note(u *unit) {
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

// maxText is how many bytes of a text are looked at: of a longer one its beginning and its end.
const maxText = 256 << 10

// Detector looks into texts. Safe for concurrent use.
type Detector struct {
	classifier Classifier // nil: patterns alone
	off        func(error) bool
	threshold  float64
	memo       memo
	windows    *lru.Cache[memoKey, float64] // what the classifier says
	long       chan struct{}                // one for each long text that is read
}

// longText is how many bytes a text has that takes tens of milliseconds to read. Half of the processors read such texts, at most.
const longText = 16 << 10

// NewDetector makes a detector for a threshold (0 means the default). Without a classifier (nil), or with one that does not run, which off tells by its errors, it
// uses patterns alone. The classifier is asked about the parts of a text for which its score can make the difference to the threshold.
func NewDetector(c Classifier, threshold float64, off func(error) bool) *Detector {
	if threshold <= 0 {
		threshold = DefaultThreshold
	}
	readable()                                         // is made now: the first request would have its verdict too late
	windows, _ := lru.New[memoKey, float64](memoTexts) // fails for a size below 1 only
	return &Detector{classifier: c, off: off, threshold: threshold, memo: newMemo(), windows: windows, long: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// Threshold is the score from which a text counts as an injection.
func (d *Detector) Threshold() float64 { return d.threshold }

// Find looks into a text. With an error of the classifier or of ctx, the finding is that of the patterns alone, or of those that were tried.
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
		f.note(&units[i])
	}
	return f, err
}

// read makes units of a text. The error is what ctx says.
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

// Worst is the part of a text that looks most like instructions, decoded: what another model should read.
func (d *Detector) Worst(ctx context.Context, text string) (part string) {
	units, err := d.read(ctx, text)
	if err != nil {
		return ""
	}
	most := -1.0
	for i := range units {
		if u := &units[i]; u.text != "" && u.weight() > most {
			part, most = u.text, u.weight()
		}
	}
	return part
}

// score has the classifier score units. f.Scored is false if it did not, though its score could make the difference.
func (d *Detector) score(ctx context.Context, units []unit, b *Budget, f *Finding) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range units {
		if combined(units[i].weight(), 0, User) >= d.threshold { // nothing can change that
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

// window scores one unit, unless that is known.
func (d *Detector) window(ctx context.Context, u *unit, b *Budget) (err error) {
	k, tag := d.KeyOf([]byte(u.text)), d.tag()
	if score, ok := d.windows.Get(d.memo.with(k, tag)); ok && tag != "" {
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
		d.windows.Add(d.memo.with(k, tag), u.model)
	}
	return nil
}

// matters reports whether the classifier's score of a unit can make the difference to the threshold. Of code it is not asked: it is sure of too much.
func (d *Detector) matters(u *unit) bool {
	return combined(u.weight(), 1, Result) >= d.threshold && !u.isCode()
}

// Known is what was found in the texts of a key before; ok is false if they were not looked at, or not with the classifier as it is now.
func (d *Detector) Known(k Key) (f Finding, ok bool) { return d.memo.get(k, d.tag()) }

// Learn is Find for the text of a key, within a request's budget. The finding is remembered; one that lacks a score, until the classifier runs.
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
