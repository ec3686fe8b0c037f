package main

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy/ledger"
)

func usageCommand() *cobra.Command {
	var f usageFlags
	c := &cobra.Command{Use: "usage", Short: "Show usage and cost, summed by model, provider, subsystem or day, or savings by layer", Args: cli.NoArgs}
	c.Flags().StringVar(&f.key, "key", "", "only this key's requests, by its id")
	c.Flags().StringVar(&f.by, "by", string(ledger.ByModel), "sum by model, provider, subsystem or day; layer: what each layer of the pipeline saved")
	c.Flags().StringVar(&f.format, "format", "table", "table, json or csv")
	cli.Completes(c, "by", "model", "provider", "subsystem", "day", "layer")
	cli.Completes(c, "format", "table", "json", "csv")
	c.Flags().StringVar(&f.since, "since", "", "first UTC day, 2006-01-02, or how many days ago")
	c.Flags().StringVar(&f.until, "until", "", "last UTC day, 2006-01-02, or how many days ago")
	settings.Flag(c)
	c.RunE = withLedger(func(c *cobra.Command, t tool, _ []string) error {
		show, ok := usageFormats[f.format]
		if !ok {
			return fmt.Errorf("--format %q, expected table, json or csv", f.format)
		}
		filter, err := f.filter(c, t, time.Now())
		if err != nil {
			return err
		}
		if ledger.By(f.by) == ledger.ByLayer {
			rows, err := t.books.Savings(c.Context(), filter)
			if err != nil {
				return err
			}
			return showSavings(c, f.format, rows)
		}
		rows, err := t.books.Usage(c.Context(), filter, ledger.By(f.by))
		if err != nil {
			return err
		}
		return show(c, ledger.By(f.by), rows)
	})
	return c
}

type usageFlags struct{ key, by, format, since, until string }

func (f *usageFlags) filter(c *cobra.Command, t tool, now time.Time) (out ledger.Filter, err error) {
	if out.Since, err = parseDay("--since", f.since, now); err != nil {
		return out, err
	}
	if out.Until, err = parseDay("--until", f.until, now); err != nil {
		return out, err
	}
	out.Account, err = t.account(c, f.key)
	return out, err
}

// parseDay reads a day, or a number of days before now; "" is the zero time.
func parseDay(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if ago, err := strconv.ParseUint(s, 10, 16); err == nil {
		return now.UTC().AddDate(0, 0, -int(ago)), nil
	}
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s %q, expected a day such as 2006-01-02, or a number of days ago", flag, s)
	}
	return day, nil
}

var usageFormats = map[string]func(c *cobra.Command, by ledger.By, rows []ledger.UsageRow) error{
	"table": usageTable, "json": usageJSON, "csv": usageCSV,
}

func usageJSON(c *cobra.Command, _ ledger.By, rows []ledger.UsageRow) error {
	if rows == nil {
		rows = []ledger.UsageRow{}
	}
	return cli.PrintJSON(c, rows)
}

// usageHeads are the columns after the first, which is named by what is summed.
var usageHeads = []string{
	"requests", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "provider_cost_usd", "refused", "saved_usd",
}

func usageCells(u ledger.UsageRow) []string {
	cells := []string{u.Name}
	for _, n := range []int64{u.Requests, u.Input, u.Cached, u.CacheWrite, u.Output, u.Reasoning} {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	return append(cells, u.Cost.String(), u.ProviderCost.String(), strconv.FormatInt(u.Refused, 10), u.Saved.String())
}

func usageCSV(c *cobra.Command, by ledger.By, rows []ledger.UsageRow) error {
	w := csv.NewWriter(c.OutOrStdout())
	records := [][]string{append([]string{string(by)}, usageHeads...)}
	for _, u := range rows {
		cells := usageCells(u)
		cells[0] = inert(cells[0])
		records = append(records, cells)
	}
	return w.WriteAll(records)
}

// inert is s as a spreadsheet takes it for text: some names were chosen by clients, and must not become formulas.
func inert(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

func usageTable(c *cobra.Command, by ledger.By, rows []ledger.UsageRow) error {
	heads := []string{strings.ToUpper(string(by)), "REQUESTS", "INPUT", "CACHED", "WRITTEN", "OUTPUT", "REASONING", "COST USD", "PROVIDER USD", "REFUSED", "SAVED USD"}
	cells := make([][]string, 0, len(rows)+1)
	total := ledger.UsageRow{Name: "total"}
	for _, u := range rows {
		cells = append(cells, usageCells(u))
		total.Requests += u.Requests
		total.Refused += u.Refused
		total.Input += u.Input
		total.Cached += u.Cached
		total.CacheWrite += u.CacheWrite
		total.Output += u.Output
		total.Reasoning += u.Reasoning
		total.Cost += u.Cost
		total.ProviderCost += u.ProviderCost
		total.Saved += u.Saved
	}
	cells = append(cells, usageCells(total))
	if total.Refused == 0 {
		heads, cells = withoutColumn(heads, cells, "REFUSED")
	}
	if !slices.ContainsFunc(rows, func(u ledger.UsageRow) bool { return u.Saved != 0 }) {
		heads, cells = withoutColumn(heads, cells, "SAVED USD")
	}
	return cli.PrintTable(c.OutOrStdout(), heads, cells)
}

// withoutColumn is a table without a column.
func withoutColumn(heads []string, cells [][]string, name string) (headsLeft []string, cellsLeft [][]string) {
	at := slices.Index(heads, name)
	for i := range cells {
		cells[i] = slices.Delete(cells[i], at, at+1)
	}
	return slices.Delete(heads, at, at+1), cells
}
