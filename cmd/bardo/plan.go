package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/projection"
	"bardo.money/gateway/policy/resolve"
)

func planCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "plan", Short: "Project an agent's inference cost by day and by month", Args: cli.NoArgs,
		Long: "Project an agent's inference cost by day and by month, with the models that the configuration selects and the prices of the catalog.\n" +
			"Nothing is sent to any provider. What the context pipeline and the providers' caches save is not in it, nor the gateway's own spread.\n" +
			"With --actual, an average day of the ledger stands beside the plan (of the market `normal`, or that of --mix).",
	}
	ticks := c.Flags().Int64("ticks", 100, "heartbeats a day")
	mix := c.Flags().String("mix", "", "one market: calm, normal or volatile (default: all)")
	cli.Completes(c, "mix", "calm", "normal", "volatile")
	var actual actualFlags
	actual.register(c)
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		mixes, err := mixesOf(*mix)
		if err != nil {
			return err
		}
		if *ticks < 1 || *ticks > maxTicks {
			return fmt.Errorf("--ticks %d, expected 1 to %d", *ticks, maxTicks)
		}
		if err := actual.check(); err != nil {
			return err
		}
		return plan(c, *ticks, mixes, &actual, *asJSON)
	}
	return c
}

// maxTicks is a heartbeat per second.
const maxTicks = 24 * 60 * 60

func mixesOf(name string) ([]projection.Mix, error) {
	if name == "" {
		return projection.Mixes, nil
	}
	i := slices.IndexFunc(projection.Mixes, func(m projection.Mix) bool { return m.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("--mix %q, expected calm, normal or volatile", name)
	}
	return projection.Mixes[i : i+1], nil
}

func plan(c *cobra.Command, ticks int64, mixes []projection.Mix, actual *actualFlags, asJSON bool) error {
	h, err := home.Open()
	if err != nil {
		return err
	}
	cfg, _, err := settings.ForCommand(c, h)
	if err != nil {
		return err
	}
	models, err := settings.Models(cfg, settings.NewLists(h, slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	p := planner{cfg: cfg, resolver: settings.Resolver(parts.Adapters(), models, cfg)}
	out := p.project(ticks, mixes)
	if err := actual.addActual(c, out); err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(c, out)
	}
	return out.print(c.OutOrStdout())
}

// planner resolves an agent's typical calls.
type planner struct {
	cfg      *config.Config
	resolver *resolve.Resolver
	notes    []string
}

// note adds a note, once.
func (p *planner) note(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(p.notes, s) {
		p.notes = append(p.notes, s)
	}
}

// decide resolves a call of this size by a subsystem. Staked credit is used for private calls only.
func (p *planner) decide(subsystem string, call projection.Call, class policy.SecurityClass) (policy.Resolution, error) {
	rules := settings.IntentRules(p.cfg)
	hints := policy.Hints{Subsystem: subsystem, SecurityClass: class, DIEMAvailable: class == policy.SecurityPrivate && p.diem()}
	built := intent.Build(&hints, &intent.Facts{InputTokens: call.Input, OutputTokens: call.Output}, &policy.Principal{}, &rules)
	d := p.resolver.Decide(&built.Intent)
	if len(d.Order) == 0 {
		return policy.Resolution{}, cmp.Or(d.Err, errNobody)
	}
	return d.Order[0], nil
}

var errNobody = errors.New("no provider serves it")

func (p *planner) diem() bool {
	return slices.ContainsFunc(p.cfg.Enabled(), func(q config.Provider) bool { return q.DIEM })
}

// tier resolves a tier's calls. If the configuration has no model for the tier, it adds a note and returns no candidate.
func (p *planner) tier(name, subsystem string, call projection.Call) policy.Resolution {
	to, err := p.decide(subsystem, call, policy.SecurityStandard)
	if err != nil {
		p.note("%s has no model, and counts as nothing: %v", name, err)
		return to
	}
	p.pay(&to)
	return to
}

// private resolves the tasks that require privacy. Without a private provider, it adds a note and resolves them without privacy.
func (p *planner) private(call projection.Call) policy.Resolution {
	to, err := p.decide("dream", call, policy.SecurityPrivate)
	if err != nil {
		to, err = p.decide("dream", call, policy.SecurityStandard)
		p.note("no provider is private: plans, trades and dreams go where they are not")
	}
	if err != nil {
		p.note("private tasks have no model, and count as nothing: %v", err)
		return to
	}
	p.pay(&to)
	return to
}

// pay sets the price of calls that cost the gateway nothing to 0, and notes unknown prices.
func (p *planner) pay(to *policy.Resolution) {
	enabled := p.cfg.Enabled()
	at := &enabled[slices.IndexFunc(enabled, func(q config.Provider) bool { return q.ID == to.Provider })]
	switch {
	case at.DIEM:
		to.Prices = policy.Prices{Known: true}
		p.note("%s is paid by staked DIEM", at.ID)
	case at.Direct && !at.Free:
		to.Prices = policy.Prices{Known: true}
		p.note("%s is paid by its user, at the vendor", at.ID)
	case at.Traits.First == kind.ForWallet:
		p.note("%s is paid by the wallet's earnings, as far as they reach", at.ID)
	}
	if !to.Prices.Known {
		p.note("the price of %s at %s is not known, and counts as nothing", to.Model, to.Provider)
	}
}

// project calculates the plan.
func (p *planner) project(ticks int64, mixes []projection.Mix) *costPlan {
	m := projection.Models{
		T1:      p.tier("T1", "heartbeat_t1", projection.Routine),
		T2:      p.tier("T2", "heartbeat_t2", projection.Deep),
		Deepest: p.tier("T2+", "risk", projection.Deepest),
	}
	out := &costPlan{Ticks: ticks, Tiers: tiersOf(&m), Days: make([]dayPlan, len(mixes))}
	for i, mix := range mixes {
		out.Days[i] = dayOf(ticks, mix, &m)
	}
	private := p.private(projection.Tasks[len(projection.Tasks)-1].Call)
	out.Month = monthOf(ticks, &m.T1, &private)
	out.Notes = listOf(p.notes)
	return out
}

func listOf(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
