package toolprune

import (
	"maps"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/transcript"
)

// TaskMap is the tools of each kind of an agent's tick, by patterns of their names, most needed first: "*" stands for any text. For a kind without patterns, or
// without matching tools in the request, tools are ranked by similarity.
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

// order is the tools of a task by the first pattern that they match; tools of one pattern keep the request's order. It is the same for every tick of a kind,
// so that the provider's prompt cache stays valid.
func (m TaskMap) order(task string, t *transcript.Transcript) []int {
	return orderOf(m[task], lowered(t))
}

// lowered are the tools' names in the form that patterns match.
func lowered(t *transcript.Transcript) []string {
	names := make([]string, len(t.Tools))
	for i := range t.Tools {
		names[i] = strings.ReplaceAll(strings.ToLower(t.Tools[i].Name), "/", ".")
	}
	return names
}

func orderOf(patterns, names []string) (order []int) {
	taken := make([]bool, len(names))
	for _, p := range patterns {
		for i, name := range names {
			if !taken[i] && matches(p, name) {
				taken[i] = true
				order = append(order, i)
			}
		}
	}
	return order
}

// shared is the tools of all kinds of ticks alternately: the most needed one of each kind, then the next one of each. It is the same for every tick of an agent.
func (m TaskMap) shared(t *transcript.Transcript) (order []int) {
	var lists [][]int
	longest, names := 0, lowered(t)
	for _, kind := range slices.Sorted(maps.Keys(m)) {
		lists = append(lists, orderOf(m[kind], names))
		longest = max(longest, len(lists[len(lists)-1]))
	}
	taken := make([]bool, len(names))
	for n := range longest {
		for _, list := range lists {
			if n < len(list) && !taken[list[n]] {
				taken[list[n]] = true
				order = append(order, list[n])
			}
		}
	}
	return order
}

// With is the map with the kinds of another one, which replace its own of the same name.
func (m TaskMap) With(other map[string][]string) TaskMap {
	out := maps.Clone(m)
	maps.Copy(out, other)
	return out
}
