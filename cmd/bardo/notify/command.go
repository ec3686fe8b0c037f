package notify

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/alerts"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/secret"
)

// testAbout is the subject of messages of `bardo notify test`.
const testAbout = "test"

// Command is `bardo notify`.
func Command() *cobra.Command {
	c := cli.Group("notify", "Notifications of operators")
	test := &cobra.Command{Use: "test", Short: "Send a message to each receiver of the configuration; exit status 1 if one does not take it", Args: cli.NoArgs}
	asJSON := cli.JSONFlag(test)
	settings.Flag(test)
	test.RunE = func(c *cobra.Command, _ []string) error {
		h, err := home.Open()
		if err != nil {
			return err
		}
		cfg, _, err := settings.ForCommand(c, h)
		if err != nil {
			return err
		}
		results, err := sendAll(c.Context(), cfg)
		if err != nil {
			return err
		}
		return show(c, results, *asJSON)
	}
	c.AddCommand(test)
	return c
}

// result is the outcome of sending to a receiver.
type result struct {
	Receiver string `json:"receiver"`
	Sent     bool   `json:"sent"`
	Error    string `json:"error,omitempty"`
}

// sendAll sends a test message to each receiver once.
func sendAll(ctx context.Context, cfg *config.Config) (results []result, err error) {
	n := &cfg.Notifications
	if !n.Enabled() {
		return nil, cli.Advise(fmt.Errorf("the configuration has no receiver of notifications"), "set notifications.telegram_token, discord_webhook or webhooks")
	}
	to, err := receivers(n, settings.NodeName(cfg))
	if err != nil {
		return nil, err
	}
	hide := secret.NewRedactor(cfg.Secrets()...)
	m := message{Alert: alerts.Alert{Time: time.Now().UTC(), Topic: testAbout, Event: "notify:test", About: testAbout, Text: "This is a test of the notifications.", Data: struct{}{}}}
	for _, r := range to {
		res := result{Receiver: r.name, Sent: true}
		if err := r.send(ctx, fmt.Sprintf("msg_test_%d", m.Time.UnixNano()), &m); err != nil {
			res.Sent, res.Error = false, hide.String(unwrapPermanent(err).Error())
		}
		results = append(results, res)
	}
	return results, nil
}

func show(c *cobra.Command, results []result, asJSON bool) error {
	failed := false
	for _, r := range results {
		failed = failed || !r.Sent
		switch {
		case asJSON:
		case r.Sent:
			fmt.Fprintln(c.OutOrStdout(), r.Receiver+": sent")
		default:
			fmt.Fprintln(c.OutOrStdout(), r.Receiver+": not sent: "+r.Error)
		}
	}
	if asJSON {
		if err := cli.PrintJSON(c, results); err != nil {
			return err
		}
	}
	if failed {
		return cli.Exit(1)
	}
	return nil
}
