// Package notice declares the events of a running gateway that do not belong to a request: of providers, their lists of models, payments, spending, and the
// ledger.
package notice

import (
	"log/slog"
	"time"

	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay/till"
)

// The events of providers.
var (
	CredentialRefused = event.Declare[ProviderFailure]("provider:credential_refused", "A provider refused the gateway's credential.").Audited()
	ProviderDown      = event.Declare[ProviderFailure]("provider:down", "A provider does not work, and is tried after the others.")
	ProviderUp        = event.Declare[ProviderRecovery]("provider:up", "A provider works again.")
	RefreshFailed     = event.Declare[ListFailure]("catalog:refresh_failed", "A provider's list of models was not read.")
)

// ProviderFailure is the event of a provider that is down, or refuses the credential.
type ProviderFailure struct {
	Provider policy.ProviderID `json:"provider"`
	Reason   string            `json:"reason"`
}

// ProviderRecovery is the event of a provider that works again.
type ProviderRecovery struct {
	Provider policy.ProviderID `json:"provider"`
}

// ListFailure is the event of a list that could not be read.
type ListFailure struct {
	Provider policy.ProviderID `json:"provider"`
	Error    string            `json:"error"`
	Failures int               `json:"failures"` // consecutive
}

// The events of payments.
var (
	LowGas      = event.Declare[Gas]("payment:low_gas", "The settling account can pay for few transfers.")
	PaymentLost = event.Declare[till.Loss]("payment:lost", "A request was answered, and its payment was not settled.").Audited()
)

// Gas is the event of a settling account that can pay for few transfers.
type Gas struct {
	TransfersLeft int64 `json:"transfers_left"`
}

// The events of a ledger that cannot be written.
var (
	Unwritable = event.Declare[LedgerOutage]("ledger:unwritable", "The ledger cannot be written.").Audited()
	Writable   = event.Declare[LedgerRecovery]("ledger:writable", "The ledger can be written again.").Audited()
)

// LedgerOutage is the event of a ledger that cannot be written.
type LedgerOutage struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// LedgerRecovery is the event of a ledger that can be written again.
type LedgerRecovery struct {
	Reason  string    `json:"reason"` // of the outage
	Since   time.Time `json:"since"`
	Seconds float64   `json:"seconds"`
	Written int       `json:"written"` // changes that were queued
}

// The events of spending.
var (
	BudgetNear   = event.Declare[Budget]("budget:near_end", "A limit of a key, project or owner is nearly or wholly spent; looked at while notifications are sent.")
	SpendUnusual = event.Declare[Spending]("spend:unusual", "A day's spending is far above that of the days before; looked at while notifications are sent.")
)

// UsageOfDay is the event of the end of a UTC day.
var UsageOfDay = event.Declare[DayUsage]("usage:day", "A day (UTC) is over: what was used, by key; looked at while notifications of the topic usage are sent.")

// DayUsage is the usage of a day.
type DayUsage struct {
	Day          string       `json:"day"` // 2006-01-02, UTC
	Requests     int64        `json:"requests"`
	Cost         policy.Micro `json:"cost_usd"`
	ProviderCost policy.Pico  `json:"provider_cost_usd"`
	Keys         []KeyUsage   `json:"keys"`   // the most expensive first
	Others       int          `json:"others"` // keys that are not listed
}

// KeyUsage is a key's usage on a day. Members are named as in reports.
type KeyUsage struct {
	Key      string `json:"key"` // "" for requests without one
	Name     string `json:"name,omitempty"`
	Requests int64  `json:"requests"`
	ledger.Tokens
	Cost         policy.Micro `json:"cost_usd"`
	ProviderCost policy.Pico  `json:"provider_cost_usd"`
	Saved        policy.Micro `json:"saved_usd"`
}

// Budget is the event of a limit that is nearly or wholly spent.
type Budget struct {
	Holder  policy.Holder `json:"holder"` // key, project or owner
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Period  string        `json:"period"` // day or month, UTC
	Limit   policy.Micro  `json:"limit_usd"`
	Spent   policy.Micro  `json:"spent_usd"`
	Percent int           `json:"percent"`
}

// Spending is the event of a day with unusually high spending.
type Spending struct {
	Key   string       `json:"key,omitempty"` // "" for all keys together
	Name  string       `json:"name,omitempty"`
	Day   string       `json:"day"` // 2006-01-02, UTC
	Spent policy.Micro `json:"spent_usd"`
	Usual policy.Micro `json:"usual_usd"` // the median of the previous days with spending
}

// Outage emits that the ledger cannot be written, or can be again.
func Outage(s *event.Sink, o ledger.Outage) {
	since := o.Err.Since.UTC()
	if o.Ended {
		Writable.Emit(s, "", LedgerRecovery{o.Err.Reason, since, o.Lasted.Seconds(), o.Written})
		return
	}
	Unwritable.Emit(s, "", LedgerOutage{o.Err.Reason, since})
}

// changes maps kinds of catalog changes to their events.
var changes = map[catalog.ChangeKind]event.Kind[change]{
	catalog.Appeared:     event.Declare[change]("catalog:model_appeared", "A provider's list has a new model."),
	catalog.Vanished:     event.Declare[change]("catalog:model_vanished", "A model is not in its provider's list any more."),
	catalog.PriceChanged: event.Declare[change]("catalog:price_changed", "A provider's list has another price."),
}

// change is the event of a model that was added or removed, or whose price changed.
type change struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	Old      *policy.PriceList `json:"old_price,omitempty"`
	New      *policy.PriceList `json:"new_price,omitempty"`
}

// Changes logs and emits the differences between two catalogs.
func Changes(s *event.Sink, log *slog.Logger, before, after *catalog.Catalog) {
	for _, c := range catalog.Diff(before, after) {
		log.Info("the catalog has changed", "what", string(c.Kind), "provider", string(c.Provider), "model", string(c.Model),
			"input", policy.Micro(c.New.Input).String(), "output", policy.Micro(c.New.Output).String())
		e := change{Provider: c.Provider, Model: c.Model}
		if c.Kind != catalog.Appeared {
			e.Old = new(c.Old.List())
		}
		if c.Kind != catalog.Vanished {
			e.New = new(c.New.List())
		}
		changes[c.Kind].Emit(s, "", e)
	}
}
