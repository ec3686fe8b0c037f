// Package watch is `bardo watch`: a live view of requests, cost and provider health in a terminal.
package watch

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
)

// Command is `bardo watch`.
func Command() *cobra.Command {
	var plain bool
	c := &cobra.Command{
		Use: "watch", Short: "Watch requests, cost and provider health live", Args: cli.NoArgs,
		Long: "Watch requests, cost and provider health of the gateway that runs on this state, as they come. Prompts and answers\n" +
			"are never shown. On a terminal it is a screen (q leaves it); elsewhere, or with --plain, a line per request that ended.\n" +
			"When the gateway ends, it waits for the next one.",
	}
	c.Flags().BoolVar(&plain, "plain", false, "a line per request, also on a terminal")
	asJSON := c.Flags().Bool("json", false, "what the gateway sends, a JSON object per line: gateway, status (every second), request")
	c.RunE = func(c *cobra.Command, _ []string) error {
		h, err := home.Open()
		if err != nil {
			return err
		}
		switch out, ok := c.OutOrStdout().(*os.File); {
		case *asJSON:
			return watchLines(c, h, rawLine)
		case plain || !ok || !term.IsTerminal(out.Fd()):
			return watchLines(c, h, plainLine)
		default:
			return watchScreen(c.Context(), h, c.InOrStdin(), out)
		}
	}
	return c
}

// watchLines prints the result of show for each update, unless it is "". Connections and disconnections are reported on stderr.
func watchLines(c *cobra.Command, h home.Dir, show func(update) string) error {
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	var writeErr error
	err := follow(ctx, h, func(s update) {
		var err error
		if note := s.note(); note != "" {
			_, err = fmt.Fprintln(c.ErrOrStderr(), "bardo:", note)
		}
		if line := show(s); line != "" && err == nil {
			_, err = fmt.Fprintln(c.OutOrStdout(), line)
		}
		if err != nil { // the reader has closed the pipe
			writeErr = err
			cancel()
		}
	})
	if c.Context().Err() != nil { // the command was interrupted
		return nil
	}
	return errors.Join(writeErr, err)
}

// rawLine is the line as sent by the gateway.
func rawLine(s update) string { return string(s.raw) }
