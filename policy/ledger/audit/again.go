package audit

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Finding is something that a check cannot explain, and that gateways may be about to: what they have in hand is in several files or databases, or in
// the charge log of another machine, before it is in all of them.
type Finding struct {
	Check   string // its name
	Subject string // a request, payment, journal or log, so that later looks find the same
	Text    string
}

// Again is what an audit looked at again, and how that ended.
type Again struct {
	Seconds     float64  `json:"seconds"`     // until all was explained, or the audit waited no longer
	For         []string `json:"for"`         // what was found first; at most 100
	Found       int      `json:"found"`       // how many that were
	Unexplained int      `json:"unexplained"` // how many of them are offending
}

// The pauses between looks.
const (
	firstPause = 20 * time.Millisecond
	mostPause  = 500 * time.Millisecond
)

// Settle looks again at what was found, until nothing of it is left or the report's time is over, and returns the rest as the last look found it. look is
// given what is left, and finds what is wrong with these subjects now. What only a later look finds is not of the audit's moment, and is left out.
func (r *Report) Settle(ctx context.Context, found []Finding, look func(context.Context, []Finding) ([]Finding, error)) ([]Finding, error) {
	if len(found) == 0 {
		return nil, nil
	}
	if r.Again == nil {
		r.Again = &Again{}
	}
	for _, f := range found {
		r.Again.For = append(r.Again.For, f.Text)
	}
	r.Again.For = r.Again.For[:min(len(r.Again.For), most)]
	r.Again.Found += len(found)
	began := time.Now()
	left, err := settle(ctx, found, look, r.Left)
	waited := time.Since(began)
	r.Left = max(0, r.Left-waited)
	r.Again.Seconds += waited.Round(time.Millisecond).Seconds()
	r.Again.Unexplained += len(left)
	return left, err
}

func settle(ctx context.Context, left []Finding, look func(context.Context, []Finding) ([]Finding, error), patience time.Duration) ([]Finding, error) {
	over := time.Now().Add(patience)
	for pause := firstPause; len(left) > 0; pause = min(2*pause, mostPause) {
		rest := time.Until(over)
		if rest <= 0 {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(pause, rest)):
		}
		now, err := look(ctx, left)
		if err != nil {
			return nil, err
		}
		left = slices.DeleteFunc(now, func(f Finding) bool {
			return !slices.ContainsFunc(left, func(before Finding) bool { return before.Check == f.Check && before.Subject == f.Subject })
		})
	}
	return left, nil
}

// AddFindings adds a check with what of some findings is about it.
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
