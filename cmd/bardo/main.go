// Command bardo is the gateway: the whole of it on one machine (up), its parts (extproc, xds, bootstrap), and the tools around it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is stamped by the build.
var version = "dev"

// exitError carries a command's exit status; its message was printed already.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := root().ExecuteContext(ctx)
	var code exitError
	switch {
	case err == nil:
	case errors.As(err, &code):
		stop()
		os.Exit(int(code)) //nolint:gocritic // stop was called
	default:
		fmt.Fprintln(os.Stderr, "bardo:", err)
		stop()
		os.Exit(1)
	}
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "bardo",
		Short:         "LLM gateway for autonomous agents, on Envoy",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w: `%s --help` lists the flags", err, c.CommandPath())
	})
	c.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp) // no argument is a file
	c.AddCommand(upCommand(), extprocCommand(), xdsCommand(), bootstrapCommand(), configCommand(), keysCommand(), balanceCommand(), depositCommand(),
		usageCommand(), auditCommand(), providersCommand(), routeCommand(), planCommand(), watchCommand(), doctorCommand())
	return c
}

// group is a command that only holds others. Alone it prints its help; what is none of its commands is a mistake.
func group(use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
}
