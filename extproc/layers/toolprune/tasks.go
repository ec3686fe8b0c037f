package toolprune

import (
	"maps"
	"slices"

	"bardo.money/gateway/extproc/transcript"
)

// TaskMap is the tools of each kind of an agent's tick, by patterns of their names, most needed first: "*" stands for any text. A kind without patterns,
// or of whose patterns the request has no tool, is served by similarity.
type TaskMap map[string][]string

// DefaultTasks are the seven kinds of ticks. Patterns are matched in lower case.
var DefaultTasks = TaskMap{
	"market_analysis": {
		"*price*", "*market*", "*ohlc*", "*candle*", "*volume*", "*liquidity*", "*trend*", "*indicator*", "*volatility*", "*oracle*", "*news*", "*sentiment*",
		"*pool*info*", "*chart*",
	},
	"lp_management": {
		"*liquidity*", "*lp*", "*pool*", "*position*", "*fee*", "*range*", "*tick*", "*price*", "*impermanent*", "*collect*", "*gas*",
	},
	"vault_rebalance": {
		"*vault*", "*rebalance*", "*allocat*", "*deposit*", "*withdraw*", "*yield*", "*apy*", "*apr*", "*balance*", "*price*", "*gas*", "*strategy*",
	},
	"risk_check": {
		"*risk*", "*health*", "*exposure*", "*liquidation*", "*collateral*", "*position*", "*drawdown*", "*limit*", "*oracle*", "*price*", "*balance*", "*alert*",
		"*permit*", "*allowance*",
	},
	"portfolio_review": {
		"*portfolio*", "*balance*", "*position*", "*pnl*", "*performance*", "*holding*", "*history*", "*transaction*", "*price*", "*allocat*", "*report*",
	},
	"trade_execution": {
		"*swap*", "*quote*", "*trade*", "*order*", "*execute*", "*simulate*", "*slippage*", "*route*", "*approve*", "*allowance*", "*gas*", "*balance*", "*price*",
		"*send*", "*sign*", "*transaction*",
	},
	"strategy_update": {
		"*strategy*", "*playbook*", "*parameter*", "*config*", "*backtest*", "*performance*", "*knowledge*", "*memory*", "*note*", "*goal*", "*plan*",
	},
}

// order is the tools of a task by the first pattern that they match; tools of one pattern keep the request's order. It is the same for every tick of a
// kind, so that the provider's prompt cache holds.
func (m TaskMap) order(task string, t *transcript.Transcript) []int {
	patterns := m[task]
	var order []int
	for _, p := range patterns {
		for i := range t.Tools {
			if matches(p, t.Tools[i].Name) && !slices.Contains(order, i) {
				order = append(order, i)
			}
		}
	}
	return order
}

// With is the map with the kinds of another one in place of its own.
func (m TaskMap) With(other map[string][]string) TaskMap {
	out := maps.Clone(m)
	maps.Copy(out, other)
	return out
}
