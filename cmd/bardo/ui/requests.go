package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// row is one past request in a list.
type row struct {
	ID, Account, KeyName    string
	At                      time.Time
	Status                  int
	Outcome, Error          string
	Requested, Model, Route string
	Provider                string
	Attempts                int
	Cache                   string
	Input, Output           int64
	Cost                    policy.Micro
	Saved                   policy.Micro
	LatencyMS               int64
	Subsystem               string
}

// Mood is the style of a row's status: good, warn or bad.
func (r row) Mood() string { return moodOf(r.Status, r.Outcome, r.Attempts) }

func moodOf(status int, outcome string, attempts int) string {
	switch {
	case status >= 500:
		return "bad"
	case status >= 400, outcome != "" && outcome != record.OK, attempts > 1:
		return "warn"
	}
	return "good"
}

// filter is the filter of the list of past requests.
type filter struct {
	Key, Model, Provider, Status, Since, Until string
}

// query encodes the filter as a query string, with another before.
func (f filter) query(before string) string {
	q := url.Values{}
	for name, value := range map[string]string{
		"key": f.Key, "model": f.Model, "provider": f.Provider, "status": f.Status, "since": f.Since, "until": f.Until, "before": before,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

// Active reports whether anything is filtered.
func (f filter) Active() bool { return f != filter{} }

// requestsData is the content of the page of past requests.
type requestsData struct {
	Filter    filter
	Rows      []row
	Older     string // query of the next page; "" for none
	Names     map[policy.Account]string
	Providers []string
}

// pageLength is the number of requests per page.
const pageLength = 50

func (s *Server) requests(w http.ResponseWriter, r *http.Request, v *viewer) error {
	q := r.URL.Query()
	d := requestsData{Filter: filter{
		Key: q.Get("key"), Model: strings.TrimSpace(q.Get("model")), Provider: q.Get("provider"), Status: q.Get("status"), Since: q.Get("since"), Until: q.Get("until"),
	}}
	accounts, err := v.accountsFor(d.Filter.Key)
	if err != nil {
		return err
	}
	f, err := d.Filter.parse(q.Get("before"))
	if err != nil {
		return err
	}
	if d.Names, err = s.keyNames(r.Context(), v); err != nil {
		return err
	}
	for _, p := range s.o.Providers() {
		d.Providers = append(d.Providers, string(p.Provider))
	}
	f.Limit = pageLength + 1
	found, err := s.find(r.Context(), accounts, f)
	if err != nil {
		return err
	}
	if len(found) > pageLength {
		found = found[:pageLength]
		d.Older = d.Filter.query(strconv.FormatInt(found[pageLength-1].At.UnixMicro(), 10))
	}
	for i := range found {
		d.Rows = append(d.Rows, rowOf(&found[i], d.Names))
	}
	s.render(w, http.StatusOK, v, "requests", view{Title: "Requests", Data: d})
	return nil
}

// parse validates the filter. before is the time of the last request of the previous page, in microseconds since 1970.
func (f filter) parse(before string) (out ledger.RequestFilter, err error) {
	out = ledger.RequestFilter{Model: policy.ModelID(f.Model), Provider: policy.ProviderID(f.Provider), Status: f.Status}
	if out.Since, err = day("since", f.Since); err != nil {
		return out, err
	}
	if out.Until, err = day("until", f.Until); err != nil {
		return out, err
	}
	if !out.Until.IsZero() {
		out.Until = out.Until.AddDate(0, 0, 1).Add(-time.Microsecond)
	}
	if before != "" {
		n, err := strconv.ParseInt(before, 10, 64)
		if err != nil {
			return out, fault.New(fault.InvalidRequest, "The page cannot be found: begin with the latest requests.", err)
		}
		out.Until = time.UnixMicro(n - 1)
	}
	return out, nil
}

func day(name, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return t, fault.New(fault.InvalidRequest, "The field "+name+" is not a day such as 2026-01-31.", err)
	}
	return t, nil
}

// find returns the latest requests of the accounts together.
func (s *Server) find(ctx context.Context, accounts []policy.Account, f ledger.RequestFilter) ([]ledger.Request, error) {
	var all []ledger.Request
	for _, a := range accounts {
		f.Account = a
		found, err := s.o.Books.Requests(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b ledger.Request) int { return b.At.Compare(a.At) })
	return all[:min(len(all), f.Limit)], nil
}

// recordOf decodes a request's record; if that fails, the ledger's columns are used.
func recordOf(r *ledger.Request) record.Request {
	var out record.Request
	if json.Unmarshal(r.Record, &out) != nil || out.RequestID == "" {
		out = record.Request{
			RequestID: r.RequestID, CreatedAt: r.At, Status: r.Status, Provider: r.Provider, Model: r.Model, Subsystem: r.Subsystem,
			InputTokens: r.Tokens.Input, OutputTokens: r.Tokens.Output, ProviderCostUSD: r.ProviderCost,
		}
	}
	if r.Charged != 0 || out.CostUSD != 0 {
		out.CostUSD = r.Charged
	}
	return out
}

func rowOf(r *ledger.Request, names map[policy.Account]string) row {
	rec := recordOf(r)
	return row{
		ID: r.RequestID, Account: string(r.Account), KeyName: names[r.Account], At: r.At.UTC(), Status: rec.HTTPStatus, Outcome: r.Status, Error: rec.Error,
		Requested: rec.RequestedModel, Model: string(r.Model), Provider: string(r.Provider), Route: routeOf(rec.AttemptLog), Attempts: len(rec.AttemptLog),
		Cache: rec.Cache, Input: rec.InputTokens, Output: rec.OutputTokens, Cost: r.Charged, Saved: rec.SavingsUSD, LatencyMS: rec.LatencyMS, Subsystem: r.Subsystem,
	}
}

// routeOf is the providers that were tried, in order.
func routeOf(attempts []record.Attempt) string {
	var names []string
	for i := range attempts {
		if attempts[i].Side == "" {
			names = append(names, string(attempts[i].Provider))
		}
	}
	return strings.Join(names, " → ")
}

// requestOf returns a request that the viewer may see. Requests of others are reported as not found.
func (s *Server) requestOf(ctx context.Context, v *viewer, id string) (ledger.Request, error) {
	r, err := s.o.Books.AnyRequest(ctx, id)
	if err != nil && !errors.Is(err, ledger.ErrUnknownRequest) {
		return r, err
	}
	if err != nil || !v.maySee(r.Account) {
		return r, fault.New(fault.NotFound, "There is no such request. Of requests that were refused before a provider was called only the latest are kept.", nil)
	}
	return r, nil
}
