// Command bardo is the gateway: all of it on one machine (up), its processes separately (extproc, xds, bootstrap), and tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/clickhouse"
	"bardo.money/gateway/cmd/bardo/doctor"
	_ "bardo.money/gateway/cmd/bardo/early" // before packages with large tables
	"bardo.money/gateway/cmd/bardo/notify"
	"bardo.money/gateway/cmd/bardo/objectstore"
	"bardo.money/gateway/cmd/bardo/otlp"
	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/cmd/bardo/payclient"
	"bardo.money/gateway/cmd/bardo/promptlog"
	"bardo.money/gateway/cmd/bardo/replay"
	"bardo.money/gateway/cmd/bardo/route"
	"bardo.money/gateway/cmd/bardo/run"
	exporters "bardo.money/gateway/cmd/bardo/run/export"
	"bardo.money/gateway/cmd/bardo/sealed"
	"bardo.money/gateway/cmd/bardo/watch"
	"bardo.money/gateway/policy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := root().ExecuteContext(ctx)
	var code cli.Exit
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
		Version:       cli.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cli.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w: `%s --help` lists the flags", err, c.CommandPath())
	})
	c.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp) // no argument is a file
	p := parts.All()
	p.Runtime, p.Chain, p.Agents, p.Stake, p.Exporter, p.Notifier, p.Usage = loadRuntime, openChain, openAgents, openStake, otlp.Open, notify.Opener, exportUsage
	c.AddCommand(run.UpCommand(p), run.ExtprocCommand(p), run.XDSCommand(p), run.BootstrapCommand(), configCommand(), keysCommand(), groupsCommand(policy.OfProject, "Group keys into projects, with budgets"), groupsCommand(policy.OfOwner, "Owners of projects, with budgets"), balanceCommand(), depositCommand(),
		usageCommand(), exportCommand(), paymentsCommand(), auditCommand(), walletCommand(), providersCommand(), governorCommand(), feedbackCommand(), route.Command(parts.Adapters(), parts.Guards), planCommand(), replay.Command(parts.All), watch.Command(), doctor.Command(), versionCommand(), modelsCommand(), requestsCommand(), attestCommand(), payclient.Command(), sealed.Command(), notify.Command(), promptlog.Command())
	c.InitDefaultHelpCmd()
	arrangeHelp(c)
	cli.NameMissingFlags(c)
	return c
}

// exportUsage runs the configured exporters of usage concurrently until ctx is done.
func exportUsage(ctx context.Context, o *exporters.UsageOptions) error {
	var both errgroup.Group
	both.Go(func() error { return clickhouse.Run(ctx, o) })
	both.Go(func() error { return objectstore.Run(ctx, o) })
	return both.Wait()
}
