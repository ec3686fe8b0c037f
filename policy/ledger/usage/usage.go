package usage

import (
	"context"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
)

// Request is the record of one request.
type Request struct {
	chargelog.Charge
	Charged policy.Micro // paid by the account; less than the amount if its balance was too low
}

// By is a dimension of a report.
type By string

// The dimensions.
const (
	ByModel     By = "model"
	ByProvider  By = "provider"
	BySubsystem By = "subsystem"
	ByDay       By = "day"
	ByKey       By = "key"
	ByProject   By = "project" // the key's current project
	ByGolem     By = "golem"   // the agent that sent the request
	ByLayer     By = "layer"   // of the pipeline, for savings only
)

// Filter selects the requests of a sum. The zero value selects all.
type Filter struct {
	Account policy.Account // "" means every account
	Project string         // the key's current project; "" means every project and none
	Golem   string         // "" means every agent and none
	Since   time.Time      // the first UTC day; zero means from the beginning
	Until   time.Time      // the last UTC day; zero means to the end
}

// Row is the sum of the requests that share a value in each dimension of a report.
type Row struct {
	Name     string `json:"name"` // a day is written 2006-01-02
	Requests int64  `json:"requests"`
	Refused  int64  `json:"refused"` // refused before a provider was called: without model, provider and subsystem
	chargelog.Tokens
	Cost         policy.Micro `json:"cost_usd"` // charged, or counted for metered keys
	ProviderCost policy.Pico  `json:"provider_cost_usd"`
	Saved        policy.Micro `json:"saved_usd"` // by the layers of the pipeline; negative if they cost more than they saved
}

// Usage sums the usage of requests by one dimension, in order of time by day, otherwise most expensive first. It reads the daily totals, which are kept
// longer than requests.
func (v *View) Usage(ctx context.Context, f Filter, by By) (rows []Row, err error) {
	sums, err := v.Report(ctx, Query{Filter: f, By: []By{by}})
	for i := range sums {
		rows = append(rows, sums[i].Row)
	}
	return rows, err
}

// Charged sums the charges of an account on the days from first to last.
func (v *View) Charged(ctx context.Context, acct policy.Account, first, last int64) (sum policy.Micro, err error) {
	err = v.QueryRowContext(ctx, `SELECT coalesce(sum(charged), 0) FROM usage WHERE account = ? AND day BETWEEN ? AND ?`, acct, first, last).Scan(&sum)
	for _, e := range v.Unapplied() {
		if day := DayOf(e.Charge.At); e.Charge.Account == acct && first <= day && day <= last {
			sum += e.Expected()
		}
	}
	return sum, err
}

// DayOf is the UTC day of a time, in days since 1970.
func DayOf(t time.Time) int64 {
	const day = 24 * 60 * 60
	s := t.Unix()
	if s < 0 {
		return (s - day + 1) / day
	}
	return s / day
}
