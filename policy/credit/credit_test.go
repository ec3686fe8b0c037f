package credit_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/credit"
)

const usd = policy.USD

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func TestP12ABalanceIsReadAndNeverOverstated(t *testing.T) {
	for doc, want := range map[string]policy.Micro{
		`{"object":"credit_balance","balanceUsd":9.15,"effectiveBalanceUsd":8.1500009,"undeductedCostUsd":1}`: 8_150_000,
		`{"balanceUsd":9.15}`:                9_150_000,
		`{"effectiveBalanceUsd":0}`:          0,
		`{"effectiveBalanceUsd":-0.0000001}`: -1,
		`{"effectiveBalanceUsd":1e-7}`:       0,
		`{"effectiveBalanceUsd":1.25e2}`:     125_000_000,
	} {
		if got, err := credit.ParseBalance([]byte(doc)); err != nil || got != want {
			t.Errorf("%s: %s, %v", doc, got, err)
		}
	}
	for _, doc := range []string{
		``, `{}`, `[]`, `{"balanceUsd":"9"}`, `{"balanceUsd":1e9}`, `{"balanceUsd":-1e9}`, `{"balanceUsd":1e999999999}`, `{"balanceUsd":1e-999999999}`, `{"balanceUsd":null}`, `{"balanceUsd":true}`,
		`{"balanceUsd":` + strings.Repeat("1", 50) + `}`,
	} {
		if got, err := credit.ParseBalance([]byte(doc)); err == nil {
			t.Errorf("%s is read as %s", doc, got)
		}
	}
}

const report = `{"object":"usage_summary","days":7,"startDate":"2026-03-07T12:00:00Z","endDate":"2026-03-14T12:00:00Z","totals":{"totalRequests":3},
"byModel":[{"model":"claude-opus-4.6","provider":"vertex-ai","requests":2,"totalCost":0.35},{"model":"gpt-5.2","requests":1,"totalCost":0.004}]}`

func TestP12AReportOfUsageIsPutBesideTheLedger(t *testing.T) {
	theirs, err := credit.ParseUsage([]byte(report))
	if err != nil || len(theirs.Lines) != 2 || !theirs.To.Equal(noon) || theirs.Lines[0].Cost != 350_000_000_000 {
		t.Fatalf("%+v, %v", theirs, err)
	}
	for _, row := range []struct {
		about   string
		ours    []credit.Line
		differs string
	}{
		{"the same, rounded", []credit.Line{{"claude-opus-4-6", 2, 351e9}, {"gpt-5.2", 1, 4e9}}, ""},
		{"vendors in names", []credit.Line{{"anthropic/claude-opus-4.6", 2, 350e9}, {"gpt-5.2", 1, 13e9}}, ""},
		{"they ask more", []credit.Line{{"claude-opus-4-6", 1, 175e9}, {"gpt-5.2", 1, 4e9}}, "claude-opus-4-6"},
		{"the ledger has nothing", nil, "claude-opus-4.6"},
		{"they know nothing of it", []credit.Line{{"claude-opus-4-6", 2, 350e9}, {"kimi-k2.5", 9, 90e9}}, "kimi-k2.5"},
	} {
		t.Run(row.about, func(t *testing.T) {
			c := credit.Compare(row.ours, theirs)
			var differs []string
			for _, l := range c.Lines {
				if l.Differs {
					differs = append(differs, l.Model)
				}
			}
			if strings.Join(differs, " ") != row.differs || c.Differs() != (row.differs != "") || c.Their != 354e9 {
				t.Errorf("%+v", c)
			}
		})
	}
	for _, doc := range []string{
		``, `{}`, `{"byModel":[]}`, strings.Replace(report, "2026-03-14", "2026-03-01", 1), strings.Replace(report, `"requests":2`, `"requests":-2`, 1),
		strings.Replace(report, "0.35", "-0.35", 1), strings.Replace(report, "claude", strings.Repeat("x", 300), 1),
		`{"startDate":"2026-03-07T12:00:00Z","endDate":"2026-03-14T12:00:00Z","byModel":[` + strings.Repeat("{},", 1024) + `{}]}`,
	} {
		if u, err := credit.ParseUsage([]byte(doc)); err == nil {
			t.Errorf("%.80s is read as %+v", doc, u)
		}
	}
}

func TestP12WhenCreditIsBought(t *testing.T) {
	rules := credit.Rules{Auto: true, Threshold: 5 * usd, Amount: 25 * usd, PerDay: 50 * usd}
	manual, free := rules, rules
	manual.Auto, free.Amount = false, 0
	once := credit.Bought{}.With(noon.Add(-time.Hour), 25*usd)
	twice := once.With(noon.Add(-30*time.Minute), 25*usd)
	for _, row := range []struct {
		about   string
		rules   credit.Rules
		balance policy.Micro
		bought  credit.Bought
		now     time.Time
		want    credit.Action
	}{
		{"enough", rules, 5 * usd, credit.Bought{}, noon, credit.None},
		{"little", rules, 5*usd - 1, credit.Bought{}, noon, credit.TopUp},
		{"a debt", rules, -usd, credit.Bought{}, noon, credit.TopUp},
		{"little, and nothing is bought", manual, usd, credit.Bought{}, noon, credit.Warn},
		{"purchases of nothing", free, usd, credit.Bought{}, noon, credit.Warn},
		{"one was made just now", rules, usd, credit.Bought{}.With(noon, 25*usd), noon.Add(time.Second), credit.Wait},
		{"one just before midnight", rules, usd, credit.Bought{}.With(noon, 25*usd), noon.Add(12 * time.Hour), credit.TopUp},
		{"one of today", rules, usd, once, noon, credit.TopUp},
		{"all of today", rules, usd, twice, noon, credit.Limited},
		{"tomorrow", rules, usd, twice, noon.Add(12 * time.Hour), credit.TopUp},
		{"a clock that is set back a day", rules, usd, twice, noon.Add(-36 * time.Hour), credit.Limited},
		{"one was refused", rules, usd, twice.Without(noon, 25*usd), noon, credit.TopUp},
	} {
		t.Run(row.about, func(t *testing.T) {
			if got := row.rules.Decide(row.now, row.balance, row.bought); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}

// TestNoDayBuysMoreThanItsBound, with any balance, and any outcome of the purchases.
func TestNoDayBuysMoreThanItsBound(t *testing.T) {
	rules := credit.Rules{Auto: true, Threshold: 5 * usd, Amount: 7 * usd, PerDay: 20 * usd}
	var b credit.Bought
	perDay := map[string]policy.Micro{}
	for now := noon; now.Before(noon.AddDate(0, 0, 3)); now = now.Add(17 * time.Minute) {
		if rules.Decide(now, 0, b) == credit.TopUp {
			b = b.With(now, rules.Amount)
			perDay[now.Format(time.DateOnly)] += rules.Amount
		}
	}
	if len(perDay) != 4 {
		t.Errorf("%v", perDay)
	}
	for day, sum := range perDay {
		if sum != 14*usd {
			t.Errorf("%s was bought on %s", sum, day)
		}
	}
}

func TestAnOrderIsAnAmountAndAToken(t *testing.T) {
	var got map[string]any
	if err := json.Unmarshal(credit.Order(25*usd, `US"DC`), &got); err != nil || got["amount"] != 25.0 || got["token"] != `US"DC` || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzWhatAProviderSaysOfAnAccount(f *testing.F) {
	f.Add([]byte(report))
	f.Add([]byte(`{"balanceUsd":9.15,"effectiveBalanceUsd":-8.1e-3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := credit.ParseBalance(b); err == nil && (m > 1_000_000*usd || m < -1_000_000*usd) {
			t.Errorf("a balance of %s", m)
		}
		u, err := credit.ParseUsage(b)
		if err != nil {
			return
		}
		c := credit.Compare(u.Lines, u)
		if c.Differs() || c.Cost != c.Their {
			t.Errorf("usage differs from itself: %+v", c)
		}
	})
}
