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

// Requests are past requests, the latest first. A filter's unknown key is a fault.
func (s *Service) Requests(ctx context.Context, f ledger.RequestFilter) ([]ledger.Request, error) {
	if err := s.known(ctx, f.Account); err != nil {
		return nil, err
	}
	found, err := s.Books.Requests(ctx, f)
	return found, faultOf(err)
}

// Request is the record of one request of whatever key, with how its payment stands.
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

// withPayment adds to a record how the payment for its request stands.
func withPayment(record, state json.RawMessage) json.RawMessage {
	out := append([]byte(nil), bytes.TrimSuffix(record, []byte{'}'})...)
	return append(append(append(out, `,"payment":`...), state...), '}')
}

// RecordOf is a request's record as it is stored, with the id of its key as the first member. Of a request without a record it has what the
// ledger's columns say.
func RecordOf(r *ledger.Request) json.RawMessage {
	key, err := json.Marshal(struct {
		Key policy.Account `json:"key"` // "": anonymous
	}{r.Account})
	if err == nil && json.Valid(r.Record) && len(r.Record) > 2 && r.Record[0] == '{' {
		return append(append(key[:len(key)-1], ','), r.Record[1:]...)
	}
	record, _ := json.Marshal(map[string]any{ // nothing in it can fail
		"key": r.Account, "request_id": r.RequestID, "created_at": r.At.UTC(), "status": r.Status, "provider": r.Provider, "model": r.Model,
		"input_tokens": r.Tokens.Input, "output_tokens": r.Tokens.Output, "cost_usd": r.Charged, "provider_cost_usd": r.ProviderCost,
	})
	return record
}

// Row is what a list shows of a request: its record, with what the record may lack, and what was charged, which is less than the cost where the balance was too low.
func Row(r *ledger.Request) json.RawMessage {
	record := RecordOf(r)
	var has map[string]json.RawMessage
	_ = json.Unmarshal(record, &has) // RecordOf makes an object
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
			value, _ := json.Marshal(m.value) // nothing in it can fail
			out = append(append(out, `,"`+m.name+`":`...), value...)
		}
	}
	return append(out, '}')
}

// Usage is what was used and spent, summed by model, provider, subsystem or day.
func (s *Service) Usage(ctx context.Context, f ledger.Filter, by ledger.By) ([]ledger.UsageRow, error) {
	switch by {
	case ledger.ByModel, ledger.ByProvider, ledger.BySubsystem, ledger.ByDay, ledger.ByKey, ledger.ByProject, ledger.ByGolem:
	default:
		return nil, invalid("by", " %q, expected model, provider, subsystem, day, key, project, golem or layer", fault.Clip(string(by)))
	}
	if err := s.known(ctx, f.Account); err != nil {
		return nil, err
	}
	rows, err := s.Books.Usage(ctx, f, by)
	return rows, faultOf(err)
}

// Savings is what each layer of the pipeline saved.
func (s *Service) Savings(ctx context.Context, f ledger.Filter) ([]ledger.SavingRow, error) {
	if err := s.known(ctx, f.Account); err != nil {
		return nil, err
	}
	rows, err := s.Books.Savings(ctx, f)
	return rows, faultOf(err)
}

// known is a fault for a key that does not exist; "" is every key.
func (s *Service) known(ctx context.Context, id policy.Account) error {
	if id == "" {
		return nil
	}
	_, err := s.row(ctx, id)
	return err
}

// UsageTable is a report of usage, or with a layer among its dimensions of what layers saved. Its numbers are decimal, and exact.
type UsageTable struct {
	By      []ledger.By `json:"by"`
	Columns []string    `json:"columns"` // of the numbers, which follow the names
	Rows    [][]string  `json:"rows"`    // names, and then numbers
	Total   []string    `json:"total"`   // of the numbers
}

// Table sums usage by one to three dimensions.
func (s *Service) Table(ctx context.Context, q ledger.Query) (UsageTable, error) {
	if err := s.known(ctx, q.Account); err != nil {
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
