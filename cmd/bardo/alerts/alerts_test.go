package alerts_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/cmd/bardo/alerts"
	"bardo.money/gateway/cmd/bardo/run/notice"
	"bardo.money/gateway/cmd/bardo/wallet"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay/till"
)

// TestEventsBecomeAlerts: their topics and subjects, and a problem's end has the subject of its beginning.
func TestEventsBecomeAlerts(t *testing.T) {
	var s event.Sink
	var feed event.Feed[alerts.Alert]
	alerts.Listen(&s, &feed)
	notice.ProviderDown.Emit(&s, "", notice.ProviderFailure{Provider: "early"}) // nobody is watching
	w := feed.Watch(16)
	defer w.Close()
	notice.ProviderDown.Emit(&s, "", notice.ProviderFailure{Provider: "p", Reason: "no answer"})
	notice.CredentialRefused.Emit(&s, "", notice.ProviderFailure{Provider: "p", Reason: "status 401"})
	notice.ProviderUp.Emit(&s, "", notice.ProviderRecovery{Provider: "p"})
	notice.Outage(&s, ledger.Outage{Err: &ledger.UnwritableError{Reason: "the disk is full"}})
	notice.Outage(&s, ledger.Outage{Err: &ledger.UnwritableError{Reason: "the disk is full"}, Ended: true, Lasted: 90 * time.Second})
	notice.BudgetNear.Emit(&s, "k", notice.Budget{Holder: policy.OfKey, ID: "k", Name: "alice", Period: "day", Limit: policy.USD, Spent: policy.USD * 9 / 10, Percent: 90})
	notice.BudgetNear.Emit(&s, "k", notice.Budget{Holder: policy.OfKey, ID: "k", Period: "day", Limit: policy.USD, Spent: policy.USD, Percent: 100})
	notice.SpendUnusual.Emit(&s, "", notice.Spending{Spent: 9 * policy.USD, Usual: policy.USD})
	notice.UsageOfDay.Emit(&s, "", notice.DayUsage{Day: "2026-11-27", Requests: 3, Cost: policy.USD, Keys: []notice.KeyUsage{{Key: "k"}}, Others: 2})
	notice.LowGas.Emit(&s, "", notice.Gas{TransfersLeft: 3})
	notice.PaymentLost.Emit(&s, "w", till.Loss{Payer: "0xpayer", Loss: policy.USD})
	wallet.EventTopupFailed.Emit(&s, "", wallet.TopupFailed{Amount: policy.USD, Outcome: "refused"})
	for _, want := range []string{
		"provider provider/p lasts: Provider p is down: no answer. It is tried after the others.",
		"provider provider/p lasts: Provider p refuses the gateway's key: status 401.",
		"provider provider/p over: Provider p works again.",
		"ledger ledger lasts: The ledger cannot be written: the disk is full. Requests that cost something are refused until it can.",
		"ledger ledger over: The ledger can be written again, after 90 seconds.",
		"budget budget/key/k/day: The key k (alice) has spent 90 % of its limit for the day: 0.9 of 1 USD.",
		"budget budget/key/k/day/spent: The key k has spent 100 % of its limit for the day: 1 of 1 USD.",
		"spend spend/: All keys together spent 9 USD today, and 1 on a usual day.",
		"usage usage/2026-11-27: On 2026-11-27: 3 requests of 3 keys for 1 USD.",
		"payment payment/gas: The account that settles payments can pay for 3 more transfers.",
		"payment payment/lost: A request was answered and its payment not settled: 1 USD are lost.",
		"payment payment/credit: A purchase of credit for 1 USD at Bankr failed (refused).",
	} {
		a := <-w.Events()
		got := a.Topic + " " + a.About
		if a.Lasts {
			got += " lasts"
		}
		if a.Over {
			got += " over"
		}
		if got += ": " + a.Text; got != want || a.Time.IsZero() || a.Event == "" {
			t.Errorf("%s", got)
		}
		if b, err := json.Marshal(a); err != nil || !strings.Contains(string(b), `"data":{`) {
			t.Errorf("%v %s", err, b)
		}
	}
	if len(w.Events()) != 0 {
		t.Errorf("and %v", <-w.Events())
	}
}

// watching is a ledger with a Spending on it.
type watching struct {
	t     *testing.T
	books *ledger.Ledger
	now   time.Time
	n     int
	cfg   *config.Config
	feed  *event.Feed[alerts.Alert]
	seen  *event.Watcher[alerts.Alert]
	watch *alerts.Spending
}

func watch(t *testing.T) *watching {
	t.Helper()
	w := &watching{t: t, now: time.Now().UTC(), feed: &event.Feed[alerts.Alert]{}}
	w.cfg = &config.Config{Notifications: config.Notifications{DiscordWebhook: secret.New("x"), NearPct: 80, Factor: 3, LeastUSD: policy.USD}}
	var err error
	if w.books, err = ledger.Open(t.Context(), filepath.Join(t.TempDir(), "bardo.db"), ledger.Options{Gateway: true, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.books.Close() })
	var s event.Sink
	alerts.Listen(&s, w.feed)
	w.seen = w.feed.Watch(64)
	w.watch = &alerts.Spending{Books: w.books, Config: func() *config.Config { return w.cfg }, Events: &s, Log: slog.New(slog.DiscardHandler), Served: func() uint64 { return 1 }}
	return w
}

func (w *watching) spend(key policy.Account, amount policy.Micro) {
	w.t.Helper()
	w.n++
	if err := w.books.Record(ledger.Charge{RequestID: "r" + time.Duration(w.n).String(), Account: key, Amount: amount, At: w.now, Model: "m", Provider: "p"}); err != nil {
		w.t.Fatal(err)
	}
}

// texts returns the texts of a check.
func (w *watching) texts() string {
	w.t.Helper()
	if err := w.watch.Check(w.t.Context(), w.now); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for len(w.seen.Events()) > 0 {
		a := <-w.seen.Events()
		out = append(out, a.Text)
	}
	return strings.Join(out, " | ")
}

func (w *watching) expect(about, want string) {
	w.t.Helper()
	if got := w.texts(); got != want {
		w.t.Errorf("%s: %q, want %q", about, got, want)
	}
}

// TestALimitThatIsNearlySpentIsTold once per period, of keys, projects and owners, and again when it is spent.
func TestALimitThatIsNearlySpentIsTold(t *testing.T) {
	w := watch(t)
	w.now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	w.cfg.Notifications.Topics = []string{"budget"}
	for _, g := range []ledger.Group{{Kind: policy.OfOwner, ID: "acme", SpendMonth: 20 * policy.USD}, {Kind: policy.OfProject, ID: "web", Owner: "acme", SpendDay: 10 * policy.USD}} {
		if err := w.books.CreateGroup(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []ledger.KeyRow{{ID: "a", Name: "alice", Hash: "1", Project: "web", SpendDay: 5 * policy.USD}, {ID: "b", Hash: "2", Project: "web"}} {
		if err := w.books.CreateKey(t.Context(), k, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.spend("a", policy.USD*399/100)
	w.expect("below", "")
	w.spend("a", policy.USD/100)
	w.expect("near", "The key a (alice) has spent 80 % of its limit for the day: 4 of 5 USD.")
	w.expect("near, again", "")
	w.spend("b", 4*policy.USD)
	w.expect("the project", "The project web has spent 80 % of its limit for the day: 8 of 10 USD.")
	w.spend("a", policy.USD)
	w.expect("spent", "The key a (alice) has spent 100 % of its limit for the day: 5 of 5 USD.")
	w.expect("spent, again", "")
	w.now = w.now.AddDate(0, 0, 1)
	w.expect("another day", "")
	w.spend("a", 4*policy.USD)
	w.spend("b", 3*policy.USD)
	w.expect("the day's, and the owner's for the month", "The key a (alice) has spent 80 % of its limit for the day: 4 of 5 USD. | The owner acme has spent 80 % of its limit for the month: 16 of 20 USD.")
	if err := w.books.RevokeKey(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.AddDate(0, 0, 1)
	w.spend("a", 4*policy.USD)
	w.expect("a revoked key", "The owner acme has spent 100 % of its limit for the month: 20 of 20 USD.")
}

// TestSpendingFarAboveThatOfOtherDaysIsTold once a day, of a key and of all keys together, but not before three days are known, nor below the minimum amount.
func TestSpendingFarAboveThatOfOtherDaysIsTold(t *testing.T) {
	w := watch(t)
	w.now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	w.cfg.Notifications.Topics = []string{"spend"}
	if err := w.books.CreateKey(t.Context(), ledger.KeyRow{ID: "a", Name: "alice", Hash: "1"}, 0); err != nil {
		t.Fatal(err)
	}
	for _, day := range []policy.Micro{policy.USD, policy.USD * 2, policy.USD / 2} {
		w.spend("a", day)
		w.spend("a", 40*policy.USD)
		w.expect("too few days", "")
		w.now = w.now.AddDate(0, 0, 2)
	}
	w.spend("", 200*policy.USD) // without a key: counts for all keys together
	w.expect("all, but no key", "All keys together spent 200 USD today, and 41 on a usual day.")
	w.now = w.now.AddDate(0, 0, 1)
	w.spend("a", 120*policy.USD)
	w.expect("three times", "")
	w.spend("a", 4*policy.USD)
	w.expect("more than three times", "The key a (alice) spent 124 USD today, and 41 on a usual day.")
	w.spend("a", 100*policy.USD)
	w.expect("once a day", "All keys together spent 224 USD today, and 42 on a usual day.")
	w.now = w.now.AddDate(0, 0, 1)
	w.cfg.Notifications.LeastUSD = 1000 * policy.USD
	w.spend("a", 900*policy.USD)
	w.expect("below the least amount", "")
	w.now = w.now.AddDate(0, 0, 30)
	w.cfg.Notifications.LeastUSD = policy.USD
	w.spend("a", 900*policy.USD)
	w.expect("the days before are long ago", "")
}

// TestSpendingIsLookedAtWhileItIsTold, when there are requests, and otherwise occasionally.
func TestSpendingIsLookedAtWhileItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books, served := &counting{}, uint64(0)
		off, on := &config.Config{}, &config.Config{Notifications: config.Notifications{DiscordWebhook: secret.New("x"), Topics: []string{"budget"}}}
		cfg := off
		s := alerts.Spending{Books: books, Config: func() *config.Config { return cfg }, Served: func() uint64 { return served }, Events: &event.Sink{}, Log: slog.New(slog.DiscardHandler)}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		for _, step := range []struct {
			about  string
			set    func()
			within time.Duration
			checks int
		}{
			{"nobody is told", func() { served++ }, time.Hour, 0},
			{"the first look", func() { cfg = on }, time.Minute, 1},
			{"no requests", func() {}, 3 * time.Minute, 0},
			{"a request", func() { served++ }, 20 * time.Second, 1},
			{"others may share the ledger", func() {}, 5*time.Minute + 10*time.Second, 1},
		} {
			step.set()
			before := books.n
			time.Sleep(step.within) //nolint:forbidigo // synctest's
			synctest.Wait()
			if got := books.n - before; got != step.checks {
				t.Errorf("%s: %d looks", step.about, got)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// counting counts checks.
type counting struct{ n int }

func (c *counting) Keys(context.Context) ([]ledger.KeyRow, error) { c.n++; return nil, nil }

func (c *counting) Groups(context.Context, policy.Holder) ([]ledger.Group, error) { return nil, nil }

func (c *counting) Usage(context.Context, ledger.Filter, ledger.By) ([]ledger.UsageRow, error) {
	return nil, nil
}

// TestB16TheUsageOfADayIsTold once, when the day is over and requests in flight are charged; by key, and only if the topic is wanted.
func TestB16TheUsageOfADayIsTold(t *testing.T) {
	w := watch(t)
	w.now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	w.expect("nothing was used", "")
	w.spend("alice", 3*policy.USD)
	w.spend("alice", policy.USD)
	w.spend("", policy.USD/2)
	w.now = time.Date(2026, 11, 28, 0, 14, 59, 0, time.UTC)
	w.cfg.Notifications.Topics = []string{"usage"}
	w.expect("too early", "")
	w.now = w.now.Add(time.Second)
	w.cfg.Notifications.Topics = nil
	w.expect("not asked for", "")
	w.cfg.Notifications.Topics = []string{"usage"}
	if err := w.watch.Check(t.Context(), w.now); err != nil {
		t.Fatal(err)
	}
	a := <-w.seen.Events()
	u, ok := a.Data.(notice.DayUsage)
	if !ok || a.Topic != "usage" || a.About != "usage/2026-11-27" || u.Requests != 3 || u.Cost != 4*policy.USD+policy.USD/2 || len(u.Keys) != 2 || u.Keys[0].Key != "alice" || u.Keys[0].Cost != 4*policy.USD || u.Keys[1].Key != "" {
		t.Errorf("%+v", a)
	}
	w.expect("once", "")
	w.now = w.now.AddDate(0, 0, 1)
	w.expect("a day without usage", "")
}
