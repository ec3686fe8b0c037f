package main

import (
	"errors"
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
	"bardo.money/gateway/extproc"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/xds/health"
)

// routeAsk is the request that a dry run is about.
type routeAsk struct {
	Model                 string
	Hints                 header.List // as a request has them
	Input, Output         int64       // tokens; no output is the configured reserve
	Tools, Images, Schema bool        // what the request holds
	Audio, Video          bool        // besides
	Documents             bool        // files that are no text
	Effort                string
	Prompt                string // the user's newest text
	Tier                  string // the plan of the key
}

func routeCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "route", Short: "Show who would serve a request, in which order, and why the others would not", Args: cli.NoArgs,
		Long: "Show who would serve a request, in which order, and why the others would not. Nothing is sent to anyone.\n" +
			"Without --model, the gateway chooses one by what the hints say.\n" +
			"A gateway that runs is asked, since it knows the health of its providers; without one, or with -c, a configuration is read.\n" +
			"Exit status 1, and the error that a client would get, when nobody serves it.",
	}
	var ask routeAsk
	c.Flags().StringVar(&ask.Model, "model", "", "the model, or provider/model")
	c.Flags().StringVar(&ask.Prompt, "prompt", "", "what the user asks: where the model is left to the gateway, it is chosen by that")
	c.Flags().Int64Var(&ask.Input, "input-tokens", 1000, "a request of so many input tokens")
	c.Flags().Int64Var(&ask.Output, "max-tokens", 0, "an answer of at most so many output tokens (default, for costs: billing.reserve_output_tokens)")
	c.Flags().BoolVar(&ask.Tools, "tools", false, "the request has tools")
	c.Flags().BoolVar(&ask.Images, "images", false, "the request has images")
	c.Flags().BoolVar(&ask.Audio, "audio", false, "the request has audio")
	c.Flags().BoolVar(&ask.Video, "video", false, "the request has video")
	c.Flags().BoolVar(&ask.Documents, "documents", false, "the request has files that are no text, such as PDF")
	c.Flags().BoolVar(&ask.Schema, "schema", false, "the answer must follow a schema")
	c.Flags().StringVar(&ask.Effort, "effort", "", "how hard the request has the model reason (none, low, medium, high, max)")
	cli.Completes(c, "effort", "none", "low", "medium", "high", "max")
	c.Flags().StringVar(&ask.Tier, "tier", "", "the plan of the key (free, pro, golem)")
	cli.Completes(c, "tier", "free", "pro", "golem")
	addHintFlags(c)
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ask.Hints = saidHints(c)
		dry, err := ask.dry()
		if err != nil {
			return asFlag(err)
		}
		return route(c, ask, dry, *asJSON)
	}
	return c
}

// dry is the request as the gateway looks at it. The error is a fault that names what cannot be read.
func (a *routeAsk) dry() (*extproc.Dry, error) {
	d := extproc.Dry{At: time.Now()}
	if err := readHints(a.Hints, &d.Hints); err != nil {
		return nil, err
	}
	effort, ok := policy.ParseEffort(a.Effort)
	if !ok && a.Effort != "" {
		return nil, errors.New("--effort: expected none, low, medium, high or max")
	}
	if tiers := []string{"", string(policy.TierFree), string(policy.TierPro), string(policy.TierGolem)}; !slices.Contains(tiers, a.Tier) {
		return nil, errors.New("--tier: expected free, pro or golem")
	}
	d.Principal.Tier = policy.Tier(a.Tier)
	d.Facts = intent.Facts{
		Model: a.Model, InputTokens: a.Input, OutputTokens: a.Output, MaxTokens: int(a.Output),
		Images: a.Images, Audio: a.Audio, Video: a.Video, Documents: a.Documents, Schema: a.Schema, Effort: effort, Text: a.Prompt,
	}
	if a.Tools {
		d.Facts.Tools = 1
	}
	return &d, nil
}

func route(c *cobra.Command, ask routeAsk, dry *extproc.Dry, asJSON bool) error {
	h, err := home.Open()
	if err != nil {
		return err
	}
	e, err := dryRun(c, h, ask, dry)
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

// dryRun asks the running gateway. Without one, or when a configuration is named, that configuration is looked at, with the
// health that a running gateway knows of the same providers.
func dryRun(c *cobra.Command, h home.Dir, ask routeAsk, dry *extproc.Dry) (e extproc.Explanation, err error) {
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
	return explain(cfg, settings.NewLists(h, slog.New(slog.DiscardHandler)), states, dry)
}

func (a *routeAsk) query() url.Values {
	q := url.Values{
		"model": {a.Model}, "input": {strconv.FormatInt(a.Input, 10)}, "output": {strconv.FormatInt(a.Output, 10)},
		"effort": {a.Effort}, "tier": {a.Tier}, "prompt": {a.Prompt},
	}
	for name, said := range map[string]bool{
		"tools": a.Tools, "images": a.Images, "audio": a.Audio, "video": a.Video, "documents": a.Documents, "schema": a.Schema,
	} {
		if said {
			q.Set(name, "true")
		}
	}
	for _, h := range a.Hints {
		q.Add(h.Name, h.Value)
	}
	return q
}

// askOf is the reverse of query.
func askOf(q url.Values) (a routeAsk, err error) {
	a = routeAsk{
		Model: q.Get("model"), Prompt: q.Get("prompt"), Effort: q.Get("effort"), Tier: q.Get("tier"),
		Tools: q.Has("tools"), Images: q.Has("images"), Schema: q.Has("schema"),
		Audio: q.Has("audio"), Video: q.Has("video"), Documents: q.Has("documents"),
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

// explainNow answers a dry run with the configuration and the health that are in force.
func explainNow(q url.Values, gate *extproc.Gateway, states []control.Provider) (e extproc.Explanation, err error) {
	ask, err := askOf(q)
	if err != nil {
		return e, err
	}
	dry, err := ask.dry()
	if err != nil {
		return e, err
	}
	e = gate.Explain(dry)
	giveReasons(&e, states)
	return e, nil
}

// explain is the dry run without a gateway: a configuration, what is known about its providers' health, and a request.
func explain(cfg *config.Config, lists *settings.Lists, states []control.Provider, dry *extproc.Dry) (e extproc.Explanation, err error) {
	models, err := settings.Models(cfg, lists)
	if err != nil {
		return e, err
	}
	profiles, _ := profile.New(settings.ProfileSettings(cfg))
	rt := extproc.Runtime{
		Resolver: settings.Resolver(adapters(), models, cfg), Intents: settings.IntentRules(cfg), Profiles: profiles,
		ReserveOutput: cfg.Billing.ReserveOutputTokens,
	}
	rt.DefaultSpread, rt.SpreadPct = cfg.Billing.Spreads()
	e = rt.Explain(dry, planOf(states), func(id policy.ProviderID) string { return stateOf(id, states).State })
	giveReasons(&e, states)
	return e, nil
}

// planOf orders providers by states that were read: those that work, those that are in trouble; disabled ones are left out.
func planOf(states []control.Provider) func([]policy.ProviderID) []policy.ProviderID {
	return func(ids []policy.ProviderID) []policy.ProviderID {
		var well, ill []policy.ProviderID
		for _, id := range ids {
			switch s := stateOf(id, states); {
			case s.Order == 0:
			case health.State(s.State).Out():
				ill = append(ill, id)
			default:
				well = append(well, id)
			}
		}
		return append(well, ill...)
	}
}

// stateOf is what is known about a provider's health.
func stateOf(id policy.ProviderID, states []control.Provider) control.Provider {
	i := slices.IndexFunc(states, func(s control.Provider) bool { return s.Provider == id })
	if i < 0 {
		return control.Provider{Provider: id, State: "unknown", Order: len(states) + 1}
	}
	return states[i]
}

// giveReasons says why a provider is in its state.
func giveReasons(e *extproc.Explanation, states []control.Provider) {
	for i := range e.Order {
		if s := stateOf(e.Order[i].Provider, states); s.Reason != "" {
			e.Order[i].Why += "; " + s.Reason
		}
	}
}
