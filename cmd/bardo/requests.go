package main

import (
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
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/ledger"
)

// requestFlags are the filters of `bardo requests`.
type requestFlags struct {
	key, model, provider, status, since, until string
	limit                                      int
}

func requestsCommand() *cobra.Command {
	var f requestFlags
	c := &cobra.Command{
		Use: "requests", Short: "List past requests; `requests show ID` prints one in full", Args: cli.NoArgs,
		Long: "List past requests, the latest first: the key, the provider, how it ended and what it cost. Prompts and answers are not stored.\n" +
			"Requests are kept for 30 days. Those that were refused before any provider was tried are counted (`bardo usage`) and not listed.",
		Example: "  bardo requests --status 5xx --since 2h\n  bardo requests --model gpt-4o --provider openai --limit 20\n  bardo requests --since 7 --json",
	}
	c.Flags().StringVar(&f.key, "key", "", "only this key's requests, by its id")
	c.Flags().StringVar(&f.model, "model", "", "only requests that this model answered, or that asked for it")
	c.Flags().StringVar(&f.provider, "provider", "", "only requests that this provider answered or failed")
	c.Flags().StringVar(&f.status, "status", "", "only requests that ended so: ok, failed, an HTTP status (503, 5xx) or the code of an error")
	c.Flags().StringVar(&f.since, "since", "", "the earliest: how long ago (2h), how many days ago, a UTC day or a time (RFC 3339)")
	c.Flags().StringVar(&f.until, "until", "", "the latest, in the same forms; a day counts to its end")
	c.Flags().IntVar(&f.limit, "limit", 50, "list at most so many")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withLedger(func(c *cobra.Command, t tool, _ []string) error {
		filter, err := f.filter(c, t, time.Now())
		if err != nil {
			return err
		}
		found, err := adminapi.BooksOf(t.home, t.books).Requests(c.Context(), filter)
		if err != nil {
			return err
		}
		if *asJSON {
			return printRecords(c, found)
		}
		return printRequests(c.OutOrStdout(), found)
	})
	c.AddCommand(requestShowCommand())
	return c
}

func (f *requestFlags) filter(c *cobra.Command, t tool, now time.Time) (out ledger.RequestFilter, err error) {
	if f.limit < 1 {
		return out, fmt.Errorf("--limit %d, expected 1 or more", f.limit)
	}
	out = ledger.RequestFilter{
		Model: policy.ModelID(f.model), Provider: policy.ProviderID(f.provider), Status: f.status, Limit: f.limit,
	}
	if out.Since, err = parseMoment("--since", f.since, now, false); err != nil {
		return out, err
	}
	if out.Until, err = parseMoment("--until", f.until, now, true); err != nil {
		return out, err
	}
	out.Account, err = t.account(c, f.key)
	return out, err
}

// account is the key of a --key flag; "" is none. One that does not exist is an error.
func (t tool) account(c *cobra.Command, flag string) (policy.Account, error) {
	if flag == "" {
		return "", nil
	}
	id, err := keyID(flag)
	if err != nil {
		return "", err
	}
	_, ok, err := t.books.Key(c.Context(), id)
	if err == nil && !ok {
		err = fmt.Errorf("key %s: %w", id, ledger.ErrUnknownKey)
	}
	return id, err
}

// parseMoment reads a time: a duration before now, an RFC 3339 time, or what parseDay reads, which is the day's first moment, or its last where
// end is true. "" is the zero time.
func parseMoment(flag, s string, now time.Time, end bool) (time.Time, error) {
	if ago, err := time.ParseDuration(s); err == nil && ago >= 0 && s != "0" {
		return now.Add(-ago), nil
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, nil
	}
	day, err := parseDay(flag, s, now)
	if err != nil {
		return day, fmt.Errorf("%s %q, expected a duration such as 2h, a day such as 2006-01-02, a number of days ago, or a time such as %s", flag, s, time.RFC3339)
	}
	if day.IsZero() {
		return day, nil
	}
	day = day.Truncate(24 * time.Hour)
	if end {
		day = day.AddDate(0, 0, 1).Add(-time.Microsecond)
	}
	return day, nil
}

// recordSeen is what the list shows of a request's record.
type recordSeen struct {
	RequestedModel string            `json:"requested_model"`
	HTTPStatus     int               `json:"http_status"`
	Error          string            `json:"error"`
	AttemptLog     []json.RawMessage `json:"attempt_log"`
	LatencyMS      int64             `json:"latency_ms"`
}

func printRequests(w io.Writer, found []ledger.Request) error {
	rows := make([][]string, len(found))
	for i := range found {
		rows[i] = requestCells(&found[i])
	}
	return cli.PrintTable(w, []string{"TIME", "REQUEST", "KEY", "STATUS", "ASKED", "MODEL", "PROVIDER", "TRIED", "IN", "OUT", "COST", "TOOK"}, rows)
}

func requestCells(r *ledger.Request) []string {
	var seen recordSeen
	_ = json.Unmarshal(r.Record, &seen) // a request without a record has less to show
	status := r.Status
	if seen.Error != "" {
		status = seen.Error
	}
	if seen.HTTPStatus != 0 {
		status = strconv.Itoa(seen.HTTPStatus) + " " + status
	}
	return []string{
		r.At.UTC().Format(time.RFC3339), r.RequestID, string(r.Account), status, seen.RequestedModel, string(r.Model), string(r.Provider),
		strconv.Itoa(len(seen.AttemptLog)), strconv.FormatInt(r.Tokens.Input, 10), strconv.FormatInt(r.Tokens.Output, 10),
		cli.Dollars(r.Charged), (time.Duration(seen.LatencyMS) * time.Millisecond).String(),
	}
}

// printRecords writes the stored records as one JSON array.
func printRecords(c *cobra.Command, found []ledger.Request) error {
	records := make([]json.RawMessage, len(found))
	for i := range found {
		records[i] = admin.RecordOf(&found[i])
	}
	return cli.PrintJSON(c, records)
}

func requestShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "show ID", Short: "Print one request in full: its attempts and why each ended, cache, tokens, cost", Args: cli.OneArg("the request's id"),
		Long: "Print one request in full: its attempts and why each ended, what was decided then, cache, tokens and cost. The id is in the answer's\n" +
			"header x-request-id. A gateway that runs is asked first: it also knows the last requests that it refused.",
		Example: "  bardo requests show req_2f6c1d0a9b8e7f6a5b4c3d2e\n  bardo requests show req_2f6c1d0a9b8e7f6a5b4c3d2e --json",
	}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, args []string) error {
		record, err := adminapi.Call[json.RawMessage](c.Context(), api, http.MethodGet, "/requests/"+url.PathEscape(args[0]), nil)
		if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind == fault.NotFound {
			return fmt.Errorf("%s; `bardo requests` lists those that there are", f.Public)
		}
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, record)
		}
		return printRecord(c.OutOrStdout(), record)
	})
	return c
}
