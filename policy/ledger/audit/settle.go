package audit

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Finding is a discrepancy that may be due to a change in progress: gateways write to several files and databases, and to the charge logs of other machines,
// one after the other.
type Finding struct {
	Check   string // its name
	Subject string // a request, payment, journal or log, which identifies the finding in later checks
	Text    string
}

// Again is the result of checking findings again.
type Again struct {
	Seconds     float64  `json:"seconds"`     // until all were explained, or the time was over
	For         []string `json:"for"`         // the texts of the first findings; at most 100
	Found       int      `json:"found"`       // number of first findings
	Unexplained int      `json:"unexplained"` // number of those that were not explained
}

// The pauses between checks.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Settle checks findings again, until none is left or the report's time is over, and returns the rest as last found. check is
// passed the remaining findings, and returns those of their subjects that it finds now. New findings are not of the audit's snapshot, and are left out.
func (r *Report) Settle(ctx context.Context, found []Finding, check func(context.Context, []Finding) ([]Finding, error)) ([]Finding, error) {
	if len(found) == 0 {
		return nil, nil
	}
	if r.Again == nil {
		r.Again = &Again{}
	}
	for _, f := range found {
		r.Again.For = append(r.Again.For, f.Text)
	}
	r.Again.For = r.Again.For[:min(len(r.Again.For), maxOffending)]
	r.Again.Found += len(found)
	began := time.Now()
	left, err := settle(ctx, found, check, r.Left)
	waited := time.Since(began)
	r.Left = max(0, r.Left-waited)
	r.Again.Seconds += waited.Round(time.Millisecond).Seconds()
	r.Again.Unexplained += len(left)
	return left, err
}

func settle(ctx context.Context, left []Finding, check func(context.Context, []Finding) ([]Finding, error), wait time.Duration) ([]Finding, error) {
	deadline := time.Now().Add(wait)
	for pause := firstPause; len(left) > 0; pause = min(2*pause, maxPause) {
		rest := time.Until(deadline)
		if rest <= 0 {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(pause, rest)):
		}
		now, err := check(ctx, left)
		if err != nil {
			return nil, err
		}
		left = slices.DeleteFunc(now, func(f Finding) bool {
			return !slices.ContainsFunc(left, func(before Finding) bool { return before.Check == f.Check && before.Subject == f.Subject })
		})
	}
	return left, nil
}

// AddFindings adds a check with those of some findings that are about it.
func (r *Report) AddFindings(check string, found []Finding) {
	var offending []string
	for _, f := range found {
		if f.Check == check {
			offending = append(offending, f.Text)
		}
	}
	r.Add(check, offending)
}

// String is the line of an audit's output.
func (a *Again) String() string {
	verdict := "all are explained by now"
	if a.Unexplained > 0 {
		verdict = fmt.Sprintf("%d are not explained", a.Unexplained)
	}
	return fmt.Sprintf("waited %.1f s for what may have been on its way, and looked again at %d: %s", a.Seconds, a.Found, verdict)
}
