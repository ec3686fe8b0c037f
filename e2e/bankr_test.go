package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// walletLab is a gateway whose account at Bankr is read every second.
type walletLab struct {
	*gateway.Gateway

	bankr, other *fake.Server
	events       string
}

// startWallet starts it, with further keys of the section.
func startWallet(t *testing.T, credit float64, lost bool, more string) *walletLab {
	t.Helper()
	l := &walletLab{
		bankr: fake.Start(t, fake.Config{Vendor: fake.Bankr}), other: fake.Start(t, fake.Config{Dialect: fake.OpenAI}), events: filepath.Join(t.TempDir(), "events.jsonl"),
	}
	l.bankr.Credit(credit, lost)
	l.bankr.Behave(sixCents)
	l.Gateway = gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s"}
providers:
  bankr: {endpoint: %q, api_key: %s, credit_interval: 1s%s, models: [{id: gpt-5.2, price: {input: 1, output: 2}}]}
  custom: [{id: paid, endpoints: [%q], api_key: %s, models: [{id: deep, quality: maximum, price: {input: 1, output: 2}}]}]
`, l.events, l.bankr.URL, l.bankr.Key, more, l.other.URL, l.other.Key)})
	return l
}

// wallet is what the command prints.
func (l *walletLab) wallet(t *testing.T) (v walletJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(l.Bardo(t, "wallet", "--json")), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// walletJSON is what `bardo wallet --json` prints, as far as tests read it.
type walletJSON struct {
	Check *struct {
		Credit float64 `json:"credit_usd"`
		Action string  `json:"action"`
	} `json:"check"`
	State   string  `json:"state"`
	Percent int     `json:"budget_percent"`
	Bought  float64 `json:"bought_today_usd"`
	Usage   *struct {
		Models []struct {
			Model   string  `json:"model"`
			Cost    float64 `json:"cost_usd"`
			Their   float64 `json:"their_cost_usd"`
			Differs bool    `json:"differs"`
		} `json:"models"`
	} `json:"usage"`
	DIEM *struct {
		Used  float64 `json:"used_usd"`
		Daily float64 `json:"daily_usd"`
	} `json:"diem"`
}

// root is the address of a fake without the version of its API.
func root(s *fake.Server) string { return strings.TrimSuffix(s.URL, "/v1") }

// checks are the events of looks at the credit with an action.
func (l *walletLab) checks(t *testing.T, action string) (n int) {
	t.Helper()
	for _, e := range eventsOf(t, l.events, "bankr:credit_check") {
		if e["action"] == action {
			n++
		}
	}
	return n
}

// TestP12CreditIsBoughtOnceWithinTheDaysBound: the purchase takes the money and brings no credit, and no further one is made, not after a restart either.
func TestP12CreditIsBoughtOnceWithinTheDaysBound(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	bankr := fake.Start(t, fake.Config{Vendor: fake.Bankr})
	bankr.Credit(3, true)
	events := filepath.Join(t.TempDir(), "events.jsonl")
	o := gateway.Options{Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s"}
providers:
  bankr: {endpoint: %q, api_key: %s, account_endpoint: %q, credit_interval: 1s, auto_topup: true, auto_topup_amount_usd: 25, auto_topup_daily_usd: 40, auto_topup_token: BNKR, models: [{id: gpt-5.2}]}
`, events, bankr.URL, bankr.Key, root(bankr))}
	l := &walletLab{Gateway: gateway.Run(t, o), bankr: bankr, events: events}
	eventually(t, "a look after the purchase", func() bool { return l.checks(t, "limit") > 1 })
	top := eventsOf(t, events, "bankr:topup")
	if len(top) != 1 || top[0]["amount"] != 25.0 || top[0]["token"] != "BNKR" || top[0]["new_balance"] != 28.0 {
		t.Errorf("%v", top)
	}
	if c := eventsOf(t, events, "bankr:credit_check")[0]; c["balance"] != 3.0 || c["threshold"] != 5.0 || c["action"] != "topup" {
		t.Errorf("%v", c)
	}
	if w := l.wallet(t); w.Bought != 25 || w.Check == nil || w.Check.Credit != 3 {
		t.Errorf("%+v", w)
	}
	if m := l.Metrics(t); m["bardo_bankr_credit_micro_usd"] != 3e6 || m[`bardo_bankr_topups_total{outcome="bought"}`] != 1 {
		t.Errorf("%v, %v", m["bardo_bankr_credit_micro_usd"], m[`bardo_bankr_topups_total{outcome="bought"}`])
	}
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	o.Home = l.Home
	before := l.checks(t, "limit")
	l.Gateway = gateway.Run(t, o)
	eventually(t, "a look after the restart", func() bool { return l.checks(t, "limit") > before })
	if got := bankr.Bought(); len(got) != 1 || got[0] != (fake.Purchase{Amount: 25, Token: "BNKR"}) {
		t.Errorf("%+v", got)
	}
}

// TestP12APurchaseThatFails: one that is refused does not count, one whose outcome is not known does.
func TestP12APurchaseThatFails(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	for _, row := range []struct {
		status  int
		outcome string
		bought  float64
	}{{http.StatusPaymentRequired, "refused", 0}, {http.StatusBadGateway, "unknown", 25}} {
		t.Run(row.outcome, func(t *testing.T) {
			t.Parallel()
			bankr := fake.Start(t, fake.Config{Vendor: fake.Bankr})
			bankr.Credit(0, true)
			bankr.BehaveOn("/llm/credits/buy", fake.Behaviour{Status: row.status})
			events := filepath.Join(t.TempDir(), "events.jsonl")
			l := &walletLab{bankr: bankr, events: events, Gateway: gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s"}
providers:
  bankr: {endpoint: %q, api_key: %s, account_endpoint: %q, credit_interval: 1s, auto_topup: true, models: [{id: gpt-5.2}]}
`, events, bankr.URL, bankr.Key, root(bankr))})}
			eventually(t, "a look after the purchase", func() bool { return l.checks(t, "wait") > 0 })
			e := eventsOf(t, events, "bankr:topup_failed")
			if len(e) != 1 || e[0]["outcome"] != row.outcome || e[0]["amount"] != 25.0 || len(eventsOf(t, events, "bankr:topup")) != 0 {
				t.Errorf("%v", e)
			}
			if w := l.wallet(t); w.Bought != row.bought {
				t.Errorf("%+v", w)
			}
			if log := l.Log(); strings.Contains(log, bankr.Key) {
				t.Error("the key is logged")
			}
		})
	}
}

// TestP12TheCreditBoundsWhatTheWalletServes: without credit another provider serves its subsystems.
func TestP12TheCreditBoundsWhatTheWalletServes(t *testing.T) {
	t.Parallel()
	l := startWallet(t, 0, false, ", lifetime_revenue_usd: 100, lifetime_cost_usd: 60")
	served := func() string {
		got := l.Do(t, ask{dialect: fake.OpenAI, model: "auto"}.call("X-Bardo-Subsystem: social", "X-Bardo-No-Cache: true"))
		if got.Status != http.StatusOK {
			t.Errorf("%d %s", got.Status, got.Body)
		}
		return got.Header.Get("X-Bardo-Provider")
	}
	eventually(t, "a warning", func() bool { return l.checks(t, "warn") > 0 })
	eventually(t, "no credit", func() bool { return served() == "paid" })
	l.bankr.Credit(100, false)
	eventually(t, "credit", func() bool { return served() == "bankr" })
	if w := l.wallet(t); w.State != "sustainable" || w.Percent != 100 {
		t.Errorf("%+v", w)
	}
}

// TestB20AFreeModelServesWhenTheWalletIsEmpty: the subsystems that its earnings pay for, and what it alone serves; in each form, told in the record and as an event.
func TestB20AFreeModelServesWhenTheWalletIsEmpty(t *testing.T) {
	t.Parallel()
	bankr, other := fake.Start(t, fake.Config{Vendor: fake.Bankr}), fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	bankr.Credit(0, false)
	dir := proctest.Dir(t)
	l := &laddered{p: other, dir: dir, Gateway: gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
telemetry: {events: "file:%s"}
billing: {when_empty: free}
providers:
  bankr: {endpoint: %q, api_key: %s, credit_interval: 1s, models: [{id: gpt-5.2, price: {input: 1, output: 2}}]}
  custom: [{id: own, endpoints: [%q], api_key: %s, models: [{id: deep, quality: maximum, price: {input: 1, output: 2}}, {id: nothing, price: {input: 0, output: 0}}]}]
`, filepath.Join(dir, "events"), bankr.URL, bankr.Key, other.URL, other.Key)})}
	metered, prepaid := l.CreateKey(t, "--name", "metered"), l.CreateKey(t, "--name", "prepaid", "--balance-usd", "5")
	asked := func(form ask, model, key, subsystem string) gateway.Answer {
		c := ofBig(form, model).call("X-Bardo-No-Cache: true")
		if c.Key = key; subsystem != "" {
			c.Header = append(c.Header, "X-Bardo-Subsystem: "+subsystem)
		}
		return l.Do(t, c)
	}
	eventually(t, "the credit is read", func() bool {
		return asked(forms[0], "gpt-5.2", metered.Key, "").Header.Get("X-Bardo-Model") == "nothing"
	})
	before := len(bankr.Generations()) // some may have come before the credit was read
	for _, form := range forms {
		for _, row := range []struct{ model, subsystem string }{{"auto", "social"}, {"gpt-5.2", "social"}, {"gpt-5.2", ""}} {
			got := asked(form, row.model, metered.Key, row.subsystem)
			if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Model") != "nothing" || !strings.HasSuffix(got.Header.Get("X-Bardo-Degraded"), "free_model:"+row.model+"->nothing") || text(t, form, got) == "" {
				t.Fatalf("%s of %q, %s: %d by %q, degraded %q: %s", row.model, row.subsystem, form.form(), got.Status, got.Header.Get("X-Bardo-Model"), got.Header.Get("X-Bardo-Degraded"), got.Body)
			}
			if d := l.decided(t, metered.Key, got).Decision; d.Action != "downgraded" || d.Asked != row.model || d.Alternative != "nothing" || !strings.Contains(d.Reason, "the credit at bankr is used up") {
				t.Errorf("the record says %+v", d)
			}
		}
	}
	eventually(t, "the events", func() bool { return len(modelEvents(t, dir, "inference:budget_decision")) >= 3*len(forms) })
	if out := l.Bardo(t, "route", "--model", "gpt-5.2", "--subsystem", "social"); !strings.Contains(out, "free models alone, instead of gpt-5.2: the credit at bankr is used up") {
		t.Errorf("the dry run says %s", out)
	}
	for _, row := range []struct{ model, key, subsystem, by string }{
		{"auto", prepaid.Key, "social", ""},     // it pays by itself
		{"auto", metered.Key, "risk", "deep"},   // what is critical keeps its model
		{"deep", metered.Key, "social", "deep"}, // the wallet would not have paid for it
		{"auto", metered.Key, "", ""},
	} {
		if got := asked(forms[0], row.model, row.key, row.subsystem); got.Status != http.StatusOK || row.by != "" && got.Header.Get("X-Bardo-Model") != row.by || strings.Contains(got.Header.Get("X-Bardo-Degraded"), "free_model") {
			t.Errorf("%+v: %d by %q, degraded %q", row, got.Status, got.Header.Get("X-Bardo-Model"), got.Header.Get("X-Bardo-Degraded"))
		}
	}
	if n := len(bankr.Generations()) - before; n > 1 { // the answer about risk is verified by its model
		t.Errorf("Bankr was asked %d times without credit", n)
	}
	bankr.Credit(100, false)
	eventually(t, "credit", func() bool {
		return asked(forms[0], "gpt-5.2", metered.Key, "social").Header.Get("X-Bardo-Provider") == "bankr"
	})
}

// TestP12BudgetsFollowWhatTheWalletSpends: each band of the table in turn, as the ledger's cost of Bankr grows.
func TestP12BudgetsFollowWhatTheWalletSpends(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	l := startWallet(t, 100, false, ", lifetime_revenue_usd: 0.1")
	golem := 0
	dream := func() string {
		golem++
		got := l.Do(t, ask{dialect: fake.OpenAI, model: "deep", stream: true}.call(ofGolem(fmt.Sprint("g", golem), "dream")...))
		return got.Header.Get("X-Bardo-Budget-Remaining")
	}
	spent := 0
	for _, row := range []struct {
		state    string
		requests int // of 0.05 USD
		budget   string
	}{{"expanding", 0, "0.225000"}, {"sustainable", 1, "0.150000"}, {"pressured", 2, "0.105000"}, {"contracting", 5, "0.045000"}} {
		for ; spent < row.requests; spent++ {
			got := l.Do(t, ask{dialect: fake.OpenAI, model: "gpt-5.2"}.call("X-Bardo-No-Cache: true"))
			if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "bankr" {
				t.Fatalf("%d %s %v", got.Status, got.Body, got.Header)
			}
		}
		eventually(t, row.state, func() bool { return dream() == row.budget && l.wallet(t).State == row.state })
	}
	got := l.Do(t, ask{dialect: fake.OpenAI, model: "deep"}.call("X-Bardo-Subsystem: curator", "X-Bardo-Verify: true"))
	var r struct {
		Verification struct{ Result, Reason string }
	}
	if get(t, l.Gateway, l.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r); r.Verification.Result != "skipped" || r.Verification.Reason != "wallet" {
		t.Errorf("%d, verification %+v", got.Status, r.Verification)
	}
	if out := l.Bardo(t, "route", "--subsystem", "curator"); !strings.Contains(out, "the wallet is contracting: quality low") {
		t.Errorf("the dry run says %s", out)
	}
}

// TestP12UsageIsComparedWithTheLedger: with what Bankr says, in the names it gives models.
func TestP12UsageIsComparedWithTheLedger(t *testing.T) {
	t.Parallel()
	l := startWallet(t, 100, false, ", lifetime_revenue_usd: 10")
	for range 2 {
		if got := l.Do(t, ask{dialect: fake.OpenAI, model: "gpt-5.2"}.call("X-Bardo-No-Cache: true")); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	l.bankr.Spend(fake.Used{Model: "gpt-5.2", Requests: 2, Cost: "0.10"})
	eventually(t, "both agree", func() bool {
		u := l.wallet(t).Usage
		return u != nil && len(u.Models) == 1 && u.Models[0].Model == "gpt-5.2" && u.Models[0].Cost == 0.1 && u.Models[0].Their == 0.1 && !u.Models[0].Differs
	})
	before := len(eventsOf(t, l.events, "bankr:usage_differs")) // while the ledger was ahead of the report
	l.bankr.Spend(fake.Used{Model: "gpt-5.2", Requests: 2, Cost: "0.10"}, fake.Used{Model: "claude-opus-4.6", Requests: 1, Cost: "4.5"})
	eventually(t, "a difference", func() bool { return len(eventsOf(t, l.events, "bankr:usage_differs")) > before })
	if out := l.Bardo(t, "wallet"); !strings.Contains(out, "claude-opus-4.6") || strings.Count(out, "differs") != 2 || !strings.Contains(out, "expanding") {
		t.Errorf("%s", out)
	}
}

// TestStakedCreditIsAccountedFor: what it has paid today, and what there is.
func TestStakedCreditIsAccountedFor(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	venice := fake.Start(t, fake.Config{Vendor: fake.Venice})
	venice.Behave(sixCents)
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers:
  venice: {base_url: %q, api_key: %s, diem_staked: true, diem_daily_usd: 2, models: [{id: deepseek-r1, quality: high, price: {input: 1, output: 2}}]}
`, venice.URL, venice.Key)})
	for range 3 {
		if got := g.Do(t, ask{dialect: fake.OpenAI, model: "auto"}.call("X-Bardo-No-Cache: true", "X-Bardo-Diem-Available: true")); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != "0.000000" {
			t.Fatalf("%d %s %v", got.Status, got.Body, got.Header)
		}
	}
	l := &walletLab{Gateway: g}
	eventually(t, "the staked credit's use", func() bool { d := l.wallet(t).DIEM; return d != nil && d.Used == 0.15 && d.Daily == 2 })
	if m := g.Metrics(t); m["bardo_diem_used_micro_usd"] != 150_000 || m["bardo_diem_daily_micro_usd"] != 2e6 {
		t.Errorf("%v of %v", m["bardo_diem_used_micro_usd"], m["bardo_diem_daily_micro_usd"])
	}
}
