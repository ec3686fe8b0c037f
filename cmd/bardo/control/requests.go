package control

import (
	"bytes"
	"encoding/json"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay/book"
)

// WithPayment adds to a record how the payment for its request stands.
func WithPayment(record json.RawMessage, v book.View) json.RawMessage {
	state, err := json.Marshal(v)
	if err != nil {
		return record
	}
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
