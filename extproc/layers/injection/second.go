package injection

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/injection"
	"bardo.money/gateway/internal/event"
)

// A second model, which is too slow for requests to wait for, scores doubtful texts in the background (D-38). It changes no verdict; operators use it to
// evaluate them.

// doubtThreshold is the score from which a text is doubtful.
const doubtThreshold = 0.5

// secondTimeout bounds one score of the second model.
const secondTimeout = 10 * time.Second

// isDoubtful reports whether the second model scores a span.
func (l Layer) isDoubtful(sp *span) bool {
	return l.SecondOpinion != nil && sp.finding.Score(sp.source) >= doubtThreshold
}

// startSecond starts the second model in the background, for a span that the request waited for.
func (l Layer) startSecond(o *outcome, sp *span, text string) {
	if !l.isDoubtful(sp) {
		return
	}
	of, text := *sp, injection.Clip(text)
	l.Background.run(len(text), func() { l.scoreAgain(o, of, text) })
}

// eventSecond is the event of a score of the second model.
var eventSecond = event.Declare[secondScore]("inference:injection_second_opinion", "A second model scored a doubtful text.")

type secondScore struct {
	RequestID string `json:"request_id"`
	Source    string `json:"source"`
	Score     string `json:"score"`
	Second    string `json:"second"` // the other model's score
	Agrees    bool   `json:"agrees"`
}

// scoreAgain has the second model score the part of a text that is most like instructions.
func (l Layer) scoreAgain(o *outcome, sp span, text string) {
	ctx, cancel := context.WithTimeout(context.Background(), secondTimeout)
	defer cancel()
	score, err := l.SecondOpinion.Score(ctx, l.Detector.Worst(ctx, text))
	verdict := "unscored"
	agrees := (score >= l.SecondOpinion.Threshold()) == l.bad(&sp)
	switch {
	case err == nil && agrees:
		verdict = "agrees"
	case err == nil:
		verdict = "disagrees"
	}
	if l.Meter != nil {
		l.Meter.InjectionDoubted(sp.source.String(), verdict)
	}
	if err == nil && l.Events.On() {
		eventSecond.Emit(l.Events, o.account, secondScore{o.request, sp.source.String(), printed(sp.finding.Score(sp.source)), printed(score), agrees})
	}
}
