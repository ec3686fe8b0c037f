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

// sourceAnswer is the answer of a source.
type sourceAnswer struct {
	*Source

	results []Result
	reason  string // why there are no results; "" if the source has answered
}

// Reasons.
const (
	reasonPrivate = "private" // the source may not see the request
	reasonSecret  = "secret"  // the question has a private key or a seed phrase
	reasonTimeout = "timeout"
	reasonFailed  = "failed"
)

// ask asks all sources concurrently. The error is a fault.
func (l Layer) ask(ctx context.Context, x *pipeline.Exchange, q *Question) ([]sourceAnswer, error) {
	external, reason := l.externalQuestion(ctx, x, q)
	var all []sourceAnswer
	for i := range l.Sources {
		s := &l.Sources[i]
		if !s.appliesTo(x) {
			continue
		}
		a := sourceAnswer{Source: s}
		if !s.maySee(x) {
			a.reason = reasonPrivate
		} else if !s.Local {
			a.reason = reason
		}
		all = append(all, a)
	}
	findAll(ctx, all, q, external)
	for i := range all {
		if err := all[i].report(x); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// findAll calls the sources concurrently and waits for all of them; each has its own time limit.
func findAll(ctx context.Context, all []sourceAnswer, q, external *Question) {
	type reply struct {
		at      int
		results []Result
		err     error
	}
	replies := make(chan reply, len(all))
	waiting := 0
	for i := range all {
		if all[i].reason != "" {
			continue
		}
		s, question := all[i].Source, external
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
		all[r.at].results, all[r.at].reason = r.results, reasonOf(r.err)
	}
}

// errEnded is the error of a finder that panicked.
var errEnded = errors.New("it ended early")

func reasonOf(err error) string {
	var failed *FailedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &failed):
		return failed.Why
	case errors.Is(err, context.DeadlineExceeded):
		return reasonTimeout
	}
	return reasonFailed
}

// report records a source that was not asked, or did not answer. The error is a fault, if the request must not continue without it.
func (a *sourceAnswer) report(x *pipeline.Exchange) error {
	if a.reason == "" || a.Local {
		return nil
	}
	decision := policy.DecisionFailed
	if a.reason == reasonPrivate || a.reason == reasonSecret {
		decision = policy.DecisionSkipped
	}
	x.Tag(policy.Tag{By: Name, Rule: a.Name, Stage: policy.StageRequest, Decision: decision, Reason: a.reason, Shadow: a.Shadow})
	if decision == policy.DecisionFailed && a.Refuse && !a.Shadow {
		return errDown(a.Name)
	}
	return nil
}

// externalQuestion is the question for sources outside of this process: if personal data of the request are masked for providers, they are redacted. reason is why
// these sources are not asked.
func (l Layer) externalQuestion(ctx context.Context, x *pipeline.Exchange, q *Question) (external *Question, reason string) {
	if l.Personal == nil {
		return q, ""
	}
	spans, err := l.Personal.Find(ctx, q.Text)
	if err != nil {
		return nil, reasonFailed
	}
	masks := false
	if l.Guard != nil {
		_, mode := l.Guard.Guard(&x.Principal, x.Hints.SecurityClass)
		masks = mode == "mask" || mode == "block"
	}
	for _, s := range spans {
		if s.Type.Forbidden() {
			return nil, reasonSecret
		}
	}
	if !masks || len(spans) == 0 {
		return q, ""
	}
	redacted := *q
	redacted.Text = redact(q.Text, spans)
	return &redacted, ""
}

// redact replaces spans, which are in order, by the names of their types.
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
