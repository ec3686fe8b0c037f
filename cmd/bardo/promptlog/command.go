package promptlog

import (
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/prompts"
	"bardo.money/gateway/internal/seal"
)

// Command is `bardo prompts`.
func Command() *cobra.Command {
	var since time.Duration
	var key, request string
	c := &cobra.Command{
		Use: "prompts", Short: "Print the requests and answers that the prompt log has, a JSON object per line", Args: cli.NoArgs,
		Long: "Print the requests and answers that the prompt log has (telemetry.prompts in the configuration), the oldest first, a JSON object per line. They are masked, and are\n" +
			"decrypted with the configuration's key; the gateway may run or not.",
	}
	c.Flags().DurationVar(&since, "since", 0, "how long ago the oldest may be, as 24h; 0: any")
	c.Flags().StringVar(&key, "key", "", "those of the API key with this id alone")
	c.Flags().StringVar(&request, "request", "", "the one of the request with this id alone")
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		h, err := home.Open()
		if err != nil {
			return err
		}
		cfg, _, err := settings.ForCommand(c, h)
		if err != nil {
			return err
		}
		p := &cfg.Telemetry.Prompts
		if p.File == "" {
			return errNoFile
		}
		var from time.Time
		if since > 0 {
			from = time.Now().Add(-since)
		}
		out := json.NewEncoder(c.OutOrStdout())
		out.SetEscapeHTML(false)
		err = prompts.Read(c.Context(), pathOf(p.File, string(h)), p.Secret.Reveal(), from, func(e *prompts.Entry) error {
			if key != "" && string(e.Account) != key || request != "" && e.RequestID != request {
				return nil
			}
			return out.Encode(e)
		})
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // nothing was logged yet
		case errors.Is(err, seal.ErrKey):
			return cli.Advise(err, "name a configuration with the key that it was written with (telemetry.prompts.encryption_key)")
		}
		return err
	}
	return c
}
