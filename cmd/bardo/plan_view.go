package main

import (
	"fmt"
	"io"
	"strconv"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/projection"
)

// costPlan is the output of `bardo plan --json`. Costs are exact.
type costPlan struct {
	Ticks int64      `json:"ticks_per_day"`
	Tiers []tierPlan `json:"tiers"`
	Days  []dayPlan  `json:"days"`
	Month monthPlan  `json:"month"`
	Notes []string   `json:"notes"`

	Actual *actualPlan `json:"actual,omitempty"` // with --actual
}

// tierPlan is the model of a tier's calls, and the cost of a call.
type tierPlan struct {
	Tier     string            `json:"tier"`
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	Input    int64             `json:"input_tokens"`
	Output   int64             `json:"output_tokens"`
	PerCall  policy.Pico       `json:"per_call_usd"`
	Known    bool              `json:"price_known"`
}

// dayPlan is a day in a market.
type dayPlan struct {
	Mix   string      `json:"mix"`
	Tiers []dayOfTier `json:"tiers"`
	Cost  policy.Pico `json:"cost_usd"`
	Month policy.Pico `json:"thirty_days_usd"`
}

type dayOfTier struct {
	Tier  string      `json:"tier"`
	Calls float64     `json:"calls"`
	Cost  policy.Pico `json:"cost_usd"`
}

// monthPlan is thirty days of an agent's tasks.
type monthPlan struct {
	Tasks    []taskPlan  `json:"tasks"`
	Ordinary policy.Pico `json:"ordinary_usd"`
	Private  policy.Pico `json:"private_usd"`
	Total    policy.Pico `json:"total_usd"`
}

type taskPlan struct {
	Task     string            `json:"task"`
	PerDay   int64             `json:"calls_per_day"`
	Tier     string            `json:"privacy_tier"`
	Premium  int64             `json:"premium_pct"`
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	PerCall  policy.Pico       `json:"per_call_usd"`
	Cost     policy.Pico       `json:"cost_usd"`
}

func tiersOf(m *projection.Models) []tierPlan {
	tier := func(name string, to *policy.Resolution, c projection.Call) tierPlan {
		return tierPlan{name, to.Provider, to.Model, c.Input, c.Output, c.Cost(to.Prices), to.Prices.Known}
	}
	return []tierPlan{
		tier("T1", &m.T1, projection.Routine), tier("T2", &m.T2, projection.Deep), tier("T2+", &m.Deepest, projection.Deepest),
	}
}

func dayOf(ticks int64, mix projection.Mix, m *projection.Models) dayPlan {
	tiers, total := projection.Day(ticks, mix, m)
	d := dayPlan{Mix: mix.Name, Cost: total, Month: total * projection.DaysPerMonth}
	for _, t := range tiers {
		d.Tiers = append(d.Tiers, dayOfTier{t.Name, float64(t.PerDay) / 1000, t.Cost})
	}
	return d
}

func monthOf(ticks int64, ordinary, private *policy.Resolution) monthPlan {
	tasks, elsewhere, onPrivate := projection.Month(ticks, ordinary, private)
	m := monthPlan{Ordinary: elsewhere, Private: onPrivate, Total: elsewhere + onPrivate}
	for _, t := range tasks {
		m.Tasks = append(m.Tasks, taskPlan{t.Class, t.PerDay, t.Tier.String(), t.Premium, t.Provider, t.Model, t.PerCall, t.Cost})
	}
	return m
}

// print prints the plan as tables, followed by its notes.
func (p *costPlan) print(w io.Writer) error {
	say := func(format string, args ...any) error {
		_, err := fmt.Fprintf(w, format, args...)
		return err
	}
	for _, step := range []func() error{
		func() error {
			return cli.PrintTable(w, []string{"TIER", "MODEL", "PROVIDER", "TOKENS", "PER CALL"}, p.tierRows())
		},
		func() error { return say("\nA day of %d ticks (calls, cost)\n\n", p.Ticks) },
		func() error {
			return cli.PrintTable(w, []string{"MARKET", "T0", "T1", "T2", "T2+", "A DAY", "30 DAYS"}, p.dayRows())
		},
		func() error { return say("\nThirty days of a stable agent's tasks\n\n") },
		func() error {
			return cli.PrintTable(w, []string{"TASK", "A DAY", "PRIVACY", "MODEL", "PROVIDER", "PER CALL", "30 DAYS"}, p.taskRows())
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if p.Actual != nil {
		if err := p.Actual.print(w); err != nil {
			return err
		}
	}
	for i, note := range p.Notes {
		lead := ""
		if i == 0 {
			lead = "\n"
		}
		if err := say("%s* %s\n", lead, note); err != nil {
			return err
		}
	}
	return nil
}

func (p *costPlan) tierRows() (rows [][]string) {
	for _, t := range p.Tiers {
		each := cost(t.PerCall, 4)
		if t.Model != "" && !t.Known {
			each = "not known"
		}
		rows = append(rows, []string{t.Tier, string(t.Model), string(t.Provider), fmt.Sprintf("%d + %d", t.Input, t.Output), each})
	}
	return rows
}

func (p *costPlan) dayRows() (rows [][]string) {
	for _, d := range p.Days {
		row := []string{d.Mix}
		for _, t := range d.Tiers {
			cell := strconv.FormatFloat(t.Calls, 'f', -1, 64)
			if t.Tier != "T0" {
				cell += "  " + cost(t.Cost, 3)
			}
			row = append(row, cell)
		}
		rows = append(rows, append(row, cost(d.Cost, 2), cost(d.Month, 2)))
	}
	return rows
}

func (p *costPlan) taskRows() (rows [][]string) {
	for _, t := range p.Month.Tasks {
		privacy := t.Tier
		if t.Premium > 0 {
			privacy += fmt.Sprintf(" +%d%%", t.Premium)
		}
		rows = append(rows, []string{t.Task, strconv.FormatInt(t.PerDay, 10), privacy, string(t.Model), string(t.Provider), cost(t.PerCall, 4), cost(t.Cost, 2)})
	}
	return append(rows, []string{"total", "", "", "", "", "", cost(p.Month.Total, 2)})
}

// cost formats an amount with the given number of decimals.
func cost(c policy.Pico, decimals int) string {
	const pico = 1e12
	return "$" + strconv.FormatFloat(float64(c)/pico, 'f', decimals, 64)
}
