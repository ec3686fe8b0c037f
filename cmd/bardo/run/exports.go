package run

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"bardo.money/gateway/cmd/bardo/alerts"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/promptlog"
	"bardo.money/gateway/cmd/bardo/run/export"
	"bardo.money/gateway/cmd/bardo/run/relay"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/internal/prompts"
)

// send starts the exporters of telemetry and the notifier. A process without a data path has nothing to send.
func (g *gateway) send(ctx context.Context, group *errgroup.Group) {
	if !g.data && !g.module {
		return
	}
	if g.parts.Exporter != nil {
		group.Go(guard.Again(ctx, func() error { return g.export(ctx) }))
	}
	if g.parts.Usage != nil {
		o := &export.UsageOptions{Home: g.home, Config: g.cfg.Load, Redact: g.redact, Metrics: g.metrics, Log: g.log}
		group.Go(guard.Again(ctx, func() error { return g.parts.Usage(ctx, o) }))
	}
	if g.parts.Notifier != nil {
		group.Go(guard.Again(ctx, func() error { return g.notify(ctx) }))
	}
}

// directEvents sets where events are written, as configured.
func (g *gateway) directEvents(cfg *config.Config) error {
	if err := g.events.Redirect(cfg.Telemetry.Events, g.out); err != nil {
		return cli.Advise(err, "make its directory, or correct telemetry.events")
	}
	writer := "data"
	if g.inside {
		writer = "envoy"
	}
	return export.KeepEvents(&g.events, g.home, &cfg.Telemetry, writer)
}

func (g *gateway) export(ctx context.Context) error {
	host, _ := os.Hostname() // "" if it fails
	o := export.Options{
		Version: cli.Version, Instance: fmt.Sprintf("%s-%d", host, os.Getpid()), Log: g.log, Counts: g.metrics.Exports, Metrics: g.metrics.Gatherer(nil), Redact: g.redact,
	}
	source := relay.FromFeed(&g.finished)
	if g.module {
		source, o.Metrics = relay.FromStream[record.Finished](g.inEnvoy.Stream("/finished")), g.metrics.Gatherer(g.inEnvoy.Scrape)
	}
	return export.Run(ctx, g.parts.Exporter, source, g.cfg.Load, &o)
}

func (g *gateway) notify(ctx context.Context) error {
	source := relay.FromFeed(&g.alerts)
	if g.module {
		source = relay.FromStream[alerts.Alert](g.inEnvoy.Stream("/alerts"))
	}
	r := relay.Runner[alerts.Alert]{Key: "notifications", Source: source, Config: g.cfg.Load, Dropped: func(uint64) {}, Log: g.log}
	r.Open = g.parts.Notifier(&alerts.Options{Gateway: settings.NodeName(g.cfg.Load()), Redact: g.redact, Metrics: g.metrics, Log: g.log})
	return r.Run(ctx)
}

// logPrompts writes the prompt log until ctx is done.
func (g *gateway) logPrompts(ctx context.Context) error {
	places := promptlog.Options{Home: string(g.home), Count: g.metrics.PromptsLogged, Logger: g.log}
	open := func(ctx context.Context, cfg *config.Config) ([]prompts.Sink, error) {
		return promptlog.Open(ctx, cfg, &places)
	}
	g.prompts.Run(ctx, prompts.Options{Config: g.cfg.Load, Open: open, Redact: g.redact, Logger: g.log})
	return nil
}

// watchSpending checks budgets and spending until ctx is done.
func (g *gateway) watchSpending(ctx context.Context) error {
	s := alerts.Spending{Books: g.books, Config: g.cfg.Load, Served: g.gate.Served, Events: &g.events, Log: g.log}
	return s.Run(ctx)
}

func (g *gateway) redact(s string) string { return g.secrets.Load().String(s) }
