package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// routeReport is what a dry run found, as the control socket gives it. Amounts are whole numbers of their units.
type routeReport struct {
	Order   []routePlace
	Refused []routeRefusal
	Error   string // the fault's code and sentence when nobody serves the request
	Input   int64  // the tokens of the estimate
	Output  int64
}

// routePlace is one candidate.
type routePlace struct {
	Provider     policy.ProviderID
	Model        policy.ModelID
	Upstream     string
	State        string // of health; unknown without a gateway
	Features     []policy.Feature
	Degraded     []string
	ProviderCost int64 // policy.Pico
	Cost         int64 // policy.Micro, with the configured spread
	PriceKnown   bool
	Why          string
}

// routeRefusal is one provider that does not serve the request, as `route --json` prints it.
type routeRefusal struct {
	Provider policy.ProviderID `json:"provider"`
	Model    string            `json:"model"`
	Reason   string            `json:"reason"`
}

// newRouteReport puts the candidates in their order of health, and takes out those that an operator disabled.
func newRouteReport(e resolve.Decision, states []providerState, ask routeAsk, spreadPct int) routeReport {
	r := routeReport{Input: ask.Input, Output: ask.Output, Refused: []routeRefusal{}}
	for _, c := range inOrder(e.Order, states) {
		state := stateOf(c.Provider, states)
		if state.Order == 0 {
			r.Refused = append(r.Refused, routeRefusal{c.Provider, ask.Model, "an operator disabled it"})
			continue
		}
		r.Order = append(r.Order, newRoutePlace(c, state, ask, spreadPct))
	}
	for _, no := range e.Refused {
		r.Refused = append(r.Refused, routeRefusal{no.Provider, no.Model, no.Reason})
	}
	switch {
	case e.Err != nil:
		r.Error = publicError(e.Err)
	case len(r.Order) == 0:
		r.Error = publicError(fault.Newf(fault.NoProvider, "every provider of this model is disabled"))
	}
	return r
}

// publicError is a fault as a client reads it.
func publicError(err error) string {
	f := fault.From(err)
	return f.CodeString() + ": " + f.Public
}

// inOrder sorts candidates as the gateway would try them now. A provider that nobody watches keeps its configured place.
func inOrder(found []policy.Resolution, states []providerState) []policy.Resolution {
	out := slices.Clone(found)
	slices.SortStableFunc(out, func(a, b policy.Resolution) int {
		return cmp.Compare(stateOf(a.Provider, states).Order, stateOf(b.Provider, states).Order)
	})
	return out
}

// stateOf is what is known about a provider's health. One that is not known comes after those that are, as health orders them.
func stateOf(id policy.ProviderID, states []providerState) providerState {
	i := slices.IndexFunc(states, func(s providerState) bool { return s.Provider == id })
	if i < 0 {
		return providerState{Provider: id, State: "unknown", Order: len(states) + 1}
	}
	return states[i]
}

func newRoutePlace(c policy.Resolution, s providerState, ask routeAsk, spreadPct int) routePlace {
	output := ask.Output
	if c.MaxOutput > 0 {
		output = min(output, int64(c.MaxOutput))
	}
	cost := c.Prices.Cost(max(ask.Input, 0), 0, 0, 0, output)
	p := routePlace{
		Provider: c.Provider, Model: c.Model, Upstream: c.Upstream, State: s.State, Features: c.Features, Degraded: lacking(c, ask),
		ProviderCost: int64(cost), Cost: int64(cost.Charge(spreadPct)), PriceKnown: c.Prices.Known, Why: c.Why,
	}
	if s.Reason != "" {
		p.Why += "; " + s.Reason
	}
	return p
}

// lacking are the features that were asked for and are not there, required ones first, without duplicates (D-11).
func lacking(c policy.Resolution, ask routeAsk) []string {
	out := slices.Clone(c.Degraded)
	for _, f := range slices.Concat(ask.Require, ask.Prefer) {
		if !slices.Contains(c.Features, f) && !slices.Contains(out, string(f)) {
			out = append(out, string(f))
		}
	}
	return out
}

// routeJSON is what `route --json` prints.
type routeJSON struct {
	Order    []routeCandidate  `json:"order"`
	Refused  []routeRefusal    `json:"refused"`
	Profile  map[string]string `json:"profile"`
	Pipeline string            `json:"pipeline"`
}

type routeCandidate struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	Features []policy.Feature  `json:"features"`
	Degraded []string          `json:"degraded"`
	Cost     policy.Pico       `json:"estimated_cost_usd"` // the provider's
	Score    *float64          `json:"score"`              // null: nothing is scored
}

// pipelineName is the profile of context engineering (D-30) that requests get: of the layers the exact cache is built, which is all
// that the smallest profile has.
const pipelineName = "minimal"

func (r routeReport) printJSON(c *cobra.Command) error {
	out := routeJSON{Order: []routeCandidate{}, Refused: r.Refused, Profile: map[string]string{}, Pipeline: pipelineName}
	for _, p := range r.Order {
		out.Order = append(out.Order, routeCandidate{
			Provider: p.Provider, Model: p.Model, Cost: policy.Pico(p.ProviderCost),
			Features: append([]policy.Feature{}, p.Features...), Degraded: append([]string{}, p.Degraded...),
		})
	}
	return printJSON(c, out)
}

func (r routeReport) print(c *cobra.Command) error {
	rows := make([][]string, len(r.Order))
	for i, p := range r.Order {
		rows[i] = p.cells(i + 1)
	}
	w := c.OutOrStdout()
	if len(rows) > 0 {
		heads := []string{"RANK", "PROVIDER", "MODEL", "UPSTREAM", "HEALTH", "COST USD", "PROVIDER USD", "LACKS", "WHY"}
		if err := printTable(w, heads, rows); err != nil {
			return err
		}
		fmt.Fprintf(w, "\ncost of %d input and up to %d output tokens\n", r.Input, r.Output)
		if len(r.Refused) > 0 {
			fmt.Fprintln(w)
		}
	}
	if len(r.Refused) == 0 {
		return nil
	}
	rows = make([][]string, len(r.Refused))
	for i, no := range r.Refused {
		rows[i] = []string{string(no.Provider), no.Reason}
	}
	return printTable(w, []string{"NOT ASKED", "WHY"}, rows)
}

func (p routePlace) cells(rank int) []string {
	cost := policy.Micro(p.Cost).String()
	if !p.PriceKnown {
		cost += " (price not known)"
	}
	return []string{
		strconv.Itoa(rank), string(p.Provider), string(p.Model), p.Upstream, p.State, cost, policy.Pico(p.ProviderCost).String(),
		strings.Join(p.Degraded, ","), p.Why,
	}
}
