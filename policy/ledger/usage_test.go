package ledger

import (
	"encoding/json"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/usage"
)

// monday is a fixed time on a Monday.
var monday = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func TestARequestIsReadAsItWasCharged(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	want := Request{Charged: 5 * usd, Charge: Charge{
		RequestID: "r", Account: "k", Amount: 6 * usd, ProviderCost: 1_063_761_250_000,
		Tokens:   Tokens{Input: 1, Cached: 2, CacheWrite: 3, Output: 4, Reasoning: 5},
		Provider: "openai", Model: "gpt", Subsystem: "dream", Status: "ok", Record: []byte(`{"attempts":1}`), At: time.UnixMicro(1_700_000_000_000_001),
		Savings: []policy.Saving{{Layer: "l4", Tokens: 7, Amount: 9}, {Layer: "l1", Amount: -3}},
	}}
	if _, err := l.Capture(t.Context(), reserve(t, l, "k", "r", usd), want.Charge); err != nil {
		t.Fatal(err)
	}
	have, err := l.Request(t.Context(), "k", "r")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%+v\nwant %+v", have, want)
	}
	for _, c := range []struct {
		key policy.Account
		id  string
	}{{"other", "r"}, {"", "r"}, {"k", "r2"}} {
		if _, err := l.Request(t.Context(), c.key, c.id); !errors.Is(err, ErrUnknownRequest) {
			t.Errorf("request %s of %q: %v, want ErrUnknownRequest", c.id, c.key, err)
		}
	}
}

func TestMeteredRequestsAreWrittenBehind(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	if err := l.CreateKey(t.Context(), KeyRow{ID: "m"}, 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []Charge{
		{RequestID: "metered", Account: "m", Amount: usd, At: monday},
		{RequestID: "metered", Account: "m", Amount: usd, At: monday},
		{RequestID: "anonymous", Amount: 0, At: monday},
	} {
		if err := l.Record(c); err != nil {
			t.Fatal(err)
		}
	}
	// The writer commits the queue when it wakes, so the two may be written one after the other.
	eventually(t, "the records are written", func() bool {
		rows, err := l.Usage(t.Context(), Filter{}, ByDay)
		return err == nil && len(rows) == 1 && rows[0].Requests == 2
	})
	rows, err := l.Usage(t.Context(), Filter{}, ByDay)
	if err != nil || len(rows) != 1 || rows[0].Requests != 2 || rows[0].Cost != usd {
		t.Errorf("%+v, %v", rows, err)
	}
	if err := l.Record(Charge{RequestID: "last", Account: "m", Amount: usd}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cli := tool(t, path)
	if _, err := cli.Request(t.Context(), "m", "last"); err != nil {
		t.Errorf("after closing: %v", err)
	}
	wantBalance(t, cli, "m", Balance{})
	wantClean(t, cli)
}

var usageCases = []struct {
	sentence string
	filter   Filter
	by       By
	want     string
}{
	{
		"all by model, the costliest first",
		Filter{},
		ByModel,
		`[{"name":"b","requests":2,"refused":0,"input_tokens":0,"cached_tokens":0,"cache_write_tokens":0,"output_tokens":0,"reasoning_tokens":0,"cost_usd":6.000000,"provider_cost_usd":0,"saved_usd":0.000000},
			{"name":"a","requests":2,"refused":0,"input_tokens":11,"cached_tokens":2,"cache_write_tokens":3,"output_tokens":4,"reasoning_tokens":5,"cost_usd":4.000000,"provider_cost_usd":0.000000000008,"saved_usd":0.000000}]`,
	},
	{
		"one key by provider",
		Filter{Account: "m"},
		ByProvider,
		`[{"name":"p","requests":1,"refused":0,"input_tokens":0,"cached_tokens":0,"cache_write_tokens":0,"output_tokens":0,"reasoning_tokens":0,"cost_usd":1.000000,"provider_cost_usd":0,"saved_usd":0.000000}]`,
	},
	{
		"one key by subsystem until a day",
		Filter{Account: "k", Until: monday},
		BySubsystem,
		`[{"name":"dream","requests":1,"refused":0,"input_tokens":1,"cached_tokens":2,"cache_write_tokens":3,"output_tokens":4,"reasoning_tokens":5,"cost_usd":3.000000,"provider_cost_usd":0.000000000007,"saved_usd":0.000000},
			{"name":"","requests":1,"refused":0,"input_tokens":10,"cached_tokens":0,"cache_write_tokens":0,"output_tokens":0,"reasoning_tokens":0,"cost_usd":1.000000,"provider_cost_usd":0.000000000001,"saved_usd":0.000000}]`,
	},
	{
		"since a day by day",
		Filter{Since: monday.AddDate(0, 0, 1)},
		ByDay,
		`[{"name":"2026-03-03","requests":1,"refused":0,"input_tokens":0,"cached_tokens":0,"cache_write_tokens":0,"output_tokens":0,"reasoning_tokens":0,"cost_usd":5.000000,"provider_cost_usd":0,"saved_usd":0.000000}]`,
	},
	{"a key that did nothing", Filter{Account: "x"}, ByDay, `null`},
}

func TestUsage(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 100*usd)
	for _, c := range []Charge{
		{RequestID: "1", Account: "k", Amount: 3 * usd, ProviderCost: 7, Model: "a", Provider: "p", Subsystem: "dream", At: monday, Tokens: Tokens{Input: 1, Cached: 2, CacheWrite: 3, Output: 4, Reasoning: 5}},
		{RequestID: "2", Account: "k", Amount: usd, ProviderCost: 1, Model: "a", Provider: "q", At: monday, Tokens: Tokens{Input: 10}},
		{RequestID: "3", Account: "k", Amount: 5 * usd, Model: "b", Provider: "q", At: monday.AddDate(0, 0, 1)},
	} {
		if _, err := l.Capture(t.Context(), reserve(t, l, c.Account, c.RequestID, c.Amount), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Record(Charge{RequestID: "4", Account: "m", Amount: usd, Model: "b", Provider: "p", At: monday}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the record is written", func() bool {
		rows, err := l.Usage(t.Context(), Filter{Account: "m"}, ByDay)
		return err == nil && len(rows) == 1
	})
	for _, c := range usageCases {
		t.Run(c.sentence, func(t *testing.T) {
			rows, err := l.Usage(t.Context(), c.filter, c.by)
			if err != nil {
				t.Fatal(err)
			}
			have, err := json.Marshal(rows)
			if err != nil {
				t.Fatal(err)
			}
			if want := compact(t, c.want); string(have) != want {
				t.Errorf("%s\nwant %s", have, want)
			}
		})
	}
	if _, err := l.Usage(t.Context(), Filter{}, "moon"); err == nil {
		t.Error("usage by moon was given")
	}
}

func TestSpentSince(t *testing.T) {
	path := storePath(t)
	var now atomic.Pointer[time.Time]
	now.Store(&monday)
	l := openWith(t, path, Options{Gateway: true, Flush: time.Hour, Now: func() time.Time { return *now.Load() }})
	withKey(t, l, "k", 100*usd)
	want := func(what string, since time.Time, want policy.Micro) {
		t.Helper()
		if have, err := l.SpentSince(t.Context(), "k", since); err != nil || have != want {
			t.Errorf("%s: %s, %v, want %s", what, have, err, want)
		}
	}
	capture(t, l, reserve(t, l, "k", "1", usd), usd)
	want("before the day was read", monday, usd)
	capture(t, l, reserve(t, l, "k", "2", usd), 2*usd)
	want("after it was read", monday, 3*usd)
	capture(t, l, reserve(t, l, "k", "2", usd), 2*usd)
	want("a repetition", monday, 3*usd)
	if err := l.Record(Charge{RequestID: "3", Account: "k", Amount: 4 * usd}); err != nil {
		t.Fatal(err)
	}
	want("what is not written yet", monday, 7*usd)
	tuesday := monday.AddDate(0, 0, 1)
	capture(t, l, reserve(t, l, "k", "flush", 0), 0)
	now.Store(&tuesday)
	want("the next day", tuesday, 0)
	want("both days", monday, 7*usd)
	capture(t, l, reserve(t, l, "k", "4", usd), usd)
	want("both days and more", monday, 8*usd)
	cli := openWith(t, path, Options{Now: func() time.Time { return tuesday }})
	if have, err := cli.SpentSince(t.Context(), "k", tuesday); err != nil || have != usd {
		t.Errorf("a tool: %s, %v", have, err)
	}
	capture(t, l, reserve(t, l, "k", "5", usd), usd)
	if have, err := cli.SpentSince(t.Context(), "k", tuesday); err != nil || have != 2*usd {
		t.Errorf("a tool, again: %s, %v", have, err)
	}
}

func TestOldRequestsArePruned(t *testing.T) {
	path := storePath(t)
	l := openWith(t, path, Options{Gateway: true, Retention: 30 * 24 * time.Hour, Now: func() time.Time { return monday }})
	withKey(t, l, "k", 100*usd)
	const old = usage.PruneLimit + 10
	for i := range old {
		if err := l.Record(Charge{RequestID: time.Duration(i).String(), At: monday.AddDate(0, 0, -31)}); err != nil {
			t.Fatal(err)
		}
	}
	c := Charge{Amount: usd, At: monday.AddDate(0, 0, -31)}
	if _, err := l.Capture(t.Context(), reserve(t, l, "k", "paid", usd), c); err != nil {
		t.Fatal(err)
	}
	capture(t, l, reserve(t, l, "k", "young", usd), usd)
	l.prune()
	if _, err := l.Request(t.Context(), "k", "paid"); !errors.Is(err, ErrUnknownRequest) {
		t.Errorf("an old request: %v, want ErrUnknownRequest", err)
	}
	if _, err := l.Request(t.Context(), "k", "young"); err != nil {
		t.Errorf("a young request: %v", err)
	}
	r, err := l.Audit(t.Context())
	if err != nil || !r.OK || r.Requests != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	rows, err := l.Usage(t.Context(), Filter{}, ByDay)
	if err != nil || len(rows) != 2 || rows[0].Requests != old+1 {
		t.Errorf("the sums: %+v, %v", rows, err)
	}
	if _, err := l.Capture(t.Context(), reserve(t, l, "k", "paid", usd), c); err != nil {
		t.Error(err)
	}
	wantBlockMatchesMemory(t, l, "k")
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 98 * usd, Available: 98 * usd}) // it is not charged again
}

func compact(t *testing.T, s string) string {
	t.Helper()
	var v []json.RawMessage
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRequestsOfAProviderAreSummed: by model, in a period, whether the store has the requests or not.
func TestRequestsOfAProviderAreSummed(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 50*usd)
	for i, c := range []Charge{
		{Provider: "bankr", Model: "b", ProviderCost: 40, At: monday.Add(time.Hour)},
		{Provider: "bankr", Model: "a", ProviderCost: 10, At: monday},
		{Provider: "bankr", Model: "a", ProviderCost: 20, At: monday.Add(time.Hour)},
		{Provider: "bankr", Model: "b", ProviderCost: 80, At: monday.Add(2 * time.Hour)},
		{Provider: "bankr", Model: "b", ProviderCost: 160, At: monday.Add(-time.Second)},
		{Provider: "venice", Model: "a", ProviderCost: 320, At: monday.Add(time.Hour)},
	} {
		c.RequestID, c.Account, c.Amount = string(rune('r'+i)), "k", usd
		if _, err := l.Capture(t.Context(), reserve(t, l, "k", c.RequestID, usd), c); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := l.AtProvider(t.Context(), "bankr", monday, monday.Add(time.Hour))
	if err != nil || len(rows) != 2 || rows[0].Name != "a" || rows[0].Requests != 2 || rows[0].ProviderCost != 30 || rows[1].Name != "b" || rows[1].Requests != 1 || rows[1].ProviderCost != 40 {
		t.Errorf("%+v, %v", rows, err)
	}
}
