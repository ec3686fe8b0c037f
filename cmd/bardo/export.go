package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/ledger/usage"
)

// exportFlags are the flags of both exports.
type exportFlags struct {
	period

	format string
}

func exportCommand() *cobra.Command {
	c := cli.Group("export", "Write all requests, or all bookings, of a period as CSV or JSON lines")
	c.AddCommand(exportRequestsCommand(), exportJournalCommand())
	return c
}

func exportRequestsCommand() *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use: "requests", Short: "Write the requests of a period: who sent them, what they used, what they cost", Args: cli.NoArgs,
		Long: "Write the requests of a period, in the order in which they were charged: who sent them, what they used and what they cost. Requests are kept for 30 days;\n" +
			"their sums (`bardo usage`) and bookings (`bardo export journal`) for ever. The project is that of the key today.",
	}
	f.register(c)
	records := c.Flags().Bool("records", false, "with the full record of each request; as JSON alone")
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		if *records && f.format != "json" {
			return errors.New("--records: a record has no place in CSV, use --format json")
		}
		q, err := f.query()
		if err != nil {
			return err
		}
		if *records {
			q.Set("records", "true")
		}
		return export(c, api, &f, "/export/requests?"+q.Encode(), exportedColumns, requestCells)
	})
	return c
}

func exportJournalCommand() *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use: "journal", Short: "Write the bookings of a period: what each deposit and charge moved between accounts", Args: cli.NoArgs,
		Long: "Write the bookings of a period: what each deposit and charge moved between accounts, in USD. The lines of a journal sum to zero. Only prepaid keys have\n" +
			"bookings; charges appear when they are applied, a tenth of a second after the answer.",
	}
	f.register(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		q, err := f.query()
		if err != nil {
			return err
		}
		return export(c, api, &f, "/export/journal?"+q.Encode(), postingColumns, postingCells)
	})
	return c
}

func (f *exportFlags) register(c *cobra.Command) {
	f.period.register(c, "only what concerns this key, by its id")
	c.Flags().StringVar(&f.format, "format", "csv", "csv, or json: an object on each line")
	cli.Completes(c, "format", "csv", "json")
	settings.Flag(c)
}

// query converts the flags to a query of the admin API.
func (f *exportFlags) query() (url.Values, error) {
	if f.format != "csv" && f.format != "json" {
		return nil, fmt.Errorf("--format %q, expected csv or json", f.format)
	}
	return f.period.query(time.Now())
}

var exportedColumns = []string{
	"request_id", "created_at", "key", "project", "golem", "subsystem", "provider", "model", "status",
	"input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "charged_usd", "provider_cost_usd", "saved_usd",
}

func requestCells(r *admin.ExportedRequest) []string {
	cells := []string{
		r.ID, r.At, string(r.Key), r.Project, usage.EscapeFormula(r.Golem), usage.EscapeFormula(r.Subsystem), usage.EscapeFormula(string(r.Provider)), usage.EscapeFormula(string(r.Model)), r.Status,
	}
	for _, n := range []int64{r.Input, r.Cached, r.CacheWrite, r.Output, r.Reasoning} {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	return append(cells, r.Cost.String(), r.Charged.String(), r.ProviderCost.String(), r.Saved.String())
}

// export writes the rows of the admin API as they arrive.
func export[T any](c *cobra.Command, api *http.Client, f *exportFlags, path string, columns []string, cells func(*T) []string) error {
	out := newExporter(c.OutOrStdout(), f.format, columns)
	err := adminapi.EachLine(c.Context(), api, path, func(row *T) error { return out.write(row, func() []string { return cells(row) }) })
	return errors.Join(err, out.flush())
}

var postingColumns = []string{"journal", "created_at", "kind", "ref", "account", "amount_usd"}

func postingCells(p *admin.ExportedPosting) []string {
	return []string{strconv.FormatInt(p.Journal, 10), p.At, p.Kind, usage.EscapeFormula(p.Ref), string(p.Account), p.Amount.String()}
}

// exporter writes rows as they arrive.
type exporter struct {
	buffer *bufio.Writer
	asJSON *json.Encoder // nil for CSV
	asCSV  *csv.Writer   // nil for JSON
}

func newExporter(to io.Writer, format string, columns []string) *exporter {
	e := &exporter{buffer: bufio.NewWriterSize(to, 64<<10)}
	if format == "json" {
		e.asJSON = json.NewEncoder(e.buffer)
		return e
	}
	e.asCSV = csv.NewWriter(e.buffer)
	_ = e.asCSV.Write(columns) // flush returns the error
	return e
}

// write writes a row as JSON, or as its cells.
func (e *exporter) write(row any, cells func() []string) error {
	if e.asJSON != nil {
		return e.asJSON.Encode(row)
	}
	return e.asCSV.Write(cells())
}

// flush flushes the buffer, and returns the first error.
func (e *exporter) flush() error {
	if e.asCSV != nil {
		e.asCSV.Flush()
		if err := e.asCSV.Error(); err != nil {
			return err
		}
	}
	return e.buffer.Flush()
}
