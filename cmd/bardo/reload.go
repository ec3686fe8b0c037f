package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"bardo.money/gateway/extproc"
)

// settleTime is how long a file must be left alone before it is read: editors write in several steps.
const settleTime = 200 * time.Millisecond

// watchConfig reloads the configuration on SIGHUP and when its file changes, until ctx is done. Streams under way go on.
func (g *gateway) watchConfig(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	changes := make(<-chan fsnotify.Event)
	if g.configPath != "" {
		w, err := fsnotify.NewWatcher()
		if err != nil {
			return err
		}
		defer func() { _ = w.Close() }()
		if err := w.Add(filepath.Dir(g.configPath)); err != nil { // the folder: editors replace the file
			return err
		}
		changes = w.Events
	}
	defer g.endWaiting()
	calm := time.NewTimer(0)
	<-calm.C
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			g.reload(ctx)
		case <-g.listed:
			g.relist(ctx)
		case e := <-changes:
			if e.Name == g.configPath {
				calm.Reset(settleTime)
			}
		case <-calm.C:
			g.reload(ctx)
		}
	}
}

// reload puts the configuration file in force. One that is wrong changes nothing.
func (g *gateway) reload(ctx context.Context) {
	cfg, err := loadConfig(g.configPath, logLines{g.log})
	if errors.As(err, new(exitError)) { // the problems are in the log, a line each
		err = errors.New("the file has mistakes")
	}
	if err != nil {
		g.log.Error("the configuration was not reloaded", "file", g.configPath, "error", err)
		return
	}
	if g.control {
		if err := g.renewCertificate(cfg); err != nil {
			g.log.Error("the configuration was not reloaded", "file", g.configPath, "error", err)
			return
		}
	}
	var rt *extproc.Runtime
	before := g.models
	if g.data {
		if rt, err = g.assemble(cfg); err != nil {
			g.log.Error("the configuration was not reloaded", "file", g.configPath, "error", err)
			return
		}
		if err := g.events.Redirect(cfg.Telemetry.Events, g.out); err != nil {
			g.log.Error("events go where they went", "error", err)
		}
		g.limiter.SetRules(quotaRules(cfg))
		g.answers.Limit(cfg.Inference.Caching.MaxBytes)
	}
	g.pushing.Lock()
	g.retired = g.serving
	g.pushing.Unlock()
	g.cfg.Store(cfg)
	_ = g.level.UnmarshalText([]byte(cfg.Telemetry.LogLevel)) // validated
	ids := providerIDs(cfg)
	g.tracker.Track(ids...)
	for _, p := range g.retired {
		if !slices.Contains(ids, p.ID) {
			g.metrics.ProviderRemoved(string(p.ID))
		}
	}
	if err := g.push(ctx); err != nil {
		g.log.Error("the new configuration was not pushed", "error", err)
		return
	}
	if rt != nil {
		g.use(ctx, rt)
		g.tellChanges(before, g.models)
		select {
		case g.configured <- struct{}{}:
		default: // it is going to be looked at anyway
		}
	}
	g.log.Info("configuration reloaded", "file", g.configPath)
}

// use puts a runtime in force once Envoy has the clusters that its requests will name.
func (g *gateway) use(ctx context.Context, rt *extproc.Runtime) {
	if g.link != nil {
		g.replaceWaiting(ctx, rt)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	if err := g.applied(ctx); err != nil {
		g.log.Warn("envoy has not taken the new configuration", "error", err)
	}
	g.install(rt)
}

func modelIDs(rt *extproc.Runtime) []string {
	offers := rt.Resolver.Models()
	ids := make([]string, len(offers))
	for i := range offers {
		ids[i] = string(offers[i].ID)
	}
	return ids
}

// logLines logs what is printed to it, a line each.
type logLines struct{ log *slog.Logger }

func (l logLines) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		l.log.Warn("configuration", "problem", strings.TrimSpace(line))
	}
	return len(b), nil
}
