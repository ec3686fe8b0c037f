// Package alerts derives alerts for operators from the events of a running gateway, and monitors spending. It does not send anything: package notify does,
// which only the program bardo contains.
package alerts

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"bardo.money/gateway/cmd/bardo/run/notice"
	"bardo.money/gateway/cmd/bardo/run/relay"
	"bardo.money/gateway/cmd/bardo/wallet"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay/till"
)

// Alert is something that an operator has to know. It has no content of requests.
type Alert struct {
	Time  time.Time `json:"time"`
	Topic string    `json:"topic"` // one of notifications.topics
	Event string    `json:"event"` // the event's name
	About string    `json:"about"` // the subject: the same for the beginning, repetitions and end of a problem
	Text  string    `json:"text"`
	Lasts bool      `json:"lasts,omitempty"` // another alert will resolve it
	Over  bool      `json:"over,omitempty"`  // it resolves the problem
	Data  any       `json:"data"`            // the event's fields
}

// Options configure a sender.
type Options struct {
	Gateway string                // name of the gateway, for people
	Redact  func(s string) string // removes secrets
	Metrics *telemetry.Metrics
	Log     *slog.Logger
}

// Opener creates a sender for a configuration; nil if none is wanted. It does not connect yet. Senders of the same opener share what was already sent.
type Opener func(ctx context.Context, cfg *config.Config) (relay.Sink[Alert], error)

// Listen publishes alerts derived from the events of s on feed. Other events are unaffected.
func Listen(s *event.Sink, feed *event.Feed[Alert]) {
	provider := func(t notice.ProviderFailure) string { return "provider/" + string(t.Provider) }
	on(s, feed, notice.ProviderDown, "provider", func(a *Alert, t notice.ProviderFailure) {
		a.About, a.Lasts = provider(t), true
		a.Text = fmt.Sprintf("Provider %s is down: %s. It is tried after the others.", t.Provider, t.Reason)
	})
	on(s, feed, notice.CredentialRefused, "provider", func(a *Alert, t notice.ProviderFailure) {
		a.About, a.Lasts = provider(t), true
		a.Text = fmt.Sprintf("Provider %s refuses the gateway's key: %s.", t.Provider, t.Reason)
	})
	on(s, feed, notice.ProviderUp, "provider", func(a *Alert, r notice.ProviderRecovery) {
		a.About, a.Over = "provider/"+string(r.Provider), true
		a.Text = fmt.Sprintf("Provider %s works again.", r.Provider)
	})
	on(s, feed, notice.Unwritable, "ledger", func(a *Alert, b notice.LedgerOutage) {
		a.About, a.Lasts = "ledger", true
		a.Text = fmt.Sprintf("The ledger cannot be written: %s. Requests that cost something are refused until it can.", b.Reason)
	})
	on(s, feed, notice.Writable, "ledger", func(a *Alert, m notice.LedgerRecovery) {
		a.About, a.Over = "ledger", true
		a.Text = fmt.Sprintf("The ledger can be written again, after %.0f seconds.", m.Seconds)
	})
	listenMoney(s, feed)
}

// listenMoney is Listen for the events of budgets, spending and payments.
func listenMoney(s *event.Sink, feed *event.Feed[Alert]) {
	on(s, feed, notice.BudgetNear, "budget", func(a *Alert, b notice.Budget) {
		a.About = fmt.Sprintf("budget/%s/%s/%s", b.Holder, b.ID, b.Period)
		if b.Percent >= 100 {
			a.About += "/spent"
		}
		a.Text = fmt.Sprintf("The %s %s has spent %d %% of its limit for the %s: %s of %s USD.", b.Holder, named(b.ID, b.Name), b.Percent, b.Period, usd(b.Spent), usd(b.Limit))
	})
	on(s, feed, notice.SpendUnusual, "spend", func(a *Alert, p notice.Spending) {
		a.About = "spend/" + p.Key
		who := "All keys together"
		if p.Key != "" {
			who = "The key " + named(p.Key, p.Name)
		}
		a.Text = fmt.Sprintf("%s spent %s USD today, and %s on a usual day.", who, usd(p.Spent), usd(p.Usual))
	})
	on(s, feed, notice.UsageOfDay, "usage", func(a *Alert, u notice.DayUsage) {
		a.About = "usage/" + u.Day
		a.Text = fmt.Sprintf("On %s: %d requests of %d keys for %s USD.", u.Day, u.Requests, len(u.Keys)+u.Others, usd(u.Cost))
	})
	on(s, feed, notice.LowGas, "payment", func(a *Alert, g notice.Gas) {
		a.About = "payment/gas"
		a.Text = fmt.Sprintf("The account that settles payments can pay for %d more transfers.", g.TransfersLeft)
	})
	on(s, feed, notice.PaymentLost, "payment", func(a *Alert, l till.Loss) {
		a.About = "payment/lost"
		a.Text = fmt.Sprintf("A request was answered and its payment not settled: %s USD are lost.", usd(l.Loss))
	})
	on(s, feed, wallet.EventTopupFailed, "payment", func(a *Alert, f wallet.TopupFailed) {
		a.About = "payment/credit"
		a.Text = fmt.Sprintf("A purchase of credit for %s USD at Bankr failed (%s).", usd(f.Amount), f.Outcome)
	})
}

// on publishes an alert for each event of a kind.
func on[T any](s *event.Sink, feed *event.Feed[Alert], kind event.Kind[T], topic string, fill func(*Alert, T)) {
	kind.Watch(s, func(at time.Time, _ policy.Account, data T) {
		if !feed.Watched() {
			return
		}
		a := Alert{Time: at, Topic: topic, Event: kind.Name(), Data: data}
		fill(&a, data)
		feed.Publish(a)
	})
}

// named is an id with its name.
func named(id, name string) string {
	if name == "" || name == id {
		return id
	}
	return fmt.Sprintf("%s (%s)", id, name)
}

// usd formats an amount without trailing zeros.
func usd(m policy.Micro) string { return m.Pico().String() }
