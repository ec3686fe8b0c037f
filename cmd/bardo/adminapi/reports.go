package adminapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/usage"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// getUsageTable sums usage by up to three dimensions.
func (a *api) getUsageTable(r *http.Request) (reply, error) {
	q, err := query(r, "by", "key", "project", "golem", "since", "until")
	if err != nil {
		return reply{}, err
	}
	by, err := usage.ParseBy(q.Get("by"))
	if err != nil {
		return reply{}, invalidParam("by", strings.TrimPrefix(err.Error(), "by"))
	}
	f := ledger.Filter{Account: policy.Account(q.Get("key")), Project: q.Get("project"), Golem: q.Get("golem")}
	if f.Since, f.Until, err = timeRange(q); err != nil {
		return reply{}, err
	}
	t, err := a.Books.Table(r.Context(), ledger.Query{Filter: f, By: by})
	return reply{body: t}, err
}

// getStaked returns what staked credit has paid for today.
func (a *api) getStaked(r *http.Request) (reply, error) {
	if _, err := query(r); err != nil {
		return reply{}, err
	}
	used, err := a.Books.Staked(r.Context())
	return reply{body: used}, err
}

// getFeedback sums feedback by task and regime.
func (a *api) getFeedback(r *http.Request) (reply, error) {
	q, err := query(r, "key")
	if err != nil {
		return reply{}, err
	}
	rows, err := a.Books.Feedback(r.Context(), policy.Account(q.Get("key")))
	return listed(rows, false), err
}

// listPayments lists wallets' payments for single requests.
func (a *api) listPayments(r *http.Request) (reply, error) {
	q, err := query(r, "payer", "state", "after", "limit")
	if err != nil {
		return reply{}, err
	}
	f, err := paymentFilter(q.Get("payer"), q.Get("state"), q.Get("after"))
	if err != nil {
		return reply{}, err
	}
	limit, err := intParam(q, "limit", defaultPage, maxPage)
	if err != nil {
		return reply{}, err
	}
	if a.Payments == nil {
		return listed[Payment](nil, false), nil
	}
	f.Limit = limit + 1 // one more shows whether others follow
	found, err := a.Payments(r.Context(), f)
	if err != nil {
		return reply{}, fault.New(fault.Unavailable, "payments cannot be read at the moment", err)
	}
	shown, err := a.withForgiveness(r.Context(), found[:min(len(found), limit)])
	return listed(shown, len(found) > limit), err
}

func paymentFilter(payer, state, after string) (f book.Filter, err error) {
	if payer != "" {
		at, err := pay.ParseAddress(payer)
		if err != nil {
			return f, invalidParam("payer", ": expected 0x and 40 hexadecimal digits")
		}
		f.Payer = &at
	}
	if f.State = state; state != "" && !slices.Contains(book.States, state) {
		return f, invalidParam("state", ": expected "+strings.Join(book.States, ", "))
	}
	if after != "" {
		if f.Before, err = strconv.ParseInt(after, 10, 64); err != nil || f.Before < 1 {
			return f, invalidParam("after", ": expected the id of a payment")
		}
	}
	return f, nil
}

// audit checks the ledger's invariants, and the payments against the ledger.
func (a *api) audit(r *http.Request) (reply, error) {
	if _, err := query(r); err != nil {
		return reply{}, err
	}
	if a.Audit == nil {
		return reply{}, fault.New(fault.Unavailable, "the books cannot be checked here", nil)
	}
	report, err := a.Audit(r.Context())
	if err != nil {
		return reply{}, fault.New(fault.Unavailable, "the books cannot be read at the moment", err)
	}
	return reply{body: report}, nil
}
