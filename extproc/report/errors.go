package report

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy/budget"
)

// Error returns a fault in the client's format.
func (r *Report) Error(f *fault.Fault) stream.Reply {
	if r.Principal.Account != "" || r.Principal.Anonymous {
		r.Bill.LookUpStanding(r.Head.Peer)
	}
	h := append(r.IDHeaders(), header.Field{Name: "content-type", Value: header.JSON})
	if wait := f.Wait(); wait > 0 {
		h = append(h, header.Field{Name: "retry-after", Value: strconv.Itoa(int((wait + time.Second - 1) / time.Second))})
	}
	if !f.ShouldRetry() || r.Bill.Answers() > 0 { // SDKs must not retry what was billed; Claude Code retries even a 401 for minutes
		h = append(h, header.Field{Name: "x-should-retry", Value: "false"})
	}
	if f.Kind == fault.MethodNotAllowed { // RFC 9110, 15.5.6
		h = append(h, header.Field{Name: "allow", Value: endpoint.Methods(r.Head.Path)})
	}
	if n := len(r.Trace.Attempts); n > 0 {
		h = append(h, header.Field{Name: "x-bardo-attempts", Value: strconv.Itoa(n)})
	}
	h = r.ruleHeaders(r.AnnouncedError(r.refusalHeaders(h, f)))
	body := r.Dialect.Error(f, r.ID)
	if c, ok := errors.AsType[*meter.Challenge](f); ok {
		if h = append(h, c.Header...); c.Body != nil {
			body = c.Body
		}
	}
	if r.Head.Method == http.MethodHead {
		body = nil
	}
	return stream.Reply{Status: f.HTTPStatus(), Header: h, Body: body}
}

// refusalHeaders append advice for the agent to an error. SDKs must not retry: the budget is spent until tomorrow.
func (r *Report) refusalHeaders(h header.List, f *fault.Fault) header.List {
	if r.Bill.Allowance.Degraded == "" {
		return h
	}
	h = append(r.budgetHeader(h), header.Field{Name: "x-bardo-degraded", Value: r.Bill.Allowance.Degraded})
	if f.Kind == fault.BudgetExceeded && f.RetryAfter > budget.Soon {
		h = append(h, header.Field{Name: "x-should-retry", Value: "false"})
	}
	return h
}
