package ledger

import (
	"context"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/audit"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/usage"
)

// Reports are read by package usage and checks are made by package audit, from a snapshot that includes waiting charges.

type (
	// Request is the record of one request.
	Request = usage.Request
	// RequestFilter selects requests. The zero value selects all.
	RequestFilter = usage.RequestFilter
	// Filter selects the requests of a sum. The zero value selects all.
	Filter = usage.Filter
	// By is the grouping of usage.
	By = usage.By
	// UsageRow is the sum of the requests that share a model, provider, subsystem or day.
	UsageRow = usage.Row
	// Query selects the requests that a report sums, and the dimensions.
	Query = usage.Query
	// Sum is the usage of the requests that share a value in every dimension of a query.
	Sum = usage.Sum
	// LayerSum is the savings of layers, for the same values.
	LayerSum = usage.LayerSum
	// Table is a report for output.
	Table = usage.Table
	// SavingRow is the savings of one layer on some requests.
	SavingRow = usage.SavingRow
	// Feedback is a caller's rating of an answer.
	Feedback = usage.Feedback
	// FeedbackRow is the mean feedback on requests of one task in one regime.
	FeedbackRow = usage.FeedbackRow
	// Refusal is a request that was refused before a provider was called: it is counted and has no row.
	Refusal = usage.Refusal
	// Report is the result of an audit.
	Report = audit.Report
	// Finding is a discrepancy that an audit cannot explain yet.
	Finding = audit.Finding
	// Unwritten are charges that are not in the store yet.
	Unwritten = chargelog.Unwritten
	// Waiting is the number and sum of some charges.
	Waiting = chargelog.Waiting
)

// The ways to sum usage.
const (
	ByModel     = usage.ByModel
	ByProvider  = usage.ByProvider
	BySubsystem = usage.BySubsystem
	ByDay       = usage.ByDay
	ByKey       = usage.ByKey
	ByProject   = usage.ByProject
	ByGolem     = usage.ByGolem
	ByLayer     = usage.ByLayer
)

// PerfectScore is the highest score of feedback.
const PerfectScore = usage.PerfectScore

// PartStake is the part in SpentByPart for payments from the operator's staked credit, under an empty account and agent.
const PartStake = usage.PartStake

// view takes a snapshot. Logs are read before the store: an entry that is applied in between is in both, and counts once. It must be closed.
func (l *Ledger) view(ctx context.Context) (v *usage.View, err error) {
	defer asUnavailable(&err)
	v = &usage.View{Own: l.pending.all()}
	if v.Others, err = l.otherLogs(); err != nil {
		return nil, err
	}
	return v, v.Open(ctx, l.reads)
}

// otherLogs reads the charges of other gateways that may not be in the store.
func (l *Ledger) otherLogs() (all []*chargelog.Entry, err error) {
	logs, err := chargelog.List(l.path)
	if err != nil {
		return nil, err
	}
	for id, prefix := range logs {
		if id == l.instance.Load() {
			continue
		}
		found, err := chargelog.Read(prefix)
		if err != nil {
			return nil, err
		}
		for _, e := range found.Unapplied() {
			if e.Charge != nil {
				all = append(all, e)
			}
		}
	}
	return all, nil
}

// Usage sums the usage of requests, in order of time by day, otherwise most expensive first. It reads the daily totals, which are kept longer than
// requests.
func (l *Ledger) Usage(ctx context.Context, f Filter, by By) (rows []UsageRow, err error) {
	defer asUnavailable(&err)
	v, err := l.view(ctx)
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	defer v.Close()
	return v.Usage(ctx, f, by)
}

// Savings sums the savings of layers, by layer, the greatest first.
func (l *Ledger) Savings(ctx context.Context, f Filter) (rows []SavingRow, err error) {
	defer asUnavailable(&err)
	v, err := l.view(ctx)
	if err != nil {
		return nil, fmt.Errorf("savings: %w", err)
	}
	defer v.Close()
	return v.Savings(ctx, f)
}

// Sums is a report of usage by one to three dimensions, see usage.View.Report; for reports by layer see LayerSums.
func (l *Ledger) Sums(ctx context.Context, q Query) (sums []Sum, err error) {
	defer asUnavailable(&err)
	v, err := l.view(ctx)
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	defer v.Close()
	return v.Report(ctx, q)
}

// LayerSums is a report of the savings of layers, by layer and up to two other dimensions.
func (l *Ledger) LayerSums(ctx context.Context, q Query) (sums []LayerSum, err error) {
	defer asUnavailable(&err)
	v, err := l.view(ctx)
	if err != nil {
		return nil, fmt.Errorf("savings: %w", err)
	}
	defer v.Close()
	return v.SavingsReport(ctx, q)
}

// AtProvider sums the requests that a provider answered in a period, by model. Requests older than the retention are not included.
func (l *Ledger) AtProvider(ctx context.Context, p policy.ProviderID, from, to time.Time) (rows []UsageRow, err error) {
	defer asUnavailable(&err)
	v, err := l.view(ctx)
	if err != nil {
		return nil, fmt.Errorf("usage at %s: %w", p, err)
	}
	defer v.Close()
	return v.AtProvider(ctx, p, from, to)
}

// Requests reads the selected requests, latest first. Requests older than the retention are deleted, and refusals are only stored as counters.
func (l *Ledger) Requests(ctx context.Context, f RequestFilter) (list []Request, err error) {
	defer asUnavailable(&err)
	v, err := l.view(ctx)
	if err != nil {
		return nil, fmt.Errorf("requests: %w", err)
	}
	defer v.Close()
	return v.Requests(ctx, f)
}

// Request reads one request of an account ("" for anonymous ones). The error is ErrUnknownRequest if there is none, or it is older than the
// retention. Only the latest refusals of this handle are included.
func (l *Ledger) Request(ctx context.Context, acct policy.Account, id string) (Request, error) {
	r, err := l.AnyRequest(ctx, id)
	if err == nil && r.Account != acct {
		return Request{}, fmt.Errorf("request %s: %w", id, ErrUnknownRequest)
	}
	return r, err
}

// AnyRequest reads one request of any account. The error is ErrUnknownRequest if there is none, or it is older than the retention. It includes
// the latest refusals of this handle.
func (l *Ledger) AnyRequest(ctx context.Context, id string) (r Request, err error) {
	defer asUnavailable(&err)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if e, ok := l.pending.entry(id); ok {
		return usage.RequestOf(e), nil
	}
	if r, ok := l.refused.Find(id); ok {
		return r, nil
	}
	r, ok, err := usage.Find(ctx, l.reads, id)
	if err == nil && !ok {
		r, err = l.findUnapplied(ctx, id)
	}
	if err != nil {
		return Request{}, fmt.Errorf("request %s: %w", id, err)
	}
	return r, nil
}

// findUnapplied finds a request that the store does not have in the logs of other gateways, or in the store, if it was applied meanwhile.
func (l *Ledger) findUnapplied(ctx context.Context, id string) (Request, error) {
	v, err := l.view(ctx)
	if err != nil {
		return Request{}, err
	}
	defer v.Close()
	r, ok, err := v.Find(ctx, id)
	if err == nil && !ok {
		err = ErrUnknownRequest
	}
	return r, err
}

// SpentByPart is the charges of each subsystem on the UTC day of a time, including pending charges and those of other gateways. Days before
// yesterday are deleted. It waits for the store even if the context ends.
func (l *Ledger) SpentByPart(ctx context.Context, acct policy.Account, agent string, day time.Time) (by map[string]policy.Micro, err error) {
	defer asUnavailable(&err)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := map[string]policy.Micro{}
	// The writer reads it, so that the sum includes exactly the charges whose ops have ended.
	err = l.do(func(b *book) error { return b.tally.SpentByPart(b.Book, acct, agent, usage.DayOf(day), out) }, nil)
	if commit.IsUnwritable(err) { // free requests are served during an outage
		err = usage.SpentByPart(ctx, l.reads, acct, agent, usage.DayOf(day), out)
	}
	if err != nil {
		return nil, fmt.Errorf("spent by agent %q of key %s: %w", agent, acct, err)
	}
	return out, nil
}

// Refuse counts a refusal. It is written within seconds; Request returns it for a while.
func (l *Ledger) Refuse(r Refusal) {
	if r.At.IsZero() {
		r.At = l.o.Now()
	}
	l.refused.Count(r)
}

// writeRefusals writes the counters; after an error they are kept.
func (l *Ledger) writeRefusals() {
	if l.StoreFailure() != nil {
		return
	}
	counts := l.refused.Take()
	if len(counts) == 0 {
		return
	}
	err := l.do(func(b *book) error { return b.tally.AddRefusals(b.Book, counts) }, nil)
	if err == nil {
		return
	}
	l.refused.PutBack(counts)
	if !commit.IsUnwritable(err) {
		l.o.Log.Error("ledger: refusals were not written", "error", err)
	}
}

// Audit checks the invariants on one snapshot of the store, while gateways may continue to write. It first returns the blocks of dead
// gateways. Discrepancies between charge logs and store are checked again, for at most Options.AuditWait. The error means that the audit failed to run; violations are in the report.
func (l *Ledger) Audit(ctx context.Context) (Report, error) {
	r, err := l.audit(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("audit: %w", err)
	}
	return r, nil
}

func (l *Ledger) audit(ctx context.Context) (r Report, err error) {
	if _, err := l.recoverDead(l.write); err != nil && !commit.IsUnwritable(err) {
		return Report{}, err
	}
	return audit.Run(ctx, l.reads, l.path, l.o.AuditWait, func() chargelog.Waiting { return l.Unwritten().InMemory })
}
