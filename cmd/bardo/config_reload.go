package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
)

func configReloadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Args: cli.NoArgs,
		Short: "Reload the configuration file in the running gateway: exit status 1 if it is not in force everywhere, 2 if it has errors",
		RunE: func(c *cobra.Command, _ []string) error {
			return forEachPart(c, func(p control.Part, h home.Dir) error {
				var out control.ReloadOutcome
				if err := control.DoAt(c.Context(), h, p.RunInfo, http.MethodPost, "/config/reload", &out); err != nil {
					return err
				}
				_, _ = io.WriteString(c.ErrOrStderr(), out.Problems) // nowhere to report a broken terminal to
				switch {
				case out.Error == control.ErrMistakes.Error():
					return cli.Exit(2)
				case out.Error != "":
					return fmt.Errorf("%s: the configuration was not reloaded: %s", p.Name, out.Error)
				}
				_, err := io.WriteString(c.OutOrStdout(), statusText(p.Name, out.Status))
				return err
			})
		},
	}
}

func configStatusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Args: cli.NoArgs,
		Short: "Show which configuration is in force in the running gateway, and why a newer one is not: exit status 1 if so",
	}
	asJSON := cli.JSONFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		failed := false
		err := forEachPart(c, func(p control.Part, h home.Dir) error {
			var s control.ConfigStatus
			if err := control.DoAt(c.Context(), h, p.RunInfo, http.MethodGet, "/config", &s); err != nil {
				return err
			}
			failed = failed || s.Problem() != ""
			if *asJSON {
				return cli.PrintJSON(c, s)
			}
			_, err := io.WriteString(c.OutOrStdout(), statusText(p.Name, s))
			return err
		})
		if err == nil && failed {
			return cli.Exit(1)
		}
		return err
	}
	return c
}

// forEachPart calls do for every process that runs on this state directory.
func forEachPart(c *cobra.Command, do func(control.Part, home.Dir) error) error {
	h, err := home.Open()
	if err != nil {
		return err
	}
	parts, err := control.Parts(c.Context(), h)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range parts {
		errs = append(errs, do(p, h))
	}
	return errors.Join(errs...)
}

func builtIn(file string) string {
	if file == "" {
		return "the built-in configuration"
	}
	return file
}

// statusText formats a status.
func statusText(part string, s control.ConfigStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, version %s, in force since %s\n", part, builtIn(s.File), s.Version, s.Since.UTC().Format(time.RFC3339))
	if f := s.Failure; f != nil {
		again := "; it is read again when it changes"
		if f.Retry != nil {
			again = "; it is read again at " + f.Retry.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "  version %s was not put in force at %s: %s%s\n", f.Version, f.At.UTC().Format(time.RFC3339), cli.Printable(f.Reason), again)
	}
	if len(s.AtStart) > 0 {
		fmt.Fprintf(&b, "  at the next start: %s; until then the values before are in force\n", strings.Join(s.AtStart, ", "))
	}
	if len(s.Waiting) > 0 {
		fmt.Fprintf(&b, "  requests are served by the one before until Envoy has the providers %s\n", cli.List(s.Waiting))
	}
	for _, r := range s.Refusals {
		fmt.Fprintf(&b, "  envoy %s refused it and keeps the one before: %s; it is offered again at %s\n", r.Node, cli.Printable(r.Reason), r.Retry.UTC().Format(time.RFC3339))
	}
	return b.String()
}
