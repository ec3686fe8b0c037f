// Package route is `bardo route`: a dry run that shows which providers would serve a request, in which order, and why the others would not.
package route

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/cmd/bardo/wallet"
	"bardo.money/gateway/extproc"
	"bardo.money/gateway/extproc/dryrun"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/xds/health"
)

// request is the request of a dry run.
type request struct {
	Model                 string
	Hints                 header.List
	Input, Output         int64 // tokens; output 0 is the configured reserve
	Tools, Images, Schema bool  // what the request contains
	Audio, Video          bool
	Documents             bool // files other than text
	Effort                string
	Prompt                string // the user's latest message
	Tier                  string // the key's plan
	Broke                 bool   // the key is prepaid, and its balance is empty
}

// Guards returns the layers of a configuration that act by policy, for explanations.
type Guards func(*config.Config) *pipeline.Pipeline

// Command is `bardo route`. adapters are those of the program.
func Command(adapters []provider.Described, guards Guards) *cobra.Command {
	c := &cobra.Command{
		Use: "route", Short: "Show which providers would serve a request, in which order, and why the others would not", Args: cli.NoArgs,
		Long: "Show which providers would serve a request, in which order, and why the others would not. Nothing is sent to any provider.\n" +
			"Without --model the gateway chooses one by the hints, as for `auto`.\n" +
			"The running gateway answers, since it knows the health of its providers; without one, or with -c, a configuration file is read.\n" +
			"If no provider serves the request, the exit status is 1 and the error is the client's.",
	}
	var ask request
	addRequestFlags(c, &ask)
	addHintFlags(c)
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ask.Hints = givenHints(c)
		dry, err := ask.dry()
		if err != nil {
			return asFlag(err)
		}
		return show(c, adapters, guards, ask, dry, *asJSON)
	}
	hideRareFlags(c)
	return c
}

// dry converts the request to a query. The error is a fault that names what is invalid.
func (a *request) dry() (*dryrun.Query, error) {
	d := dryrun.Query{At: time.Now()}
	if err := readHints(a.Hints, &d.Hints); err != nil {
		return nil, err
	}
	effort, ok := policy.ParseEffort(a.Effort)
	if !ok && a.Effort != "" {
		return nil, fmt.Errorf("--effort: expected none, low, medium, high or max, not %q", a.Effort)
	}
	if tiers := []string{"", string(policy.TierFree), string(policy.TierPro), string(policy.TierGolem)}; !slices.Contains(tiers, a.Tier) {
		return nil, fmt.Errorf("--tier: expected free, pro or golem, not %q", a.Tier)
	}
	if a.Input < 0 {
		return nil, fmt.Errorf("--input-tokens: expected a number of at least 0, not %d", a.Input)
	}
	if a.Output < 0 {
		return nil, fmt.Errorf("--max-tokens: expected a number of at least 0, not %d", a.Output)
	}
	d.Principal.Tier = policy.Tier(a.Tier)
	d.Broke, d.Principal.Prepaid = a.Broke, a.Broke
	d.Facts = intent.Facts{
		Model: a.Model, InputTokens: a.Input, OutputTokens: a.Output, MaxTokens: int(a.Output),
		Images: a.Images, Audio: a.Audio, Video: a.Video, Documents: a.Documents, Schema: a.Schema, Effort: effort, Text: a.Prompt,
	}
	if a.Tools {
		d.Facts.Tools = 1
	}
	return &d, nil
}

// show prints the outcome of the dry run. The error is the one that a client would get.
func show(c *cobra.Command, adapters []provider.Described, guards Guards, ask request, dry *dryrun.Query, asJSON bool) error {
	h, err := home.Open()
	if err != nil {
		return err
	}
	e, err := dryRun(c, h, adapters, guards, ask, dry)
	if err != nil {
		return err
	}
	out := e.Text()
	if asJSON {
		out = string(e.JSON())
	}
	if _, err := c.OutOrStdout().Write([]byte(out)); err != nil {
		return err
	}
	if e.Error != "" {
		return errors.New(e.Error)
	}
	return nil
}

// dryRun returns the answer of the running gateway. Without one, or if a configuration is named, it is computed from that configuration, with the health of
// providers in the running gateway, if any.
func dryRun(c *cobra.Command, h home.Dir, adapters []provider.Described, guards Guards, ask request, dry *dryrun.Query) (e dryrun.Result, err error) {
	_, runs := h.Answering(c.Context())
	if runs && !c.Flags().Changed("config") {
		return e, control.Do(c.Context(), h, http.MethodGet, "/route?"+ask.query().Encode(), &e)
	}
	cfg, _, err := settings.ForCommand(c, h)
	if err != nil {
		return e, err
	}
	var states []control.Provider
	if runs {
		if err := control.Do(c.Context(), h, http.MethodGet, "/providers", &states); err != nil {
			return e, err
		}
	}
	return explain(adapters, guards(cfg), cfg, settings.NewLists(h, slog.New(slog.DiscardHandler)), states, dry)
}

func (a *request) query() url.Values {
	q := url.Values{
		"model": {a.Model}, "input": {strconv.FormatInt(a.Input, 10)}, "output": {strconv.FormatInt(a.Output, 10)},
		"effort": {a.Effort}, "tier": {a.Tier}, "prompt": {a.Prompt},
	}
	for name, set := range map[string]bool{
		"tools": a.Tools, "images": a.Images, "audio": a.Audio, "video": a.Video, "documents": a.Documents, "schema": a.Schema, "empty": a.Broke,
	} {
		if set {
			q.Set(name, "true")
		}
	}
	for _, h := range a.Hints {
		q.Add(h.Name, h.Value)
	}
	return q
}

// parseQuery is the inverse of query.
func parseQuery(q url.Values) (a request, err error) {
	a = request{
		Model: q.Get("model"), Prompt: q.Get("prompt"), Effort: q.Get("effort"), Tier: q.Get("tier"),
		Tools: q.Has("tools"), Images: q.Has("images"), Schema: q.Has("schema"),
		Audio: q.Has("audio"), Video: q.Has("video"), Documents: q.Has("documents"), Broke: q.Has("empty"),
	}
	if a.Input, err = strconv.ParseInt(q.Get("input"), 10, 64); err != nil {
		return a, err
	}
	if a.Output, err = strconv.ParseInt(q.Get("output"), 10, 64); err != nil {
		return a, err
	}
	for _, f := range hintFlags {
		for _, value := range q[f.header()] {
			a.Hints = append(a.Hints, header.Field{Name: f.header(), Value: value})
		}
	}
	return a, nil
}

// Explain answers a dry run's query with the running gateway's configuration and its providers' health.
func Explain(q url.Values, gate *extproc.Gateway, states []control.Provider) (e dryrun.Result, err error) {
	ask, err := parseQuery(q)
	if err != nil {
		return e, err
	}
	dry, err := ask.dry()
	if err != nil {
		return e, err
	}
	e = gate.Explain(dry)
	addReasons(&e, states)
	return e, nil
}

// explain is a dry run without a gateway, from a configuration and the known health of its providers.
func explain(adapters []provider.Described, guards *pipeline.Pipeline, cfg *config.Config, lists *settings.Lists, states []control.Provider, dry *dryrun.Query) (e dryrun.Result, err error) {
	models, err := settings.Models(cfg, lists)
	if err != nil {
		return e, err
	}
	profiles, _ := profile.New(settings.ProfileSettings(cfg))
	rt := runtime.Config{
		Resolver: settings.Resolver(adapters, models, cfg), Intents: settings.IntentRules(cfg), Profiles: profiles,
		Pipeline: guards, ReserveOutput: cfg.Billing.ReserveOutputTokens,
		Structured: settings.StructuredOutputs(cfg), VerifyRisk: runtime.VerifyRisk(cfg.Inference.Verification.Risk),
	}
	rt.DefaultSpread, rt.SpreadPct = cfg.Billing.Spreads()
	rt.MaxRetries, rt.Hedging = cfg.Routing.MaxRetries, settings.Hedging(cfg)
	rt.Plans = len(cfg.Billing.Tiers) > 0
	rt.Cheaper, rt.Wallet = settings.Cheaper(cfg), wallet.Of(cfg)
	e = dryrun.Run(&rt, dry, planOf(states), func(id policy.ProviderID) string { return stateOf(id, states).State })
	addReasons(&e, states)
	return e, nil
}

// planOf orders providers by their states: those that work first, then those that fail, without disabled ones.
func planOf(states []control.Provider) func([]policy.ProviderID) []policy.ProviderID {
	return func(ids []policy.ProviderID) []policy.ProviderID {
		var working, failing []policy.ProviderID
		for _, id := range ids {
			switch s := stateOf(id, states); {
			case s.Order == 0:
			case health.State(s.State).Out():
				failing = append(failing, id)
			default:
				working = append(working, id)
			}
		}
		return append(working, failing...)
	}
}

// stateOf returns a provider's state; "unknown" if there is none.
func stateOf(id policy.ProviderID, states []control.Provider) control.Provider {
	i := slices.IndexFunc(states, func(s control.Provider) bool { return s.Provider == id })
	if i < 0 {
		return control.Provider{Provider: id, State: "unknown", Order: len(states) + 1}
	}
	return states[i]
}

// addReasons adds to each candidate the state of its provider as `bardo providers` shows it, the reason, and whether it precedes working providers because a
// request has to probe whether it works again.
func addReasons(e *dryrun.Result, states []control.Provider) {
	works := false // a later one in the order
	for i := len(e.Order) - 1; i >= 0; i-- {
		c := &e.Order[i]
		s := stateOf(c.Provider, states)
		if s.Reason != "" {
			c.Why += "; " + s.Reason
		}
		if !health.State(s.State).Out() {
			works = true
			continue
		}
		c.State = s.State
		if works {
			c.Why += "; it is tried again"
		}
	}
}
