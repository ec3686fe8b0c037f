package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/usage"
)

// exportFlags are those of both exports.
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
	c.RunE = withLedger(func(c *cobra.Command, t tool, _ []string) error {
		if *records && f.format != "json" {
			return errors.New("--records: a record has no place in CSV, use --format json")
		}
		return t.exportRequests(c, &f, *records)
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
	c.RunE = withLedger(func(c *cobra.Command, t tool, _ []string) error { return t.exportJournal(c, &f) })
	return c
}

func (f *exportFlags) register(c *cobra.Command) {
	f.period.register(c, "only what concerns this key, by its id")
	c.Flags().StringVar(&f.format, "format", "csv", "csv, or json: an object on each line")
	cli.Completes(c, "format", "csv", "json")
	settings.Flag(c)
}

// filter reads the flags.
func (f *exportFlags) filter(c *cobra.Command, t tool) (ledger.RequestFilter, error) {
	if f.format != "csv" && f.format != "json" {
		return ledger.RequestFilter{}, fmt.Errorf("--format %q, expected csv or json", f.format)
	}
	return f.period.filter(c, t, time.Now())
}

// exportedRequest is a request as it is exported.
type exportedRequest struct {
	ID        string            `json:"request_id"`
	At        string            `json:"created_at"`
	Key       policy.Account    `json:"key"`
	Project   string            `json:"project"`
	Golem     string            `json:"golem"`
	Subsystem string            `json:"subsystem"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Status    string            `json:"status"`
	ledger.Tokens
	Cost         policy.Micro    `json:"cost_usd"`    // what it costs
	Charged      policy.Micro    `json:"charged_usd"` // what was paid; less where the balance was too low
	ProviderCost policy.Pico     `json:"provider_cost_usd"`
	Saved        policy.Micro    `json:"saved_usd"`
	Record       json.RawMessage `json:"record,omitempty"`
}

var exportedColumns = []string{
	"request_id", "created_at", "key", "project", "golem", "subsystem", "provider", "model", "status",
	"input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "charged_usd", "provider_cost_usd", "saved_usd",
}

func (r *exportedRequest) cells() []string {
	cells := []string{
		r.ID, r.At, string(r.Key), r.Project, usage.Inert(r.Golem), usage.Inert(r.Subsystem), usage.Inert(string(r.Provider)), usage.Inert(string(r.Model)), r.Status,
	}
	for _, n := range []int64{r.Input, r.Cached, r.CacheWrite, r.Output, r.Reasoning} {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	return append(cells, r.Cost.String(), r.Charged.String(), r.ProviderCost.String(), r.Saved.String())
}

func (t tool) exportRequests(c *cobra.Command, f *exportFlags, records bool) error {
	filter, err := f.filter(c, t)
	if err != nil {
		return err
	}
	projects, err := t.projects(c)
	if err != nil {
		return err
	}
	out := newExporter(c.OutOrStdout(), f.format, exportedColumns)
	err = t.books.EachRequest(c.Context(), filter, func(r *ledger.Request) error {
		e := exportedRequest{
			ID: r.RequestID, At: r.At.UTC().Format(time.RFC3339Nano), Key: r.Account, Project: projects[r.Account], Golem: r.Agent, Subsystem: r.Subsystem,
			Provider: r.Provider, Model: r.Model, Status: r.Status, Tokens: r.Tokens, Cost: r.Amount, Charged: r.Charged, ProviderCost: r.ProviderCost,
		}
		for i := range r.Savings {
			e.Saved = e.Saved.Plus(r.Savings[i].Amount)
		}
		if records {
			e.Record = admin.RecordOf(r)
		}
		return out.write(&e, e.cells)
	})
	return errors.Join(err, out.flush())
}

// projects are those of all keys.
func (t tool) projects(c *cobra.Command) (map[policy.Account]string, error) {
	keys, err := t.books.Keys(c.Context())
	of := make(map[policy.Account]string, len(keys))
	for i := range keys {
		of[keys[i].ID] = keys[i].Project
	}
	return of, err
}

// exportedPosting is a posting as it is exported.
type exportedPosting struct {
	Journal int64          `json:"journal"`
	At      string         `json:"created_at"`
	Kind    string         `json:"kind"`
	Ref     string         `json:"ref"`
	Account policy.Account `json:"account"`
	Amount  policy.Micro   `json:"amount_usd"`
}

var postingColumns = []string{"journal", "created_at", "kind", "ref", "account", "amount_usd"}

func (p *exportedPosting) cells() []string {
	return []string{strconv.FormatInt(p.Journal, 10), p.At, p.Kind, usage.Inert(p.Ref), string(p.Account), p.Amount.String()}
}

func (t tool) exportJournal(c *cobra.Command, f *exportFlags) error {
	filter, err := f.filter(c, t)
	if err != nil {
		return err
	}
	out := newExporter(c.OutOrStdout(), f.format, postingColumns)
	err = t.books.EachBooking(c.Context(), filter, func(p *ledger.Booking) error {
		e := exportedPosting{p.Journal, p.At.UTC().Format(time.RFC3339Nano), p.Kind, p.Ref, p.Account, p.Amount}
		return out.write(&e, e.cells)
	})
	return errors.Join(err, out.flush())
}

// exporter writes rows as they come.
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
	_ = e.asCSV.Write(columns) // an error is kept, and flush returns it
	return e
}

// write writes a row: as JSON, or its cells.
func (e *exporter) write(row any, cells func() []string) error {
	if e.asJSON != nil {
		return e.asJSON.Encode(row)
	}
	return e.asCSV.Write(cells())
}

// flush writes what is buffered, and returns the first error that there was.
func (e *exporter) flush() error {
	if e.asCSV != nil {
		e.asCSV.Flush()
		if err := e.asCSV.Error(); err != nil {
			return err
		}
	}
	return e.buffer.Flush()
}
