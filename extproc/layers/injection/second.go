package injection

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/injection"
	"bardo.money/gateway/internal/event"
)

// A second model, too slow to be waited for, scores the texts that are in doubt (D-38). It changes no verdict: operators learn from it how good those are.

// inDoubt is the score from which a text is in doubt.
const inDoubt = 0.5

// secondTime bounds one opinion.
const secondTime = 10 * time.Second

// doubts reports whether a second model is asked about a span.
func (l Layer) doubts(sp *span) bool {
	return l.Second != nil && sp.finding.Score(sp.source) >= inDoubt
}

// haveDoubted has a second model score a span that was waited for, beside the request.
func (l Layer) haveDoubted(o *outcome, sp *span, text string) {
	if !l.doubts(sp) {
		return
	}
	of, text := *sp, injection.Clip(text)
	l.Beside.run(len(text), func() { l.askSecond(o, of, text) })
}

// eventSecond is the event of a second opinion.
var eventSecond = event.Declare[secondOpinion]("inference:injection_second_opinion", "A second model scored a doubtful text.")

type secondOpinion struct {
	RequestID string `json:"request_id"`
	Source    string `json:"source"`
	Score     string `json:"score"`
	Second    string `json:"second"` // the other model's score
	Agrees    bool   `json:"agrees"`
}

// askSecond scores the part of a text that looks most like instructions.
func (l Layer) askSecond(o *outcome, sp span, text string) {
	ctx, cancel := context.WithTimeout(context.Background(), secondTime)
	defer cancel()
	score, err := l.Second.Score(ctx, l.Detector.Worst(ctx, text))
	opinion := "unscored"
	agrees := (score >= l.Second.Threshold()) == l.bad(&sp)
	switch {
	case err == nil && agrees:
		opinion = "agrees"
	case err == nil:
		opinion = "disagrees"
	}
	if l.Meter != nil {
		l.Meter.InjectionDoubted(sp.source.String(), opinion)
	}
	if err == nil && l.Events.On() {
		eventSecond.Emit(l.Events, o.account, secondOpinion{o.request, sp.source.String(), printed(sp.finding.Score(sp.source)), printed(score), agrees})
	}
}
