package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/usage"
)

// Requests returns past requests, latest first. An unknown key in the filter is a fault.
func (s *Service) Requests(ctx context.Context, f ledger.RequestFilter) ([]ledger.Request, error) {
	if err := s.checkKey(ctx, f.Account); err != nil {
		return nil, err
	}
	found, err := s.Books.Requests(ctx, f)
	return found, faultOf(err)
}

// Request returns the record of one request of any key, with the state of its payment.
func (s *Service) Request(ctx context.Context, id string) (json.RawMessage, error) {
	if !isPlain(id) {
		return nil, faultOf(fmt.Errorf("request %q: %w", fault.Clip(id), ledger.ErrUnknownRequest))
	}
	found, err := s.Books.AnyRequest(ctx, id)
	if err != nil {
		return nil, faultOf(err)
	}
	record := RecordOf(&found)
	if s.Payment == nil {
		return record, nil
	}
	state, ok, err := s.Payment(ctx, found.RequestID)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "payments cannot be read at the moment", err)
	}
	if ok {
		record = withPayment(record, state)
	}
	return record, nil
}

// withPayment adds the state of the request's payment to its record.
func withPayment(record, state json.RawMessage) json.RawMessage {
	out := append([]byte(nil), bytes.TrimSuffix(record, []byte{'}'})...)
	return append(append(append(out, `,"payment":`...), state...), '}')
}

// RecordOf returns a request's stored record, with the id of its key as the first member. For a request without a record it returns the ledger's
// columns.
func RecordOf(r *ledger.Request) json.RawMessage {
	key, err := json.Marshal(struct {
		Key policy.Account `json:"key"` // "": anonymous
	}{r.Account})
	if err == nil && json.Valid(r.Record) && len(r.Record) > 2 && r.Record[0] == '{' {
		return append(append(key[:len(key)-1], ','), r.Record[1:]...)
	}
	record, _ := json.Marshal(map[string]any{ // cannot fail for these types
		"key": r.Account, "request_id": r.RequestID, "created_at": r.At.UTC(), "status": r.Status, "provider": r.Provider, "model": r.Model,
		"input_tokens": r.Tokens.Input, "output_tokens": r.Tokens.Output, "cost_usd": r.Charged, "provider_cost_usd": r.ProviderCost,
	})
	return record
}

// Row returns a request for a list: its record, completed from the ledger, and the charged amount, which is less than the cost where the balance was
// too low.
func Row(r *ledger.Request) json.RawMessage {
	record := RecordOf(r)
	var has map[string]json.RawMessage
	_ = json.Unmarshal(record, &has) // RecordOf returns an object
	out := bytes.TrimSuffix(record, []byte{'}'})
	for _, m := range []struct {
		name  string
		value any
	}{
		{"request_id", r.RequestID},
		{"created_at", r.At.UTC()},
		{"status", r.Status},
		{"provider", r.Provider},
		{"model", r.Model},
		{"input_tokens", r.Tokens.Input},
		{"output_tokens", r.Tokens.Output},
		{"charged_usd", r.Charged},
	} {
		if _, ok := has[m.name]; !ok {
			value, _ := json.Marshal(m.value) // cannot fail for these types
			out = append(append(out, `,"`+m.name+`":`...), value...)
		}
	}
	return append(out, '}')
}

// Usage returns requests, tokens and cost, summed by model, provider, subsystem or day.
func (s *Service) Usage(ctx context.Context, f ledger.Filter, by ledger.By) ([]ledger.UsageRow, error) {
	switch by {
	case ledger.ByModel, ledger.ByProvider, ledger.BySubsystem, ledger.ByDay, ledger.ByKey, ledger.ByProject, ledger.ByGolem:
	default:
		return nil, invalid("by", " %q, expected model, provider, subsystem, day, key, project, golem or layer", fault.Clip(string(by)))
	}
	if err := s.checkKey(ctx, f.Account); err != nil {
		return nil, err
	}
	rows, err := s.Books.Usage(ctx, f, by)
	return rows, faultOf(err)
}

// Savings returns the savings of each layer of the pipeline.
func (s *Service) Savings(ctx context.Context, f ledger.Filter) ([]ledger.SavingRow, error) {
	if err := s.checkKey(ctx, f.Account); err != nil {
		return nil, err
	}
	rows, err := s.Books.Savings(ctx, f)
	return rows, faultOf(err)
}

// checkKey returns a fault if the key does not exist; "" is every key.
func (s *Service) checkKey(ctx context.Context, id policy.Account) error {
	if id == "" {
		return nil
	}
	_, err := s.row(ctx, id)
	return err
}

// UsageTable is a report of usage or, with a layer among its dimensions, of savings. Its numbers are exact decimals.
type UsageTable struct {
	By      []ledger.By `json:"by"`
	Columns []string    `json:"columns"` // of the numbers, which follow the names
	Rows    [][]string  `json:"rows"`    // names, and then numbers
	Total   []string    `json:"total"`   // of the numbers
}

// Table sums usage by one to three dimensions.
func (s *Service) Table(ctx context.Context, q ledger.Query) (UsageTable, error) {
	if err := s.checkKey(ctx, q.Account); err != nil {
		return UsageTable{}, err
	}
	if slices.Contains(q.By, ledger.ByLayer) {
		sums, err := s.Books.LayerSums(ctx, q)
		return tableOf(usage.LayerTableOf(q.By, sums), usage.TotalOfLayers(sums)), faultOf(err)
	}
	sums, err := s.Books.Sums(ctx, q)
	total, _ := usage.Total(sums)
	return tableOf(usage.TableOf(q.By, sums), total), faultOf(err)
}

func tableOf(t *ledger.Table, total []string) UsageTable {
	return UsageTable{t.By, t.Columns, t.Rows, total}
}
