package main

import (
	"cmp"
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
)

// requestFlags are the filters of `bardo requests`.
type requestFlags struct {
	period

	model, provider, status string
	limit                   int
}

func requestsCommand() *cobra.Command {
	var f requestFlags
	c := &cobra.Command{
		Use: "requests", Short: "List past requests; `requests show ID` prints one in full", Args: cli.NoArgs,
		Long: "List past requests, the latest first: the key, the provider, how it ended and what it cost. Prompts and answers are not stored.\n" +
			"Requests are kept for 30 days. Those that were refused before any provider was tried are counted (`bardo usage`) and not listed.",
		Example: "  bardo requests --status 5xx --since 2h\n  bardo requests --model gpt-4o --provider openai --limit 20\n  bardo requests --since 7 --json",
	}
	f.register(c, "only this key's requests, by its id")
	c.Flags().StringVar(&f.model, "model", "", "only requests that this model answered, or that asked for it")
	c.Flags().StringVar(&f.provider, "provider", "", "only requests that this provider answered or failed")
	c.Flags().StringVar(&f.status, "status", "", "only requests that ended so: ok, failed, an HTTP status (503, 5xx) or the code of an error")
	c.Flags().IntVar(&f.limit, "limit", 50, "list at most so many")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		q, err := f.query(time.Now())
		if err != nil {
			return err
		}
		page, err := adminapi.Call[recordPage](c.Context(), api, http.MethodGet, "/requests?"+q.Encode(), nil)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, page.Data)
		}
		return printRequests(c.OutOrStdout(), page.Data)
	})
	c.AddCommand(requestShowCommand())
	return c
}

// maxRequests is how many requests the admin API lists per page.
const maxRequests = 1000

// query converts the flags to a query of the admin API.
func (f *requestFlags) query(now time.Time) (url.Values, error) {
	if f.limit < 1 || f.limit > maxRequests {
		return nil, fmt.Errorf("--limit %d, expected 1 to %d; `bardo export requests` writes them all", f.limit, maxRequests)
	}
	q, err := f.period.query(now)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"model": f.model, "provider": f.provider, "status": f.status} {
		if value != "" {
			q.Set(name, value)
		}
	}
	q.Set("limit", strconv.Itoa(f.limit))
	return q, nil
}

// recordPage is a page of the admin API's list of requests.
type recordPage struct {
	Data []json.RawMessage `json:"data"`
}

// recordFields are the fields of a request that the list shows.
type recordFields struct {
	Key            string            `json:"key"`
	RequestID      string            `json:"request_id"`
	At             time.Time         `json:"created_at"`
	Status         string            `json:"status"`
	HTTPStatus     int               `json:"http_status"`
	Error          string            `json:"error"`
	RequestedModel string            `json:"requested_model"`
	Model          string            `json:"model"`
	Provider       string            `json:"provider"`
	AttemptLog     []json.RawMessage `json:"attempt_log"`
	Input          int64             `json:"input_tokens"`
	Output         int64             `json:"output_tokens"`
	Charged        policy.Micro      `json:"charged_usd"`
	LatencyMS      int64             `json:"latency_ms"`
}

func printRequests(w io.Writer, records []json.RawMessage) error {
	rows := make([][]string, len(records))
	for i, r := range records {
		var seen recordFields
		_ = json.Unmarshal(r, &seen) // a newer gateway's record may have a member of another type: the other members are shown
		rows[i] = seen.cells()
	}
	return cli.PrintTable(w, []string{"TIME", "REQUEST", "KEY", "STATUS", "ASKED", "MODEL", "PROVIDER", "TRIED", "IN", "OUT", "COST", "TOOK"}, rows)
}

func (r *recordFields) cells() []string {
	status := cmp.Or(r.Error, r.Status)
	if r.HTTPStatus != 0 {
		status = strconv.Itoa(r.HTTPStatus) + " " + status
	}
	return []string{
		r.At.UTC().Format(time.RFC3339), r.RequestID, r.Key, status, r.RequestedModel, r.Model, r.Provider,
		strconv.Itoa(len(r.AttemptLog)), strconv.FormatInt(r.Input, 10), strconv.FormatInt(r.Output, 10),
		cli.Dollars(r.Charged), (time.Duration(r.LatencyMS) * time.Millisecond).String(),
	}
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
