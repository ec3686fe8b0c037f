package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

func modelsCommand() *cobra.Command {
	var f modelFilter
	var maxPrice string
	var require []string
	c := &cobra.Command{
		Use: "models [TEXT]", Short: "List the models that are served, with their providers, prices and capabilities",
		Long: "List the models that the configuration serves, with a line for each provider of a model, first choice first. TEXT is part of a model's\n" +
			"name. Prices are in dollars per million tokens, as the provider charges them; ~ marks one that is not known and was assumed.\n" +
			"Providers' own lists are those that a gateway on this state read last.",
		Example: "  bardo models claude\n  bardo models --provider openai --require vision --max-price 5\n  bardo models --json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%s takes one argument, part of a model's name, and was given %d; --help lists its flags", c.CommandPath(), len(args))
			}
			return nil
		},
	}
	c.Flags().StringVar(&f.provider, "provider", "", "only what this provider serves")
	c.Flags().StringSliceVar(&require, "require", nil, "only models with this capability, such as tools or vision; repeat, or separate by commas")
	c.Flags().IntVar(&f.context, "min-context", 0, "only models with a context window of at least so many tokens")
	c.Flags().StringVar(&maxPrice, "max-price", "", "only models whose input tokens cost at most so many dollars per million")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.AddCommand(modelsLocalCommand(), modelsInstallCommand())
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if f.maxPrice, err = parseMaxPrice(maxPrice); err != nil {
			return err
		}
		if f.require, err = parseRequired(require); err != nil {
			return err
		}
		f.text = strings.Join(args, "")
		offers, err := modelOffers(c, f)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, offers)
		}
		return printOffers(c, offers)
	}
	return c
}

// parseMaxPrice reads --max-price; nil: no limit.
func parseMaxPrice(s string) (*policy.Micro, error) {
	if s == "" {
		return nil, nil
	}
	amount, err := policy.ParseUSD(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--max-price: %w", err)
	case amount < 0:
		return nil, fmt.Errorf("--max-price: %q is negative", s)
	}
	return &amount, nil
}

// parseRequired reads --require.
func parseRequired(names []string) (features []policy.Feature, err error) {
	for _, name := range names {
		f, ok := policy.ParseFeature(strings.TrimSpace(name))
		if !ok {
			return nil, fmt.Errorf("--require %q: expected one of %s", name, cli.List(policy.Features()))
		}
		features = append(features, f)
	}
	return features, nil
}

// servedModel is a model as `models --json` prints it.
type servedModel struct {
	ID      policy.ModelID `json:"id"`
	Family  string         `json:"family"`
	Quality string         `json:"quality"`
	Offers  []servedOffer  `json:"offers"` // in order of preference
}

// servedOffer is a model at a provider. Prices are in dollars per million tokens; a limit of 0 is unknown.
type servedOffer struct {
	Provider     policy.ProviderID `json:"provider"`
	Upstream     string            `json:"upstream"` // the provider's name of the model
	Context      int               `json:"context"`
	MaxOutput    int               `json:"max_output"`
	Capabilities []policy.Feature  `json:"capabilities"` // empty: unknown
	Price        servedPrice       `json:"price"`
}

type servedPrice struct {
	policy.PriceList

	Known  bool           `json:"known"` // false: assumed
	Source catalog.Source `json:"source"`
}

// modelOffers returns the configured models that pass the filter.
func modelOffers(c *cobra.Command, f modelFilter) ([]servedModel, error) {
	h, err := home.Open()
	if err != nil {
		return nil, err
	}
	cfg, _, err := settings.ForCommand(c, h)
	if err != nil {
		return nil, err
	}
	if ids := settings.ProviderIDs(cfg); f.provider != "" && !slices.Contains(ids, policy.ProviderID(f.provider)) {
		return nil, fmt.Errorf("--provider: there is no provider %q; the providers are %s", f.provider, cli.List(ids))
	}
	models, err := settings.Models(cfg, settings.NewLists(h, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	served := []servedModel{}
	for _, o := range settings.Resolver(parts.Adapters(), models, cfg).Models() {
		if m := f.filter(&o); len(m.Offers) > 0 {
			served = append(served, m)
		}
	}
	return served, nil
}

// modelFilter selects models. The zero value selects all.
type modelFilter struct {
	text, provider string
	require        []policy.Feature
	context        int
	maxPrice       *policy.Micro
}

// filter returns the model with the offers that pass.
func (f *modelFilter) filter(o *resolve.Offer) servedModel {
	m := servedModel{ID: o.ID, Family: o.Family, Quality: o.Quality.String()}
	if !strings.Contains(strings.ToLower(string(o.ID)), strings.ToLower(f.text)) {
		return m
	}
	for i, p := range o.Providers {
		if at := &o.Offers[i]; f.passes(p, at) {
			m.Offers = append(m.Offers, offerAt(p, at))
		}
	}
	return m
}

func (f *modelFilter) passes(p policy.ProviderID, at *catalog.Model) bool {
	for _, feature := range f.require {
		if !slices.Contains(at.Capabilities, feature) {
			return false
		}
	}
	return (f.provider == "" || f.provider == string(p)) && at.Context >= f.context &&
		(f.maxPrice == nil || at.Prices.Known && (at.Prices.Units == nil || !at.Prices.Units.NoTokens) && at.Prices.List().Input <= *f.maxPrice)
}

func offerAt(p policy.ProviderID, at *catalog.Model) servedOffer {
	return servedOffer{
		Provider: p, Upstream: at.Upstream, Context: at.Context, MaxOutput: at.MaxOutput,
		Capabilities: append([]policy.Feature{}, at.Capabilities...),
		Price:        servedPrice{PriceList: at.Prices.List(), Known: at.Prices.Known, Source: at.PriceSource},
	}
}

func printOffers(c *cobra.Command, models []servedModel) error {
	var rows [][]string
	for _, m := range models {
		for _, o := range m.Offers {
			rows = append(rows, append([]string{string(m.ID)}, o.cells()...))
		}
	}
	heads := []string{"MODEL", "PROVIDER", "CONTEXT", "MAX OUTPUT", "IN $/M", "OUT $/M", "CACHED $/M", "CAPABILITIES"}
	return cli.PrintTable(c.OutOrStdout(), heads, rows)
}

func (o *servedOffer) cells() []string {
	mark := ""
	if !o.Price.Known {
		mark = "~"
	}
	if u := o.Price.UnitList; u != nil && o.Price.Input == 0 && o.Price.Output == 0 {
		return []string{string(o.Provider), tokens(o.Context), tokens(o.MaxOutput), "", unitPrice(u), "", cli.List(o.Capabilities)}
	}
	return []string{
		string(o.Provider), tokens(o.Context), tokens(o.MaxOutput),
		mark + perMillion(o.Price.Input), mark + perMillion(o.Price.Output), mark + perMillion(o.Price.CachedInput), cli.List(o.Capabilities),
	}
}

// unitPrice formats the price of images, sound or speech.
func unitPrice(u *policy.UnitList) string {
	switch {
	case u.PerHour > 0:
		return perMillion(u.PerHour) + "/hour"
	case u.Characters > 0:
		return perMillion(u.Characters) + "/M char"
	case u.PerMegapixel > 0:
		return perMillion(u.PerMegapixel.Charge(0)) + "/MP"
	}
	least := u.PerImage
	for _, p := range u.Images {
		if least == 0 || p < least {
			least = p
		}
	}
	return perMillion(least.Charge(0)) + "/image"
}

// tokens formats a token limit; "" if it is unknown.
func tokens(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// perMillion formats a price: with at least cents, and no further trailing zeros.
func perMillion(m policy.Micro) string {
	s := strings.TrimRight(m.String(), "0")
	for i := strings.IndexByte(s, '.'); len(s) < i+3; {
		s += "0"
	}
	return s
}
