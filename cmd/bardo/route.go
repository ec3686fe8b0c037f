package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// routeAsk is the request that a dry run is about.
type routeAsk struct {
	Model         string
	Require       []policy.Feature
	Prefer        []policy.Feature
	Input, Output int64 // tokens; no output is the configured reserve
}

func routeCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "route --model MODEL", Short: "Show who would serve a request, in which order, and why the others would not", Args: noArgs,
		Long: "Show who would serve a request, in which order, and why the others would not. Nothing is sent to anyone.\n" +
			"A gateway that runs is asked, since it knows the health of its providers; without one, or with -c, a configuration is read.\n" +
			"Exit status 1, and the error that a client would get, when nobody serves it.",
	}
	var ask routeAsk
	var require, prefer []string
	c.Flags().StringVar(&ask.Model, "model", "", "the model, or provider/model")
	c.Flags().Int64Var(&ask.Input, "input-tokens", 1000, "estimate the cost for so many input tokens")
	c.Flags().Int64Var(&ask.Output, "max-tokens", 0, "estimate the cost for so many output tokens (default billing.reserve_output_tokens)")
	c.Flags().StringSliceVar(&require, "require", nil, "hint: a feature that the model must have; repeat, or separate by commas")
	c.Flags().StringSliceVar(&prefer, "prefer", nil, "hint: a feature that the model should have; repeat, or separate by commas")
	addHintFlags(c)
	asJSON := jsonFlag(c)
	configFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if ask.Require, err = features("--require", require); err != nil {
			return err
		}
		if ask.Prefer, err = features("--prefer", prefer); err != nil {
			return err
		}
		if err := noteUnusedHints(c); err != nil {
			return err
		}
		if ask.Model == "" {
			return errors.New("--model is missing: this version chooses no model by itself")
		}
		return route(c, ask, *asJSON)
	}
	return c
}

// features reads names of features; one that does not exist is refused with the one that was probably meant.
func features(flag string, names []string) ([]policy.Feature, error) {
	var out []policy.Feature
	for _, name := range names {
		f, ok := policy.ParseFeature(name)
		if !ok {
			return nil, fmt.Errorf("%s %q is no feature%s", flag, name, meant(name))
		}
		out = append(out, f)
	}
	return out, nil
}

func meant(name string) string {
	var all []string
	for _, f := range policy.Features() {
		all = append(all, string(f))
	}
	if like := near.Names(name, all, 1); len(like) > 0 {
		return ", expected " + like[0]
	}
	return ", expected one of " + strings.Join(all, ", ")
}

func route(c *cobra.Command, ask routeAsk, asJSON bool) error {
	h, err := openHome()
	if err != nil {
		return err
	}
	r, err := dryRun(c, h, ask)
	if err != nil {
		return err
	}
	show := r.print
	if asJSON {
		show = r.printJSON
	}
	if err := show(c); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// dryRun asks the running gateway. Without one, or when a configuration is named, that configuration is looked at, with the
// health that a running gateway knows of the same providers.
func dryRun(c *cobra.Command, h home, ask routeAsk) (routeReport, error) {
	_, runs := h.answering(c.Context())
	if runs && !c.Flags().Changed("config") {
		var r routeReport
		return r, control(c.Context(), h, http.MethodGet, "/route?"+ask.query().Encode(), &r)
	}
	cfg, _, err := configured(c, h)
	if err != nil {
		return routeReport{}, err
	}
	var states []providerState
	if runs {
		if err := control(c.Context(), h, http.MethodGet, "/providers", &states); err != nil {
			return routeReport{}, err
		}
	}
	return explain(cfg, newModelLists(h, slog.New(slog.DiscardHandler)), states, ask)
}

func (a routeAsk) query() url.Values {
	q := url.Values{"model": {a.Model}, "input": {strconv.FormatInt(a.Input, 10)}, "output": {strconv.FormatInt(a.Output, 10)}}
	for _, f := range a.Require {
		q.Add("require", string(f))
	}
	for _, f := range a.Prefer {
		q.Add("prefer", string(f))
	}
	return q
}

// askOf is the reverse of query.
func askOf(q url.Values) (a routeAsk, err error) {
	a.Model = q.Get("model")
	if a.Input, err = strconv.ParseInt(q.Get("input"), 10, 64); err != nil {
		return a, err
	}
	if a.Output, err = strconv.ParseInt(q.Get("output"), 10, 64); err != nil {
		return a, err
	}
	if a.Require, err = features("require", q["require"]); err != nil {
		return a, err
	}
	a.Prefer, err = features("prefer", q["prefer"])
	return a, err
}

// serveRoute answers a dry run with the configuration and the health that are in force.
func (g *gateway) serveRoute(w http.ResponseWriter, r *http.Request) {
	ask, err := askOf(r.URL.Query())
	var report routeReport
	if err == nil {
		report, err = explain(g.cfg.Load(), g.lists, g.providerStates(), ask)
	}
	if err != nil {
		writeJSON(w, http.StatusUnprocessableEntity, map[string]string{"error": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, report)
}

// explain is the dry run: a configuration, what is known about its providers' health, and a request.
func explain(cfg *config.Config, lists *modelLists, states []providerState, ask routeAsk) (routeReport, error) {
	models, err := knownModels(cfg, lists)
	if err != nil {
		return routeReport{}, err
	}
	if ask.Output <= 0 {
		ask.Output = int64(cfg.Billing.ReserveOutputTokens)
	}
	found := resolve.New(models, cfg.Enabled()).Under(resolve.Rules{Strategy: resolve.Ordered}).Explain(&policy.Intent{Model: ask.Model})
	return newRouteReport(found, states, ask, cfg.Billing.SpreadPct), nil
}
