package request

import (
	"context"
	"net/http"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

type payer struct{}

// Pay implements runtime.Payer.
func (payer) Pay(context.Context, *runtime.PaidCall) (*http.Response, policy.Micro, error) {
	return nil, 0, nil
}

func (payer) Unserved(string) {}

// TestWhatAPaymentMayExceedItsEstimateByIsReserved, for each call at any price; nothing is reserved for providers that are not paid per call.
func TestWhatAPaymentMayExceedItsEstimateByIsReserved(t *testing.T) {
	rt := runtime.Config{Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"paid": {Adapter: anthropic.Adapter{}, Payer: payer{}}, "billed": {Adapter: anthropic.Adapter{}}})}
	for _, price := range []policy.Price{1, 99, 1_000_000, 15_000_000} {
		for _, calls := range []int64{1, 3} {
			v := View{Config: &rt}
			v.Request = &chat.Request{MaxInput: 12_345, MaxTokens: 678}
			to := policy.Resolution{Provider: "paid", MaxOutput: 1000, Prices: policy.Prices{Known: true, Input: price, Output: 3 * price}}
			one := []policy.Resolution{to}
			cost := resolve.WorstCost(one, v.Request.MaxInput, 678, 1).Times(calls)
			reserved := cost.Plus(v.PaymentMargin(one, cost, calls)).Charge(0)
			_, c := v.Payment(&to, nil)
			if most := c.MaxCost * policy.Micro(calls); reserved < most || c.MaxCost <= c.Estimate {
				t.Errorf("%d calls at %d: $%s are reserved, and $%s may be paid", calls, price, reserved, most)
			}
			to.Provider = "billed"
			if m := v.PaymentMargin([]policy.Resolution{to}, cost, calls); m != 0 {
				t.Errorf("a call that is not paid for by itself has a margin of %d", m)
			}
		}
	}
}
