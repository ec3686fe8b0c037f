package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
)

func providersCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "providers", Short: "Show the state, health and order of each provider", Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			states, err := currentProviders(c, h)
			if err != nil {
				return err
			}
			return printProviders(c, states)
		},
	}
	c.PersistentFlags().Bool("json", false, "print JSON")
	settings.Flag(c)
	c.AddCommand(
		switchCommand("disable", "Take a provider out of the order; requests under way finish"),
		switchCommand("enable", "Put a provider back into the order"),
	)
	return c
}

// switchCommand is `bardo providers enable` or `disable`.
func switchCommand(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: cli.OneArg("the provider's name"),
		RunE: func(c *cobra.Command, args []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			var states []control.Provider
			if err := control.DoAtPlane(c.Context(), h, http.MethodPost, "/providers/"+url.PathEscape(args[0])+"/"+verb, &states); err != nil {
				return err
			}
			return printProviders(c, states)
		},
	}
}

// currentProviders returns the providers of the running gateway, or else the configured ones.
func currentProviders(c *cobra.Command, h home.Dir) ([]control.Provider, error) {
	_, gateway := h.Answering(c.Context())
	_, plane := h.AnsweringAs(c.Context(), home.PlaneFile)
	if gateway || plane {
		var states []control.Provider
		err := control.DoAtPlane(c.Context(), h, http.MethodGet, "/providers", &states)
		return states, err
	}
	cfg, _, err := settings.ForCommand(c, h)
	if err != nil {
		return nil, err
	}
	return configuredProviders(cfg), nil
}

func configuredProviders(cfg *config.Config) []control.Provider {
	enabled := cfg.Enabled()
	states := make([]control.Provider, len(enabled))
	for i, p := range enabled {
		states[i] = control.Provider{Provider: p.ID, State: control.NotRunning, Order: i + 1}
	}
	return states
}

func printProviders(c *cobra.Command, states []control.Provider) error {
	asJSON, err := c.Flags().GetBool("json")
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(c, states)
	}
	rows := make([][]string, len(states))
	for i, s := range states {
		rows[i] = s.Cells()
	}
	return cli.PrintTable(c.OutOrStdout(), []string{"PROVIDER", "STATE", "ERROR RATE", "ORDER", "REASON"}, rows)
}
