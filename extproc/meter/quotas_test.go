package meter

import (
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
)

// mixed gives each candidate's calls terms of their own.
type mixed struct{ request }

func (*mixed) Terms(to *policy.Resolution) Terms { return Terms{Direct: to.Provider == "own"} }

// TestAQuotaCountsAllCallsOfARequest: side calls too, at the model of the last answer, and none that the caller pays for.
func TestAQuotaCountsAllCallsOfARequest(t *testing.T) {
	const limit = 100_000
	cost, err := rule.ParseMeasure("(model == 'm' && provider == 'p' && subsystem == 'dream' && key == 'ada' && key_name == 'Ada' && tier == 'pro') ? " +
		"input_tokens + 10 * cached_tokens + 100 * cache_write_tokens + 7 * output_tokens + 1000 * reasoning_tokens + int(cost_usd * 1000000.0) : 77")
	if err != nil {
		t.Fatal(err)
	}
	who := policy.Principal{Account: "ada", Name: "Ada", Tier: "pro", Prepaid: true}
	own, cheap := policy.Resolution{Provider: "own", Model: "o"}, policy.Resolution{Provider: "q", Model: "cheap"}
	answer := chat.Usage{Input: 5, Cached: 3, CacheWrite: 1, CacheWrite1h: 1, Output: 9, Reasoning: 2, Final: true} // 10 input tokens
	for _, row := range []struct {
		name    string
		calls   func(*Bill)
		want    int64 // without the charge in millionths of a dollar
		accept  bool  // as a deferred request with 4 input tokens
		noUsage bool  // of the estimate, as for a stored answer
	}{
		{name: "one call", calls: func(b *Bill) { b.Add(&small, answer) }, want: 10 + 30 + 200 + 63 + 2000},
		{name: "two calls", calls: func(b *Bill) { b.Add(&small, answer); b.Add(&small, answer) }, want: 2 * (10 + 30 + 200 + 63 + 2000)},
		{name: "a side call", calls: func(b *Bill) {
			b.Add(&small, answer)
			b.AddSide("l5", b.request, &cheap, chat.Usage{Input: 40, Final: true})
		}, want: 50 + 30 + 200 + 63 + 2000},
		{name: "a call that its caller pays for", calls: func(b *Bill) { b.Add(&own, answer); b.Add(&small, answer); b.Add(&own, answer) }, want: 10 + 30 + 200 + 63 + 2000},
		{name: "only such calls", calls: func(b *Bill) { b.Add(&own, answer) }},
		{name: "no call", calls: func(*Bill) {}},
		{name: "a stored answer", calls: func(b *Bill) { b.AddSide("l5", b.request, &small, chat.Usage{Input: 40, Final: true}) }, noUsage: true},
		{name: "deferred", calls: func(b *Bill) { b.Add(&small, answer) }, want: 10 + 30 + 200 + 63 + 2000, accept: true},
		{name: "deferred and not answered", calls: func(*Bill) {}, want: 4, accept: true},
		{name: "deferred, for a key of its caller", calls: func(b *Bill) { b.Add(&own, answer) }, want: 4, accept: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := quota.New(quota.Options{Rules: quota.Rules{Quotas: []quota.Quota{{Name: "q", Per: quota.PerKey, Window: 24 * time.Hour, Limit: quota.Millionths(limit), Cost: cost}}}})
			m := New(l, &books{}, budget.NewMeter(budget.Options{}))
			r := &mixed{request{input: 4, most: 1000}}
			ask := func(b *Bill) *quota.Request {
				u := b.Usage(&small)
				u.Input = 100
				return &quota.Request{Usage: []rule.Usage{u}}
			}
			b := &Bill{}
			b.Open(m, r, "req_1")
			b.PaidBy(who, m.PayerOf(&who), 0)
			if err := b.Admit(t.Context(), &quota.Request{}); err != nil || !b.HasQuotas() {
				t.Fatal(err, b.HasQuotas())
			}
			q := ask(b)
			if row.noUsage {
				q.Usage = nil
			}
			if err := b.Hold(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			if row.accept {
				if err := b.ConvertToStandingHold(t.Context(), "me", 4); err != nil {
					t.Fatal(err)
				}
				b.Release()
				b = &Bill{}
				b.Open(m, r, "req_1")
				b.PaidDeferred(who, 0)
			}
			row.calls(b)
			total := b.Total()
			if _, err := b.Settle(t.Context(), &total, ledger.Charge{}); err != nil {
				t.Fatal(err)
			}
			b.Release()
			want := row.want
			if want > 4 {
				want += int64(total.Charged)
			}
			left := &Bill{}
			left.Open(m, r, "req_2")
			left.PaidBy(who, m.PayerOf(&who), 0)
			if err := left.Admit(t.Context(), &quota.Request{}); err != nil {
				t.Fatal(err)
			}
			for _, try := range []struct {
				amount int64
				fits   bool
			}{{limit - want + 1, false}, {limit - want, true}} {
				q := &quota.Request{Usage: []rule.Usage{left.Usage(&small)}}
				q.Usage[0].CostUSD = float64(try.amount) / 1e6
				err := left.Hold(t.Context(), q)
				if try.fits != (err == nil) || err != nil && fault.From(err).Kind != fault.RateLimited {
					t.Errorf("%d with %d counted: %v", try.amount, want, err)
				}
			}
		})
	}
}
