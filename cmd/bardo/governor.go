package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/extproc/governor"
)

func governorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "governor", Short: "Show what the layers' governor has learned, and which settings it uses", Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			var s governor.State
			if err := control.Do(c.Context(), h, http.MethodGet, "/governor", &s); err != nil {
				return err
			}
			asJSON, err := c.Flags().GetBool("json")
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(c, s)
			}
			return printGovernor(c.OutOrStdout(), &s)
		},
	}
	c.Flags().Bool("json", false, "print JSON")
	return c
}

// governorModes explain each mode, above the table.
var governorModes = map[governor.Mode]string{
	governor.Off:    "off: no settings are adjusted, and nothing is counted",
	governor.Report: "report: no settings are adjusted; VALUE is what would be used",
	governor.On:     "on: VALUE is in use for new conversations, and one in ten tries another one",
}

func printGovernor(w io.Writer, s *governor.State) error {
	if _, err := fmt.Fprintln(w, governorModes[s.Mode]); err != nil || len(s.Knobs) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	rows := make([][]string, len(s.Knobs))
	for i := range s.Knobs {
		rows[i] = knobCells(&s.Knobs[i])
	}
	if err := cli.PrintTable(w, []string{"TASK", "SETTING", "LAYER", "CONFIGURED", "VALUE", "TRIED (REWARD, TRIALS)", ""}, rows); err != nil || len(s.Tasks) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	rows = make([][]string, len(s.Tasks))
	for i := range s.Tasks {
		rows[i] = taskCells(&s.Tasks[i])
	}
	if err := cli.PrintTable(w, []string{"TASK", "REGIME", "REQUESTS", "CACHE READS", "RETRIES", "WRONG FORM", "OVERRIDES", "RECALLS", "WRONG HITS", "RATED", "SCORE", "SAVED USD BY LAYER"}, rows); err != nil {
		return err
	}
	return printLayers(w, s)
}

// printLayers prints the outcomes of the requests that each layer changed or answered.
func printLayers(w io.Writer, s *governor.State) error {
	var rows [][]string
	for i := range s.Tasks {
		t := &s.Tasks[i]
		for k := range t.Layers {
			if l := &t.Layers[k]; l.Acted > 0 {
				rows = append(rows, append([]string{t.Task, t.Regime, l.Layer, count(l.Acted), count(l.Tokens)}, outcomeCells(&l.Tally)...))
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w, "\nRequests that a layer changed or answered:"); err != nil {
		return err
	}
	return cli.PrintTable(w, []string{"TASK", "REGIME", "LAYER", "REQUESTS", "SAVED TOKENS", "RETRIES", "WRONG FORM", "OVERRIDES", "RECALLS", "RATED", "SCORE"}, rows)
}

// outcomeCells are retries, invalid answers, overrides, recalls, ratings and their mean.
func outcomeCells(f *governor.Tally) []string {
	score := ""
	if f.Rated > 0 {
		score = fmt.Sprintf("%.2f", f.Score)
	}
	return []string{count(f.Retries), count(f.SchemaFailures), count(f.Overrides), count(f.Recalls), count(f.Rated), score}
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

func knobCells(k *governor.KnobState) []string {
	var tried []string
	for _, v := range k.Values {
		if v.Trials > 0 {
			tried = append(tried, fmt.Sprintf("%d (%.3f, %d)", v.Value, v.Mean, v.Trials))
		}
	}
	frozen := ""
	if k.Frozen {
		frozen = "frozen"
	}
	return []string{k.Task, k.Knob, k.Layer, strconv.Itoa(k.Configured), strconv.Itoa(k.Value), strings.Join(tried, " "), frozen}
}

func taskCells(t *governor.TaskState) []string {
	reads := ""
	if t.Input > 0 {
		reads = fmt.Sprintf("%.0f %%", 100*float64(t.Cached)/float64(t.Input))
	}
	var saved []string
	for _, l := range t.Layers {
		if l.Saved != 0 {
			saved = append(saved, l.Layer+" "+l.Saved.String())
		}
	}
	outcomes := outcomeCells(&t.Tally)
	cells := append([]string{t.Task, t.Regime, count(t.Requests), reads}, outcomes[:4]...)
	return append(append(append(cells, count(t.WrongHits)), outcomes[4:]...), strings.Join(saved, ", "))
}
