package budget

import "bardo.money/gateway/policy"

// Wallet is what the wallet that pays for inference earned and spent in its life. The zero value is no wallet.
type Wallet struct{ Revenue, Cost policy.Micro }

// Seed is the day's budget of a wallet that has spent and never earned (P-12).
const Seed = policy.USD / 10

// Band is a row of the table of sustainability (P-12): a range of lifetime revenue over lifetime cost, and what it does to budgets, to the choice of models, and to
// verification by a second model.
type Band struct {
	State   string
	Percent int64 // of the usual budgets
	Seeded  bool  // a day has Seed at most, whatever the budgets are
	Models
	fits func(w Wallet) bool
}

// Models are what a band does to the requests of agents, but for critical ones.
type Models struct {
	Classes    int     // that the least quality rises, or falls if negative
	Cost       float64 // that is added to how much cost matters, 0 to 1
	Unverified bool    // answers are not verified by a second model
}

// bands is the table, the first row that fits counts. A ratio that is exactly 2 is sustainable, exactly 1 and exactly a half are pressured.
var bands = []Band{
	{"bootstrapping", 100, true, Models{}, func(w Wallet) bool { return w.Revenue <= 0 && w.Cost > 0 }},
	{"", 100, false, Models{}, func(w Wallet) bool { return w.Revenue <= 0 }}, // no wallet
	{"expanding", 150, false, Models{Classes: 1}, func(w Wallet) bool { return w.Revenue-w.Cost > w.Cost }},
	{"sustainable", 100, false, Models{}, func(w Wallet) bool { return w.Revenue > w.Cost }},
	{"pressured", 70, false, Models{Cost: 0.2, Unverified: true}, func(w Wallet) bool { return w.Revenue >= w.Cost-w.Revenue }},
	{"contracting", 30, false, Models{Classes: -1, Cost: 1, Unverified: true}, func(Wallet) bool { return true }},
}

// Band is the wallet's row.
func (w Wallet) Band() *Band {
	for i := range bands {
		if bands[i].fits(w) {
			return &bands[i]
		}
	}
	return &bands[len(bands)-1]
}

// Percent is how much of its budgets a wallet can afford.
func (w Wallet) Percent() int64 { return w.Band().Percent }

// Ratio is lifetime revenue over lifetime cost; 0 for a wallet that never spent.
func (w Wallet) Ratio() float64 {
	if w.Cost <= 0 {
		return 0
	}
	return float64(max(w.Revenue, 0)) / float64(w.Cost)
}

// Daily is the most that a day's budget may be.
func (w Wallet) Daily(asked policy.Micro) policy.Micro {
	if w.Band().Seeded {
		return min(asked, Seed)
	}
	return asked
}
