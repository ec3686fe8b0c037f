package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// providerState is a provider as the control socket and `providers --json` show it.
type providerState struct {
	Provider  policy.ProviderID `json:"provider"`
	State     string            `json:"state"` // healthy, degraded, down, credential_refused, unknown, disabled; not running without a gateway
	Reason    string            `json:"reason,omitempty"`
	Requests  int               `json:"requests"`   // lately
	ErrorRate float64           `json:"error_rate"` // of those, 0 to 1
	Order     int               `json:"order"`      // 1 is tried first; 0: it is not tried
}

// notRunning is the state of every provider when no gateway runs.
const notRunning = "not running"

func providersCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "providers", Short: "Show the state, health and order of each provider", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := openHome()
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
	configFlag(c)
	c.AddCommand(
		switchCommand("disable", "Take a provider out of the order; requests under way finish"),
		switchCommand("enable", "Put a provider back into the order"),
	)
	return c
}

// switchCommand is one of the two that change a running gateway.
func switchCommand(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: oneArg("the provider's name"),
		RunE: func(c *cobra.Command, args []string) error {
			h, err := openHome()
			if err != nil {
				return err
			}
			var states []providerState
			if err := decide(c.Context(), h, http.MethodPost, "/providers/"+url.PathEscape(args[0])+"/"+verb, &states); err != nil {
				return err
			}
			return printProviders(c, states)
		},
	}
}

// currentProviders asks the running gateway; without one it shows what is configured.
func currentProviders(c *cobra.Command, h home) ([]providerState, error) {
	_, gateway := h.answering(c.Context())
	_, plane := h.answeringAs(c.Context(), planeFile)
	if gateway || plane {
		var states []providerState
		err := decide(c.Context(), h, http.MethodGet, "/providers", &states)
		return states, err
	}
	cfg, _, err := configured(c, h)
	if err != nil {
		return nil, err
	}
	return configuredProviders(cfg), nil
}

func configuredProviders(cfg *config.Config) []providerState {
	enabled := cfg.Enabled()
	states := make([]providerState, len(enabled))
	for i, p := range enabled {
		states[i] = providerState{Provider: p.ID, State: notRunning, Order: i + 1}
	}
	return states
}

// answering says where the gateway on this state listens; ok is false when none does. A gateway that was killed leaves
// run.json behind, so its socket is tried.
func (h home) answering(ctx context.Context) (r runInfo, ok bool) { return h.answeringAs(ctx, runFile) }

func (h home) answeringAs(ctx context.Context, file string) (r runInfo, ok bool) {
	r, err := h.runningAs(file)
	if err != nil {
		return runInfo{}, false
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", r.Control)
	if err != nil {
		return runInfo{}, false
	}
	_ = conn.Close()
	return r, true
}

func printProviders(c *cobra.Command, states []providerState) error {
	asJSON, err := c.Flags().GetBool("json")
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(c, states)
	}
	rows := make([][]string, len(states))
	for i, s := range states {
		rows[i] = s.cells()
	}
	return printTable(c.OutOrStdout(), []string{"PROVIDER", "STATE", "ERROR RATE", "ORDER", "REASON"}, rows)
}

func (s providerState) cells() []string {
	rate, order := "", ""
	if s.Requests > 0 {
		rate = fmt.Sprintf("%.1f%% of %d", 100*s.ErrorRate, s.Requests)
	}
	if s.Order > 0 {
		order = strconv.Itoa(s.Order)
	}
	return []string{string(s.Provider), s.State, rate, order, s.Reason}
}
