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

// keptRequests is how many requests a watcher remembers at least: more than any screen has lines.
const keptRequests = 500

// view is what a watcher has seen so far.
type view struct {
	gateway  control.GatewayLine
	gone     string // why the connection ended; "" while there is one
	status   statusSeen
	before   statusSeen    // the status before it, of the same gateway
	requests []requestSeen // the last ones, newest last
	seen     totals
	zone     *time.Location // of the times that are shown; nil is this machine's
}

// totals are sums over the requests that were seen.
type totals struct {
	requests, failed, failedOver int
	input, output                int64
	cost, savings                usd
}

// take adds what is seen now.
func (v *view) take(s sight) {
	switch {
	case s.gateway != nil: // another one counts anew
		v.gateway, v.gone = *s.gateway, ""
		v.status, v.before = statusSeen{}, statusSeen{}
	case s.gone != nil:
		v.gone = *s.gone
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

// newest are the last n requests, newest first.
func (v *view) newest(n int) []requestSeen {
	out := slices.Clone(v.requests[max(len(v.requests)-n, 0):])
	slices.Reverse(out)
	return out
}

func (t *totals) add(r *requestSeen) {
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

// perSecond is the rate of requests between the last two statuses.
func (v *view) perSecond() float64 {
	passed := v.status.At.Sub(v.before.At)
	if v.before.At.IsZero() || passed <= 0 || v.status.Served < v.before.Served {
		return 0
	}
	return float64(v.status.Served-v.before.Served) / passed.Seconds()
}

// verdict is how a request ended: its status, and the error or what was wrong with the answer.
func (r *requestSeen) verdict() string {
	status := strconv.Itoa(r.Status)
	switch {
	case r.Code != "":
		return status + " " + r.Code
	case r.Outcome != "" && r.Outcome != "ok":
		return status + " " + r.Outcome
	}
	return status
}

func (r *requestSeen) mood() mood {
	switch {
	case r.Status >= 500:
		return moodBad
	case r.Status >= 400 || r.Outcome != "ok" || len(r.Attempts) > 1:
		return moodWarn
	}
	return moodGood
}

// route is who was tried, in order.
func (r *requestSeen) route() string {
	var names []string
	for _, a := range r.Attempts {
		names = append(names, a.Provider)
	}
	if len(names) == 0 {
		return r.Provider
	}
	return strings.Join(names, " > ")
}

// plainLine is a request that ended, in one line of words that scripts can split.
func plainLine(s sight) string {
	r := s.request
	if r == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d request=%s dialect=%s stream=%t", r.At.UTC().Format(time.RFC3339), r.Status, r.ID, r.Dialect, r.Stream)
	word := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, " %s=%s", name, oneWord(value))
		}
	}
	if r.Operation != "chat" {
		word("operation", r.Operation)
	}
	word("key", r.Account)
	word("asked", r.RequestedModel)
	word("model", r.Model)
	word("provider", r.Provider)
	word("tried", strings.ReplaceAll(r.route(), " > ", ","))
	fmt.Fprintf(&b, " attempts=%d in=%d out=%d cost_usd=%s saved_usd=%s cache=%s ms=%d", len(r.Attempts), r.InputTokens, r.OutputTokens,
		strings.TrimPrefix(r.Cost.String(), "$"), strings.TrimPrefix(r.Savings.String(), "$"), oneWord(r.Cache), r.LatencyMS)
	if r.FirstTokenMS > 0 {
		fmt.Fprintf(&b, " first_ms=%d", r.FirstTokenMS)
	}
	word("outcome", r.Outcome)
	word("error", r.Code)
	return b.String()
}

// oneWord is text that cannot be mistaken for several words or another field.
func oneWord(s string) string {
	if strings.ContainsAny(s, " =\"") {
		return strconv.Quote(s)
	}
	return cli.Printable(s)
}
