package budget

import "bardo.money/gateway/policy"

// Wallet is what the wallet that pays for inference earned and spent in its life. The zero value is no wallet.
type Wallet struct{ Revenue, Cost policy.Micro }

// Seed is the day's budget of a wallet that has spent and never earned (P-12).
const Seed = policy.USD / 10

// Percent is how much of its budgets a wallet can afford, by its sustainability, revenue over cost (D-55): 150 above 2, 100 above
// 1, 70 above a half, 30 below it. Without a wallet, and for one that has not earned, which lives on its Seed, it is 100.
func (w Wallet) Percent() int64 {
	switch {
	case w.Revenue <= 0:
		return 100
	case w.Revenue-w.Cost > w.Cost:
		return 150
	case w.Revenue > w.Cost:
		return 100
	case w.Revenue >= w.Cost-w.Revenue: // at least half
		return 70
	}
	return 30
}

// Daily is the most that a day's budget may be.
func (w Wallet) Daily(asked policy.Micro) policy.Micro {
	if w.Revenue <= 0 && w.Cost > 0 {
		return min(asked, Seed)
	}
	return asked
}
