// Package auditlog is the command `bardo audit log`, which verifies and exports the audit log without the gateway.
package auditlog

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/run/auditing"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/audit"
)

// Command is `bardo audit log`.
func Command() *cobra.Command {
	c := &cobra.Command{Use: "log", Short: "Verify and export the audit log", Args: cli.NoArgs}
	c.AddCommand(verifyCommand(), exportCommand())
	return c
}

// pathOf is the file argument, else the configured file.
func pathOf(c *cobra.Command, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	h, err := home.Open()
	if err != nil {
		return "", err
	}
	cfg, _, err := settings.ForCommand(c, h)
	if err != nil {
		return "", err
	}
	if cfg.Audit.File == "" {
		return "", errors.New("the configuration names no audit log (audit.file): name its file")
	}
	return auditing.Path(cfg.Audit.File, string(h)), nil
}

func verifyCommand() *cobra.Command {
	var heads []string
	c := &cobra.Command{
		Use: "verify [FILE]", Short: "Verify the audit log; exit status 1, with what is wrong, if it was changed", Args: cli.AtMostOneArg("the newest file of a log"),
		Long: "Verify the audit log: that no line was changed, removed, added or cut off. FILE is its newest file; without it, the log of the configuration is read. Who can write\n" +
			"to the folder can make the whole log anew: --head, the number and hash of a line that was noted elsewhere, finds that, too.",
	}
	c.Flags().StringSliceVar(&heads, "head", nil, "NUMBER:HASH of a line that the log must have; may be repeated")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		path, err := pathOf(c, args)
		if err != nil {
			return err
		}
		var witnesses []audit.Head
		for _, text := range heads {
			h, err := audit.ParseHead(text)
			if err != nil {
				return err
			}
			witnesses = append(witnesses, h)
		}
		r, err := audit.Verify(path, witnesses...)
		if err != nil {
			return err
		}
		return show(c, r, *asJSON)
	}
	return c
}

// show prints the report; the error is the exit status.
func show(c *cobra.Command, r *audit.Report, asJSON bool) error {
	if asJSON {
		if err := cli.PrintJSON(c, r); err != nil {
			return err
		}
	} else {
		out := c.OutOrStdout()
		for _, f := range r.Faults {
			fmt.Fprintln(out, cli.Printable(f))
		}
		if r.First > 1 {
			fmt.Fprintf(out, "it begins at line %d: what was before it is not there any more\n", r.First)
		}
		fmt.Fprintf(out, "%s: %d lines in %d files, head %d:%s\n", map[bool]string{true: "sound", false: "not sound"}[r.OK], r.Lines, r.Files, r.Head.Seq, cmp.Or(r.Head.Hash, strings.Repeat("0", 64)))
	}
	if !r.OK {
		return cli.Exit(1)
	}
	return nil
}

func exportCommand() *cobra.Command {
	c := &cobra.Command{Use: "export [FILE]", Short: "Print all lines of the audit log, the oldest first", Args: cli.AtMostOneArg("the newest file of a log")}
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		path, err := pathOf(c, args)
		if err != nil {
			return err
		}
		return audit.Export(path, c.OutOrStdout())
	}
	return c
}
