package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/ledger"
)

// actualFlags select the requests that the plan is compared with.
type actualFlags struct {
	days                int
	key, project, golem string
}

// maxDays is a year.
const maxDays = 366

func (f *actualFlags) register(c *cobra.Command) {
	c.Flags().IntVar(&f.days, "actual", 0, "compare with what the ledger has of so many whole UTC days before today")
	c.Flags().StringVar(&f.key, "key", "", "with --actual: only this key's requests, by its id")
	c.Flags().StringVar(&f.project, "project", "", "with --actual: only requests of the keys of this project")
	c.Flags().StringVar(&f.golem, "golem", "", "with --actual: only this agent's requests, by its id")
}

// check validates the flags.
func (f *actualFlags) check() error {
	if f.days < 0 || f.days > maxDays {
		return fmt.Errorf("--actual %d, expected 1 to %d days", f.days, maxDays)
	}
	if f.days == 0 && (f.key != "" || f.project != "" || f.golem != "") {
		return fmt.Errorf("--key, --project and --golem need --actual")
	}
	return nil
}

// actualPlan is the comparison of `bardo plan --actual`: an average day of the plan and of the ledger.
type actualPlan struct {
	Days      int         `json:"days"`
	Mix       string      `json:"mix"`
	Rows      []actualRow `json:"subsystems"`
	Planned   policy.Pico `json:"planned_per_day_usd"`
	Actual    policy.Pico `json:"actual_per_day_usd"`
	Charged   policy.Pico `json:"charged_per_day_usd"` // including the gateway's spread
	FullPrice policy.Pico `json:"full_price_per_day_usd"`
}

// actualRow is a subsystem. Costs are those of providers.
type actualRow struct {
	Subsystem    string      `json:"subsystem"` // "" for requests without one
	PlannedCalls float64     `json:"planned_calls_per_day"`
	Planned      policy.Pico `json:"planned_per_day_usd"`
	ActualCalls  float64     `json:"actual_calls_per_day"`
	Actual       policy.Pico `json:"actual_per_day_usd"`
}

// tierSubsystems are the subsystems of the calls of a plan's tiers.
var tierSubsystems = map[string]string{"T1": "heartbeat_t1", "T2": "heartbeat_t2", "T2+": "risk"}

// plannedRows returns the planned calls of each subsystem on a day.
func (p *costPlan) plannedRows(day *dayPlan) map[string]*actualRow {
	rows := map[string]*actualRow{}
	for _, t := range day.Tiers {
		if name, ok := tierSubsystems[t.Tier]; ok {
			rows[name] = &actualRow{Subsystem: name, PlannedCalls: t.Calls, Planned: t.Cost}
		}
	}
	for _, t := range p.Month.Tasks {
		if isDream(t.Task) {
			rows[t.Task] = &actualRow{Subsystem: t.Task, PlannedCalls: float64(t.PerDay), Planned: t.PerCall * policy.Pico(t.PerDay)}
		}
	}
	return rows
}

// isDream reports whether a planned task is one of the subsystem dream, whose calls are not part of the ticks.
func isDream(task string) bool { return intent.Root(task) == "dream" }

// compare sums the ledger by subsystem and compares it with the plan. A subsystem that is not in the plan has its own row, unless its intent is that of one
// that is.
func (p *costPlan) compare(sums []ledger.UsageRow, days int) *actualPlan {
	day := &p.Days[0]
	if i := slices.IndexFunc(p.Days, func(d dayPlan) bool { return d.Mix == "normal" }); i >= 0 {
		day = &p.Days[i]
	}
	out := &actualPlan{Days: days, Mix: day.Mix}
	rows := p.plannedRows(day)
	for i := range sums {
		s := &sums[i]
		row := rowFor(rows, s.Name)
		row.ActualCalls += float64(s.Requests-s.Refused) / float64(days)
		row.Actual += s.ProviderCost / policy.Pico(days)
		out.Charged += policy.Pico(s.Cost) * picoPerMicro / policy.Pico(days)
		out.FullPrice += policy.Pico(s.Cost.Plus(s.Saved)) * picoPerMicro / policy.Pico(days)
	}
	for _, row := range slices.SortedFunc(maps.Values(rows), func(a, b *actualRow) int {
		return cmp.Or(cmp.Compare(b.Planned, a.Planned), cmp.Compare(b.Actual, a.Actual), cmp.Compare(a.Subsystem, b.Subsystem))
	}) {
		out.Rows = append(out.Rows, *row)
		out.Planned += row.Planned
		out.Actual += row.Actual
	}
	return out
}

const picoPerMicro = 1_000_000

// rowFor returns the row that a subsystem's requests are counted in.
func rowFor(rows map[string]*actualRow, subsystem string) *actualRow {
	if row, ok := rows[subsystem]; ok {
		return row
	}
	if row, ok := rows[intent.Root(subsystem)]; ok && subsystem != "" {
		return row
	}
	rows[subsystem] = &actualRow{Subsystem: subsystem}
	return rows[subsystem]
}

// addActual adds the comparison with the ledger.
func (f *actualFlags) addActual(c *cobra.Command, p *costPlan) error {
	if f.days == 0 {
		return nil
	}
	return withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		of := usageFlags{key: f.key, project: f.project, golem: f.golem, since: strconv.Itoa(f.days), until: "1"}
		q, err := of.query(time.Now())
		if err != nil {
			return err
		}
		q.Set("by", string(ledger.BySubsystem))
		sums, err := adminapi.List[ledger.UsageRow](c.Context(), api, "/usage?"+q.Encode())
		if err == nil {
			p.Actual = p.compare(sums, f.days)
		}
		return err
	})(c, nil)
}

// print writes the comparison.
func (a *actualPlan) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "\nAn average of %d days, beside a day of the plan (%s; calls, cost at the providers)\n\n", a.Days, a.Mix)
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(a.Rows)+1)
	for _, r := range a.Rows {
		name := r.Subsystem
		if name == "" {
			name = "(none)"
		}
		rows = append(rows, []string{name, calls(r.PlannedCalls), cost(r.Planned, 3), calls(r.ActualCalls), cost(r.Actual, 3), difference(r.Planned, r.Actual)})
	}
	rows = append(rows, []string{"total", "", cost(a.Planned, 3), "", cost(a.Actual, 3), difference(a.Planned, a.Actual)})
	if err := cli.PrintTable(w, []string{"SUBSYSTEM", "PLANNED", "A DAY", "ACTUAL", "A DAY", "DIFFERENCE"}, rows); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nA day was charged %s; without the work of the layers it would have been %s.\n", cost(a.Charged, 3), cost(a.FullPrice, 3))
	return err
}

func calls(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }

// difference formats the difference between actual and planned cost.
func difference(planned, actual policy.Pico) string {
	if planned == 0 {
		return "not planned"
	}
	return fmt.Sprintf("%+.0f %%", (float64(actual)/float64(planned)-1)*100)
}
