package record

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"bardo.money/gateway/policy"
)

// full returns a record in which no member is empty.
func full(t *testing.T) Request {
	t.Helper()
	r := Request{
		CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 678900000, time.UTC), Stream: true, UsageEstimated: true, PriceKnown: true, ProviderCostUSD: 1_063_761_250_000, CostUSD: -5,
		AttemptLog:   []Attempt{{Provider: "a", Model: "m", Outcome: "http_500", Reason: "said \"no\"\n", Next: "repeat", NextWhy: "it may pass"}, {Provider: "b", Outcome: OK, Side: "l5"}},
		SideCalls:    []SideCall{{Layer: "l5", Provider: "b", Model: "m", InputTokens: 7, OutputTokens: 3, CostUSD: 5}},
		Degraded:     []string{"tools", "ü"},
		Verification: &Verification{Result: "agreed", By: &Model{Provider: "p", Model: "m"}, Fields: []Field{{Path: "/a", Agree: true, First: json.RawMessage("1")}}},
		Savings:      []policy.Saving{{Layer: "l4", Tokens: 5, Amount: 7}, {Layer: "l1", Amount: -3}},
		Escalation:   &Escalation{From: "a", To: "b", Reason: "invalid"}, Similarity: 0.973,
		Hedge:          &Hedge{Outcome: HedgeWon, Provider: "p", Model: "m"},
		Decisions:      []policy.Tag{{By: policy.ByFirewall, Rule: "r", Stage: policy.StageCall, Tool: "t", Decision: policy.DecisionRemoved, Reason: "denied"}},
		Policies:       policy.Guards{Injection: "block"},
		BudgetDecision: &policy.BudgetDecision{Action: policy.Downgraded, Reason: "r", Requested: "a", Alternative: "b", RetryAfter: 3},
		Budget:         &policy.OverBudget{Holder: policy.OfKey, ID: "k", Period: "month", Limit: 5, Left: 4, MaxCost: 7, Action: "refused", RetryAt: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)},
		Invoice: []Line{
			{Provider: "p", Model: "m", Kind: "input", Count: 100, Price: 10 * policy.USD, CostUSD: 1_000_000_000, Source: "catalog", Hours: "16:30-00:30 UTC", Updated: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)},
			{Provider: "p", Model: "m", Layer: "l5", Kind: "other", CostUSD: -5},
		},
	}
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !f.IsZero():
		case f.CanInt():
			f.SetInt(int64(i) + 1)
		case f.Kind() == reflect.String:
			f.SetString(v.Type().Field(i).Name)
		default:
			t.Fatalf("%s is empty", v.Type().Field(i).Name)
		}
	}
	return r
}

// The hand-written encoding equals encoding/json's, except for characters that need no escape.
func TestARecordIsWrittenAsByTheStandardLibrary(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    Request
	}{
		{"full", full(t)},
		{"empty", Request{}},
		{"usual", Request{RequestID: "req_1", CreatedAt: time.Unix(1, 0).UTC(), AttemptLog: []Attempt{}, Degraded: []string{}, CostUSD: 3 * policy.USD}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, err := json.Marshal(&tt.r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tt.r.JSON()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func BenchmarkRecord(b *testing.B) {
	r := Request{
		RequestID: "req_0123456789abcdefghjkmnpq", CreatedAt: time.Unix(1, 5).UTC(), Status: OK, HTTPStatus: 200, Path: "native", RequestedModel: "m", Provider: "p", Model: "m",
		Attempts: 1, AttemptLog: []Attempt{{Provider: "p", Model: "m", Outcome: OK}}, Degraded: []string{}, InputTokens: 240, OutputTokens: 16, CostUSD: 960, Cache: "miss",
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.JSON(); err != nil {
			b.Fatal(err)
		}
	}
}
