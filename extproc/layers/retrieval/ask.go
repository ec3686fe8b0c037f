package retrieval

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
)

// answered is what a source has found.
type answered struct {
	*Source

	results []Result
	why     string // there are none for a reason; "" otherwise
}

// The reasons of this package's own.
const (
	whyPrivate = "private" // it may not see the request
	whySecret  = "secret"  // the question has what must not leave the gateway
	whyTimeout = "timeout"
	whyFailed  = "failed"
)

// ask asks the sources, all at the same time. The error is a fault.
func (l Layer) ask(ctx context.Context, x *pipeline.Exchange, q *Question) ([]answered, error) {
	outside, why := l.masked(ctx, x, q)
	var all []answered
	for i := range l.Sources {
		s := &l.Sources[i]
		if !s.concerns(x) {
			continue
		}
		a := answered{Source: s}
		if !s.maySee(x) {
			a.why = whyPrivate
		} else if !s.Local {
			a.why = why
		}
		all = append(all, a)
	}
	findAll(ctx, all, q, outside)
	for i := range all {
		if err := all[i].report(x); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// findAll has the sources find, and waits for all of them: each has its own time limit.
func findAll(ctx context.Context, all []answered, q, outside *Question) {
	type reply struct {
		at      int
		results []Result
		err     error
	}
	replies := make(chan reply, len(all))
	waiting := 0
	for i := range all {
		if all[i].why != "" {
			continue
		}
		s, question := all[i].Source, outside
		if s.Local {
			question = q
		}
		waiting++
		guard.Go(func() {
			r := reply{at: i, err: errEnded}
			defer func() { replies <- r }()
			own, cancel := context.WithTimeout(ctx, s.Timeout)
			defer cancel()
			r.results, r.err = s.Find(own, question)
		})
	}
	for range waiting {
		r := <-replies
		all[r.at].results, all[r.at].why = r.results, reasonOf(r.err)
	}
}

// errEnded is of a finder that panicked.
var errEnded = errors.New("it ended early")

func reasonOf(err error) string {
	var failed *FailedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &failed):
		return failed.Why
	case errors.Is(err, context.DeadlineExceeded):
		return whyTimeout
	}
	return whyFailed
}

// report notes a source that was not asked, or did not answer. The error is a fault, where the request must not go on without it.
func (a *answered) report(x *pipeline.Exchange) error {
	if a.why == "" || a.Local {
		return nil
	}
	decision := policy.DecisionFailed
	if a.why == whyPrivate || a.why == whySecret {
		decision = policy.DecisionSkipped
	}
	x.Tag(policy.Tag{By: Name, Rule: a.Name, Stage: policy.StageRequest, Decision: decision, Reason: a.why, Shadow: a.Shadow})
	if decision == policy.DecisionFailed && a.Refuse && !a.Shadow {
		return errDown(a.Name)
	}
	return nil
}

// masked is the question as sources outside of this program get it: personal data of a request that is masked for providers are masked for them, too, without a way
// back. why is why they get none.
func (l Layer) masked(ctx context.Context, x *pipeline.Exchange, q *Question) (outside *Question, why string) {
	if l.Personal == nil {
		return q, ""
	}
	spans, err := l.Personal.Find(ctx, q.Text)
	if err != nil {
		return nil, whyFailed
	}
	masks := false
	if l.Guard != nil {
		_, does := l.Guard.Guard(&x.Principal, x.Hints.SecurityClass)
		masks = does == "mask" || does == "block"
	}
	for _, s := range spans {
		if s.Type.Forbidden() {
			return nil, whySecret
		}
	}
	if !masks || len(spans) == 0 {
		return q, ""
	}
	again := *q
	again.Text = redact(q.Text, spans)
	return &again, ""
}

// redact puts the names of types in the place of spans, which are in order and do not overlap.
func redact(text string, spans []pii.Span) string {
	var b strings.Builder
	end := 0
	for _, s := range spans {
		if s.Start < end {
			continue
		}
		fmt.Fprintf(&b, "%s[%s]", text[end:s.Start], s.Type)
		end = s.End
	}
	return b.String() + text[end:]
}
