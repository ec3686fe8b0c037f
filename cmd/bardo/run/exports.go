package run

import (
	"fmt"
	"os"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/run/export"
)

// exports is what sends telemetry of this gateway to a receiver; nil where this process has none to send.
func (g *gateway) exports() *export.Runner {
	if g.parts.Exporter == nil || !g.data && !g.module {
		return nil
	}
	host, _ := os.Hostname() // "" is no reason to send nothing
	o := export.Options{
		Version: cli.Version, Instance: fmt.Sprintf("%s-%d", host, os.Getpid()), Log: g.log, Counts: g.metrics.Exports, Metrics: g.metrics.Gatherer(nil),
		Redact: func(s string) string { return g.secrets.Load().String(s) },
	}
	r := &export.Runner{Open: g.parts.Exporter, Source: export.FromFeed(&g.finished), Config: g.cfg.Load}
	if g.module {
		r.Source, o.Metrics = export.FromStream(g.inEnvoy.finished), g.metrics.Gatherer(g.inEnvoy.scrape)
	}
	r.Options = o
	return r
}
