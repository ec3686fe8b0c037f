package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/usage"
)

// Limits of GET /v1/usage.
const (
	usagePageRows = 1_000  // default number of rows of a page
	maxUsageRows  = 10_000 // maximum number of rows of a report
)

// usageQuery is the parsed query of GET /v1/usage.
type usageQuery struct {
	ledger.Query

	asCSV         bool
	offset, limit int
}

// Usage sums the calling key's requests: ?by=model (the default) or up to three of key, project, golem, subsystem, model, provider, day, or with layer
// what the layers saved; from ?since= to ?until= (UTC days), of one ?golem=; in pages of ?limit= rows from ?offset=; as JSON or CSV.
func (s *Server) Usage(ctx context.Context, c *Caller) (stream.Reply, error) {
	if c.Principal.Account == "" {
		return stream.Reply{}, fault.Newf(fault.InvalidAPIKey, "usage belongs to an API key: send one")
	}
	q, err := usageQueryOf(c)
	if err != nil {
		return stream.Reply{}, err
	}
	table, err := s.usageTable(ctx, &q.Query)
	if errors.Is(err, usage.ErrTooMany) {
		return stream.Reply{}, fault.New(fault.InvalidRequest, fmt.Sprintf("the report has more than %d rows: narrow it by since, until or golem, or sum by less", maxUsageRows), err)
	}
	if err != nil {
		return stream.Reply{}, err
	}
	page, next := table.Page(q.offset, q.limit)
	if q.asCSV {
		return usageCSV(c, page, next)
	}
	return usageJSON(c, page, next), nil
}

func (s *Server) usageTable(ctx context.Context, q *ledger.Query) (*ledger.Table, error) {
	if slices.Contains(q.By, ledger.ByLayer) {
		sums, err := s.Ledger.LayerSums(ctx, *q)
		return usage.LayerTableOf(q.By, sums), err
	}
	sums, err := s.Ledger.Sums(ctx, *q)
	return usage.TableOf(q.By, sums), err
}

func usageQueryOf(c *Caller) (q usageQuery, err error) {
	v, err := c.query("by", "since", "until", "golem", "offset", "limit", "format")
	if err != nil {
		return q, err
	}
	q.Account, q.Golem, q.MaxRows = c.Principal.Account, v.Get("golem"), maxUsageRows
	by := v.Get("by")
	if by == "" {
		by = string(ledger.ByModel)
	}
	if q.By, err = usage.ParseBy(by); err != nil {
		return q, fault.New(fault.InvalidRequest, fmt.Sprintf("by: %q, expected 1 to %d different ones of %s", fault.Clip(by), usage.MaxDimensions, strings.Join(usage.Dimensions(), ", ")), err)
	}
	if q.Since, err = day(v, "since"); err != nil {
		return q, err
	}
	if q.Until, err = day(v, "until"); err != nil {
		return q, err
	}
	if q.offset, err = number(v, "offset", 0, 0, maxUsageRows); err != nil {
		return q, err
	}
	if q.limit, err = number(v, "limit", usagePageRows, 1, maxUsageRows); err != nil {
		return q, err
	}
	q.asCSV, err = wantsCSV(v.Get("format"), c.Head.Header.Get("accept"))
	return q, err
}

// wantsCSV returns whether a report is requested as CSV: format=, else the Accept header.
func wantsCSV(format, accept string) (bool, error) {
	switch format {
	case "csv":
		return true, nil
	case "json":
		return false, nil
	case "":
		return strings.HasPrefix(accept, "text/csv"), nil
	}
	return false, fault.Newf(fault.InvalidRequest, "format: %q, expected json or csv", fault.Clip(format))
}

// number parses an integer of a query.
func number(q url.Values, name string, unset, minValue, maxValue int) (int, error) {
	s := q.Get(name)
	if s == "" {
		return unset, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < minValue || n > maxValue {
		return 0, fault.Newf(fault.InvalidRequest, "%s: %q, expected a number from %d to %d", name, fault.Clip(s), minValue, maxValue)
	}
	return n, nil
}

func day(q url.Values, name string) (time.Time, error) {
	s := q.Get(name)
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return t, fault.New(fault.InvalidRequest, name+": expected a day as 2006-01-02", err)
	}
	return t, nil
}

// usageJSON returns a page of a report; next is the offset of the next one, 0 for none.
func usageJSON(c *Caller, page *ledger.Table, next int) stream.Reply {
	by := make([]string, len(page.By))
	for i := range by {
		by[i] = string(page.By[i])
	}
	body := append([]byte(`{"object":"list","by":"`), strings.Join(by, ",")...)
	body = page.AppendJSON(append(body, `","data":`...))
	if next > 0 {
		body = strconv.AppendInt(append(body, `,"next_offset":`...), int64(next), 10)
	}
	return c.Head.JSON(append(body, '}'))
}

// usageCSV is usageJSON as CSV; the offset of the next page is in a header.
func usageCSV(c *Caller, page *ledger.Table, next int) (stream.Reply, error) {
	var body bytes.Buffer
	if err := page.CSV(&body); err != nil {
		return stream.Reply{}, err
	}
	r := c.Head.JSON(body.Bytes())
	r.Header = header.List{{Name: "content-type", Value: "text/csv; charset=utf-8"}}
	if next > 0 {
		r.Header = append(r.Header, header.Field{Name: "x-bardo-next-offset", Value: strconv.Itoa(next)})
	}
	return r, nil
}
