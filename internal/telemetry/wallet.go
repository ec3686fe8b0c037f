package telemetry

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Wallet has the metrics of the operator's account at Bankr, and of staked credit at Venice. Amounts are in millionths of a dollar.
type Wallet struct {
	Watched   bool // the account is read
	Credit    int64
	Ratio     float64
	Percent   int64
	Purchases map[string]int64 // by outcome

	Staked                bool
	StakeUsed, StakeDaily int64
}

var (
	walletCredit    = prometheus.NewDesc("bardo_bankr_credit_micro_usd", "Credit that is left at Bankr, in millionths of a dollar.", nil, nil)
	walletRatio     = prometheus.NewDesc("bardo_bankr_sustainability_ratio", "Lifetime revenue over lifetime cost of the wallet; 0 for one that never spent.", nil, nil)
	walletPercent   = prometheus.NewDesc("bardo_bankr_budget_percent", "What the wallet can afford of agents' usual budgets.", nil, nil)
	walletPurchases = prometheus.NewDesc("bardo_bankr_topups_total", "Purchases of credit, by outcome: bought, refused, unknown.", []string{"outcome"}, nil)
	stakeUsed       = prometheus.NewDesc("bardo_diem_used_micro_usd", "What staked credit has paid on this UTC day, in millionths of a dollar.", nil, nil)
	stakeDaily      = prometheus.NewDesc("bardo_diem_daily_micro_usd", "What staked credit pays for on a day, in millionths of a dollar; 0 means no limit.", nil, nil)
)

// wallets reads the account at each scrape.
type wallets struct{ read func() (Wallet, bool) }

// WatchWallet registers a function that every scrape calls for the account's numbers; ok is false if there are none. Call it once.
func (m *Metrics) WatchWallet(read func() (w Wallet, ok bool)) {
	m.registry.MustRegister(wallets{read})
}

// Describe implements prometheus.Collector.
func (wallets) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{walletCredit, walletRatio, walletPercent, walletPurchases, stakeUsed, stakeDaily} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c wallets) Collect(ch chan<- prometheus.Metric) {
	w, ok := c.read()
	if !ok {
		return
	}
	now := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	if w.Watched {
		now(walletCredit, float64(w.Credit))
		now(walletRatio, w.Ratio)
		now(walletPercent, float64(w.Percent))
		for _, outcome := range slices.Sorted(maps.Keys(w.Purchases)) {
			ch <- prometheus.MustNewConstMetric(walletPurchases, prometheus.CounterValue, float64(w.Purchases[outcome]), outcome)
		}
	}
	if w.Staked {
		now(stakeUsed, float64(w.StakeUsed))
		now(stakeDaily, float64(w.StakeDaily))
	}
}
