package budget

import "bardo.money/gateway/policy"

// Wallet is the lifetime revenue and cost of the wallet that pays for inference. The zero value is no wallet.
type Wallet struct{ Revenue, Cost policy.Micro }

// Seed is the daily budget of a wallet that has spent and never earned (P-12).
const Seed = policy.USD / 10

// Band is a row of the table of sustainability (P-12): a range of lifetime revenue over lifetime cost, and its effect on budgets, the choice of
// models, and verification by a second model.
type Band struct {
	State   string
	Percent int64 // of the usual budgets
	Seeded  bool  // a day has at most Seed, whatever the budgets are
	Models
	fits func(w Wallet) bool
}

// Models is the effect of a band on agents' requests, except critical ones.
type Models struct {
	Classes    int     // added to the minimum quality
	Cost       float64 // added to the cost sensitivity, 0 to 1
	Unverified bool    // answers are not verified by a second model
}

// bands is the table; the first row that fits applies. A ratio of exactly 2 is sustainable, exactly 1 and exactly a half are pressured.
var bands = []Band{
	{"bootstrapping", 100, true, Models{}, func(w Wallet) bool { return w.Revenue <= 0 && w.Cost > 0 }},
	{"", 100, false, Models{}, func(w Wallet) bool { return w.Revenue <= 0 }}, // no wallet
	{"expanding", 150, false, Models{Classes: 1}, func(w Wallet) bool { return w.Revenue-w.Cost > w.Cost }},
	{"sustainable", 100, false, Models{}, func(w Wallet) bool { return w.Revenue > w.Cost }},
	{"pressured", 70, false, Models{Cost: 0.2, Unverified: true}, func(w Wallet) bool { return w.Revenue >= w.Cost-w.Revenue }},
	{"contracting", 30, false, Models{Classes: -1, Cost: 1, Unverified: true}, func(Wallet) bool { return true }},
}

// Band returns the wallet's row.
func (w Wallet) Band() *Band {
	for i := range bands {
		if bands[i].fits(w) {
			return &bands[i]
		}
	}
	return &bands[len(bands)-1]
}

// Percent returns the share of its budgets that a wallet can afford.
func (w Wallet) Percent() int64 { return w.Band().Percent }

// Ratio returns lifetime revenue over lifetime cost; 0 for a wallet that never spent.
func (w Wallet) Ratio() float64 {
	if w.Cost <= 0 {
		return 0
	}
	return float64(max(w.Revenue, 0)) / float64(w.Cost)
}

// Daily limits a daily budget to what the wallet can afford.
func (w Wallet) Daily(budget policy.Micro) policy.Micro {
	if w.Band().Seeded {
		return min(budget, Seed)
	}
	return budget
}
