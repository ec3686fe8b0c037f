package admin

import (
	"context"
	"encoding/json"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// ExportedRequest is the export format of a request.
type ExportedRequest struct {
	ID        string            `json:"request_id"`
	At        string            `json:"created_at"`
	Key       policy.Account    `json:"key"`
	Project   string            `json:"project"` // the key's current project
	Golem     string            `json:"golem"`
	Subsystem string            `json:"subsystem"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Status    string            `json:"status"`
	ledger.Tokens
	Cost         policy.Micro    `json:"cost_usd"`    // cost of the request
	Charged      policy.Micro    `json:"charged_usd"` // amount paid; less than the cost where the balance was too low
	ProviderCost policy.Pico     `json:"provider_cost_usd"`
	Saved        policy.Micro    `json:"saved_usd"`
	Record       json.RawMessage `json:"record,omitempty"`
}

// ExportedPosting is the export format of a posting.
type ExportedPosting struct {
	Journal int64          `json:"journal"`
	At      string         `json:"created_at"`
	Kind    string         `json:"kind"`
	Ref     string         `json:"ref"`
	Account policy.Account `json:"account"`
	Amount  policy.Micro   `json:"amount_usd"`
}

// ExportRequests yields the requests of a period, one at a time, from one snapshot, in the order in which they were charged. records selects whether
// their records are included.
func (s *Service) ExportRequests(ctx context.Context, f ledger.RequestFilter, records bool, yield func(*ExportedRequest) error) error {
	if err := s.checkKey(ctx, f.Account); err != nil {
		return err
	}
	keys, err := s.Books.Keys(ctx)
	if err != nil {
		return faultOf(err)
	}
	projects := make(map[policy.Account]string, len(keys))
	for i := range keys {
		projects[keys[i].ID] = keys[i].Project
	}
	return faultOf(s.Books.EachRequest(ctx, f, func(r *ledger.Request) error {
		e := ExportedRequest{
			ID: r.RequestID, At: r.At.UTC().Format(time.RFC3339Nano), Key: r.Account, Project: projects[r.Account], Golem: r.Agent, Subsystem: r.Subsystem,
			Provider: r.Provider, Model: r.Model, Status: r.Status, Tokens: r.Tokens, Cost: r.Amount, Charged: r.Charged, ProviderCost: r.ProviderCost,
		}
		for i := range r.Savings {
			e.Saved = e.Saved.Plus(r.Savings[i].Amount)
		}
		if records {
			e.Record = RecordOf(r)
		}
		return yield(&e)
	}))
}

// ExportJournal yields the postings of a period, one at a time, from one snapshot.
func (s *Service) ExportJournal(ctx context.Context, f ledger.RequestFilter, yield func(*ExportedPosting) error) error {
	if err := s.checkKey(ctx, f.Account); err != nil {
		return err
	}
	return faultOf(s.Books.EachBooking(ctx, f, func(p *ledger.Booking) error {
		return yield(&ExportedPosting{p.Journal, p.At.UTC().Format(time.RFC3339Nano), p.Kind, p.Ref, p.Account, p.Amount})
	}))
}

// Feedback sums the callers' feedback on answers, by task and regime, for one key or, with "", for all.
func (s *Service) Feedback(ctx context.Context, key policy.Account) ([]ledger.FeedbackRow, error) {
	if err := s.checkKey(ctx, key); err != nil {
		return nil, err
	}
	rows, err := s.Books.FeedbackByTask(ctx, key)
	return rows, faultOf(err)
}

// Staked is the amount that staked credit has paid on the current UTC day.
type Staked struct {
	Used policy.Micro `json:"used_usd"`
}

// Staked returns the current day's amount.
func (s *Service) Staked(ctx context.Context) (Staked, error) {
	parts, err := s.Books.SpentByPart(ctx, "", "", time.Now())
	return Staked{parts[ledger.PartStake]}, faultOf(err)
}
