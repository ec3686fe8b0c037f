// Package projection estimates the cost of an agent's inference: per day, from the share of heartbeats that need a model, and per month, from its
// tasks and their privacy tiers. It is integer arithmetic over given prices, without rounding.
package projection

import "bardo.money/gateway/policy"

// Call is the size of a typical call, in tokens.
type Call struct{ Input, Output int64 }

// Cost returns the cost of a call at a price.
func (c Call) Cost(p policy.Prices) policy.Pico { return p.Cost(c.Input, 0, 0, 0, c.Output) }

// The typical calls. At the list prices of Claude Haiku 4.5, Sonnet 4 and Opus 4.6 they come to $0.003, $0.01 and $0.25
//
var (
	Routine = Call{Input: 1_500, Output: 300}
	Deep    = Call{Input: 1_500, Output: 367}
	Deepest = Call{Input: 20_000, Output: 6_000}
)

// Mix is the share of each tier in a day's ticks, in thousandths, so that sums are exact.
type Mix struct {
	Name       string
	T0, T1, T2 int64 // thousandths of all ticks
	Deepest    int64 // of T2's ticks, the thousandths that the strongest model answers
}

// Mixes are three states of the market.
var Mixes = []Mix{
	{Name: "calm", T0: 900, T1: 80, T2: 20, Deepest: 0},
	{Name: "normal", T0: 800, T1: 150, T2: 50, Deepest: 83},
	{Name: "volatile", T0: 600, T1: 250, T2: 150, Deepest: 167},
}

// Tier is the cost of one tier's calls in a day.
type Tier struct {
	Name      string // T0, T1, T2 or T2+, the strongest model
	Model     policy.ModelID
	Provider  policy.ProviderID
	PerDay    int64 // calls, in thousandths
	PerCall   policy.Pico
	Cost      policy.Pico
	Estimated bool // the price is unknown
}

// Models are the models of the tiers.
type Models struct{ T1, T2, Deepest policy.Resolution }

// Day projects a day of a number of ticks.
func Day(ticks int64, mix Mix, m *Models) (tiers []Tier, total policy.Pico) {
	deepest := ticks * mix.T2 * mix.Deepest / 1000
	tiers = []Tier{
		{Name: "T0", PerDay: ticks * mix.T0},
		tier("T1", &m.T1, Routine, ticks*mix.T1),
		tier("T2", &m.T2, Deep, ticks*mix.T2-deepest),
		tier("T2+", &m.Deepest, Deepest, deepest),
	}
	for _, t := range tiers {
		total += t.Cost
	}
	return tiers, total
}

func tier(name string, to *policy.Resolution, c Call, thousandths int64) Tier {
	each := c.Cost(to.Prices)
	return Tier{
		Name: name, Model: to.Model, Provider: to.Provider, PerDay: thousandths, PerCall: each,
		Cost: policy.Pico(int64(each) / 1000 * thousandths), Estimated: !to.Prices.Known,
	}
}

// Premiums on the price of private inference, in percent: the middle of the ranges of P-04.
const (
	PremiumTEE      = 30
	PremiumEndToEnd = 65
)

// Premium returns the surcharge of a privacy tier, in percent.
func Premium(t policy.PrivacyTier) int64 {
	switch t {
	case policy.PrivacyTEE:
		return PremiumTEE
	case policy.PrivacyEndToEnd:
		return PremiumEndToEnd
	case policy.PrivacyUnset, policy.PrivacyNoLog:
	}
	return 0
}

// Task is a class of tasks in a month.
type Task struct {
	Class  string
	PerDay int64 // calls; of the heartbeat, per hundred ticks
	Tier   policy.PrivacyTier
	Call   Call
	Ticks  bool // in proportion to the ticks of a day
}

// Tasks are those of a stable agent with a hundred ticks a day, as in R-25. At $1 and $4 per million tokens on the private plane, and at the routine
// heartbeat's price elsewhere, they result in its figures.
var Tasks = []Task{
	{Class: "heartbeat", PerDay: 80, Call: Call{Input: 1_000, Output: 200}, Ticks: true},
	{Class: "plan", PerDay: 5, Tier: policy.PrivacyTEE, Call: Call{Input: 5_540, Output: 1_500}},
	{Class: "trade", PerDay: 3, Tier: policy.PrivacyTEE, Call: Call{Input: 7_386, Output: 2_000}},
	{Class: "dream_nrem", PerDay: 2, Tier: policy.PrivacyNoLog, Call: Call{Input: 2_600, Output: 600}},
	{Class: "dream_rem", PerDay: 2, Tier: policy.PrivacyNoLog, Call: Call{Input: 4_000, Output: 1_000}},
	{Class: "dream_integration", PerDay: 1, Tier: policy.PrivacyTEE, Call: Call{Input: 6_648, Output: 1_800}},
}

// DaysPerMonth is the length of a month in projections.
const DaysPerMonth = 30

// TaskCost is the cost of a class of tasks in a month.
type TaskCost struct {
	Task
	Model     policy.ModelID
	Provider  policy.ProviderID
	Premium   int64       // of its tier, in percent
	PerCall   policy.Pico // including the premium
	Cost      policy.Pico
	Estimated bool
}

// Month projects thirty days of a number of ticks. private serves the tasks with a privacy tier, ordinary the rest. With staked credit private
// inference is free: pass a price of zero. A provider that is not private has no surcharge.
func Month(ticks int64, ordinary, private *policy.Resolution) (tasks []TaskCost, elsewhere, onPrivate policy.Pico) {
	for _, t := range Tasks {
		to := ordinary
		if t.Tier != policy.PrivacyUnset {
			to = private
		}
		if t.Ticks {
			t.PerDay = t.PerDay * ticks / 100
		}
		c := TaskCost{Task: t, Model: to.Model, Provider: to.Provider, Estimated: !to.Prices.Known}
		if to.Private {
			c.Premium = Premium(t.Tier)
		}
		each := t.Call.Cost(to.Prices)
		c.PerCall = each + each/100*policy.Pico(c.Premium)
		c.Cost = c.PerCall * policy.Pico(t.PerDay*DaysPerMonth)
		tasks = append(tasks, c)
		if to == private {
			onPrivate += c.Cost
		} else {
			elsewhere += c.Cost
		}
	}
	return tasks, elsewhere, onPrivate
}
