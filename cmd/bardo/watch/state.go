package watch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
)

// keptRequests is the minimum number of requests that a watcher keeps: more than a screen has lines.
const keptRequests = 500

// view is the state of a watcher.
type view struct {
	gateway      control.GatewayLine
	disconnected string // why the connection ended; "" while connected
	status       statusLine
	before       statusLine    // the previous status of the same gateway
	requests     []requestLine // oldest first
	seen         totals
	zone         *time.Location // for displayed times; nil: local
}

// totals are sums over the watched requests.
type totals struct {
	requests, failed, failedOver int
	input, output                int64
	cost, savings                usd
}

// apply adds an update.
func (v *view) apply(s update) {
	switch {
	case s.gateway != nil: // another gateway process counts from zero
		v.gateway, v.disconnected = *s.gateway, ""
		v.status, v.before = statusLine{}, statusLine{}
	case s.disconnected != nil:
		v.disconnected = *s.disconnected
	case s.status != nil:
		v.before, v.status = v.status, *s.status
	case s.request != nil:
		v.seen.add(s.request)
		if len(v.requests) >= 2*keptRequests {
			v.requests = append(v.requests[:0], v.requests[keptRequests:]...)
		}
		v.requests = append(v.requests, *s.request)
	}
}

// newest returns the last n requests, newest first.
func (v *view) newest(n int) []requestLine {
	out := slices.Clone(v.requests[max(len(v.requests)-n, 0):])
	slices.Reverse(out)
	return out
}

func (t *totals) add(r *requestLine) {
	t.requests++
	if r.Status >= 400 {
		t.failed++
	}
	if len(r.Attempts) > 1 {
		t.failedOver++
	}
	t.input += r.InputTokens
	t.output += r.OutputTokens
	t.cost += r.Cost
	t.savings += r.Savings
}

// perSecond is the request rate between the last two statuses.
func (v *view) perSecond() float64 {
	passed := v.status.At.Sub(v.before.At)
	if v.before.At.IsZero() || passed <= 0 || v.status.Served < v.before.Served {
		return 0
	}
	return float64(v.status.Served-v.before.Served) / passed.Seconds()
}

// verdict is a request's status, with its error code or outcome if it was not a success.
func (r *requestLine) verdict() string {
	status := strconv.Itoa(r.Status)
	switch {
	case r.Code != "":
		return status + " " + r.Code
	case r.Outcome != "" && r.Outcome != "ok":
		return status + " " + r.Outcome
	}
	return status
}

func (r *requestLine) style() textStyle {
	switch {
	case r.Status >= 500:
		return styleBad
	case r.Status >= 400 || r.Outcome != "ok" || len(r.Attempts) > 1:
		return styleWarn
	}
	return styleGood
}

// route is the providers that were tried, in order.
func (r *requestLine) route() string {
	var names []string
	for _, a := range r.Attempts {
		names = append(names, a.Provider)
	}
	if len(names) == 0 {
		return r.Provider
	}
	return strings.Join(names, " > ")
}

// plainLine formats a finished request as one line that scripts can split; "" for other updates.
func plainLine(s update) string {
	r := s.request
	if r == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d request=%s dialect=%s stream=%t", r.At.UTC().Format(time.RFC3339), r.Status, r.ID, r.Dialect, r.Stream)
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, " %s=%s", name, oneWord(value))
		}
	}
	if r.Operation != "chat" {
		field("operation", r.Operation)
	}
	field("key", r.Account)
	field("asked", r.RequestedModel)
	field("model", r.Model)
	field("provider", r.Provider)
	field("tried", strings.ReplaceAll(r.route(), " > ", ","))
	fmt.Fprintf(&b, " attempts=%d in=%d out=%d cost_usd=%s saved_usd=%s cache=%s ms=%d", len(r.Attempts), r.InputTokens, r.OutputTokens,
		strings.TrimPrefix(r.Cost.String(), "$"), strings.TrimPrefix(r.Savings.String(), "$"), oneWord(r.Cache), r.LatencyMS)
	if r.FirstTokenMS > 0 {
		fmt.Fprintf(&b, " first_ms=%d", r.FirstTokenMS)
	}
	field("outcome", r.Outcome)
	field("error", r.Code)
	return b.String()
}

// oneWord quotes a text that could be mistaken for several words or another field.
func oneWord(s string) string {
	if strings.ContainsAny(s, " =\"") {
		return strconv.Quote(s)
	}
	return cli.Printable(s)
}
