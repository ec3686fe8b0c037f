package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/usage"
)

func usageCommand() *cobra.Command {
	var f usageFlags
	c := &cobra.Command{
		Use: "usage", Short: "Show usage and cost, summed by key, project, golem, subsystem, model, provider or day, or savings by layer", Args: cli.NoArgs,
		Long: "Show usage and cost, summed by key, project, golem (the agent), subsystem, model, provider or day, or by up to three of them: `--by model,day`.\n" +
			"With `layer` among them: what each layer of the pipeline saved.",
	}
	c.Flags().StringVar(&f.by, "by", string(ledger.ByModel), "sum by "+strings.Join(usage.Dimensions(), ", ")+"; several with commas")
	cli.Completes(c, "by", usage.Dimensions()...)
	f.register(c)
	c.Flags().StringVar(&f.format, "format", "table", "table, json or csv")
	cli.Completes(c, "format", "table", "json", "csv")
	asJSON := cli.JSONFlag(c)
	asCSV := c.Flags().Bool("csv", false, "print CSV")
	c.MarkFlagsMutuallyExclusive("json", "csv", "format")
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		switch {
		case *asJSON:
			f.format = "json"
		case *asCSV:
			f.format = "csv"
		}
		return printUsage(c, api, &f)
	})
	return c
}

// usageFlags are the flags of `bardo usage`; other commands use all but by and format.
type usageFlags struct{ key, project, golem, since, until, by, format string }

// register adds the flags that select requests.
func (f *usageFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.key, "key", "", "only this key's requests, by its id")
	c.Flags().StringVar(&f.project, "project", "", "only requests of the keys of this project, by its id")
	c.Flags().StringVar(&f.golem, "golem", "", "only this agent's requests, by its id")
	c.Flags().StringVar(&f.since, "since", "", "first UTC day, 2006-01-02, or how many days ago")
	c.Flags().StringVar(&f.until, "until", "", "last UTC day, 2006-01-02, or how many days ago")
}

// printUsage prints a report.
func printUsage(c *cobra.Command, api *http.Client, f *usageFlags) error {
	if !slices.Contains([]string{"table", "json", "csv"}, f.format) {
		return fmt.Errorf("--format %q, expected table, json or csv", f.format)
	}
	by, err := usage.ParseBy(f.by)
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	q, err := f.query(time.Now())
	if err != nil {
		return err
	}
	q.Set("by", f.by)
	t, err := adminapi.Call[admin.UsageTable](c.Context(), api, http.MethodGet, "/usage/table?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	var names map[string]string
	if f.format == "table" && slices.Contains(by, ledger.ByKey) {
		if names, err = keyNames(c, api); err != nil {
			return err
		}
	}
	return showUsage(c, f.format, &ledger.Table{By: by, Columns: t.Columns, Rows: t.Rows}, t.Total, names)
}

// keyNames returns the names of all keys, by id.
func keyNames(c *cobra.Command, api *http.Client) (map[string]string, error) {
	keys, err := adminapi.All(c.Context(), api, "/keys", func(k *admin.Key) string { return string(k.ID) })
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(keys))
	for i := range keys {
		names[string(keys[i].ID)] = keys[i].Name
	}
	return names, nil
}

// query converts the flags to a query of the admin API.
func (f *usageFlags) query(now time.Time) (url.Values, error) {
	id, err := keyOrNone(f.key)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	for name, value := range map[string]string{"key": string(id), "project": f.project, "golem": f.golem} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, text := range map[string]string{"since": f.since, "until": f.until} {
		day, err := parseDay("--"+name, text, now)
		if err != nil {
			return nil, err
		}
		if !day.IsZero() {
			q.Set(name, day.UTC().Format(time.DateOnly))
		}
	}
	return q, nil
}

// usageHeads are shorter heads for columns of a table.
var usageHeads = map[string]string{
	"input_tokens": "INPUT", "cached_tokens": "CACHED", "cache_write_tokens": "WRITTEN", "output_tokens": "OUTPUT", "reasoning_tokens": "REASONING",
	"provider_cost_usd": "PROVIDER USD",
}

// showUsage prints a report in a format, and below a table its totals. In a table, keys are shown by id and name.
func showUsage(c *cobra.Command, format string, t *ledger.Table, total []string, names map[string]string) error {
	switch format {
	case "json":
		return cli.PrintJSON(c, t)
	case "csv":
		return t.CSV(c.OutOrStdout())
	}
	var heads []string
	for _, by := range t.By {
		heads = append(heads, strings.ToUpper(string(by)))
	}
	for _, name := range t.Columns {
		head, ok := usageHeads[name]
		if !ok {
			head = strings.ToUpper(strings.ReplaceAll(name, "_", " "))
		}
		heads = append(heads, head)
	}
	last := make([]string, len(t.By), len(heads))
	last[0] = "total"
	cells := append(slices.Clone(t.Rows), append(last, total...))
	if len(t.Columns) > layerColumns {
		heads, cells = withoutEmpty(heads, cells)
	}
	if at := slices.Index(t.By, ledger.ByKey); at >= 0 {
		heads = slices.Insert(heads, at+1, "NAME")
		for i := range cells {
			cells[i] = slices.Insert(slices.Clone(cells[i]), at+1, names[cells[i][at]])
		}
	}
	return cli.PrintTable(c.OutOrStdout(), heads, cells)
}

// layerColumns is the number of numeric columns in a report on layers, all of which are always shown.
const layerColumns = 3

// withoutEmpty removes the columns of refusals and savings if they are all zero.
func withoutEmpty(heads []string, cells [][]string) (headsLeft []string, cellsLeft [][]string) {
	if isZero(heads, cells, "REFUSED") {
		heads, cells = withoutColumn(heads, cells, "REFUSED")
	}
	if isZero(heads, cells, "SAVED USD") {
		heads, cells = withoutColumn(heads, cells, "SAVED USD")
		heads, cells = withoutColumn(heads, cells, "FULL PRICE USD")
	}
	return heads, cells
}

// isZero reports whether all cells of a column are zero.
func isZero(heads []string, cells [][]string, name string) bool {
	at := slices.Index(heads, name)
	return !slices.ContainsFunc(cells, func(row []string) bool { return strings.Trim(row[at], "0.") != "" })
}

// withoutColumn removes a column.
func withoutColumn(heads []string, cells [][]string, name string) (headsLeft []string, cellsLeft [][]string) {
	at := slices.Index(heads, name)
	for i := range cells {
		cells[i] = slices.Delete(slices.Clone(cells[i]), at, at+1)
	}
	return slices.Delete(heads, at, at+1), cells
}
