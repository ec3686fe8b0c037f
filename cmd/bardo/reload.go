package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"bardo.money/gateway/extproc"
)

const (
	// settleTime is how long a file must be left alone before it is read: editors write in several steps.
	settleTime = 200 * time.Millisecond
	// lookTime is how often the configuration's file is looked at. Its folder is not watched for events: the store most often lies there
	// too, and each page that it writes would be one.
	lookTime = 250 * time.Millisecond
)

// watchConfig reloads the configuration on SIGHUP and when its file changes, until ctx is done. Streams under way go on.
func (g *gateway) watchConfig(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	look := time.NewTicker(lookTime)
	defer look.Stop()
	defer g.endWaiting()
	for read := fileInfo(g.configPath); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			read = g.reload(ctx)
		case <-g.listed:
			g.relist(ctx)
		case <-look.C:
			if now := fileInfo(g.configPath); !sameFile(now, read) && settled(now, time.Now()) {
				read = g.reload(ctx)
			}
		}
	}
}

// fileInfo is what is known of a file, nil if it is not there.
func fileInfo(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// settled tells that a file, looked at before now, was not written just then. One from the future is not waited for, nor one that is not there: reading it says why.
func settled(f os.FileInfo, now time.Time) bool {
	if f == nil {
		return true
	}
	age := now.Sub(f.ModTime())
	return age < 0 || age >= settleTime
}

// sameFile tells that nobody wrote to a file, or replaced it, between two looks at it.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// reload puts the configuration file in force, and returns what it has read. A file that is wrong, or empty, changes nothing. So does one that was
// written while it was read, since the beginning of a file may be a configuration, too; then it returns nil.
func (g *gateway) reload(ctx context.Context) os.FileInfo {
	before := fileInfo(g.configPath)
	data, err := readConfig(g.configPath)
	after := fileInfo(g.configPath)
	if !sameFile(before, after) {
		return nil
	}
	log := g.log.With("file", g.configPath, "version", digest(data))
	if err == nil {
		err = g.adopt(ctx, data)
	}
	if err != nil {
		log.Error("the configuration was not reloaded", "error", err)
	} else {
		log.Info("configuration reloaded")
	}
	return after
}

// digest tells the contents of configuration files apart: it is the beginning of what sha256sum prints.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

// adopt puts a configuration in force.
func (g *gateway) adopt(ctx context.Context, data []byte) error {
	if len(data) == 0 && g.configPath != "" {
		return errors.New("the file is empty")
	}
	cfg, err := parseConfig(g.configPath, data, logLines{g.log})
	if errors.As(err, new(exitError)) { // the problems are in the log, a line each
		return errors.New("the file has mistakes")
	}
	if err != nil {
		return err
	}
	if g.control {
		if err := g.renewCertificate(cfg); err != nil {
			return err
		}
	}
	var rt *extproc.Runtime
	before := g.models
	if g.data {
		if rt, err = g.assemble(cfg); err != nil {
			return err
		}
		if err := g.events.Redirect(cfg.Telemetry.Events, g.out); err != nil {
			g.log.Error("events go where they went", "error", err)
		}
		g.limiter.SetRules(quotaRules(cfg))
		g.answers.Limit(cfg.Inference.Caching.MaxBytes)
	}
	old := g.cfg.Swap(cfg)
	_ = g.level.UnmarshalText([]byte(cfg.Telemetry.LogLevel)) // validated
	ids := providerIDs(cfg)
	g.tracker.Track(ids...)
	for _, id := range providerIDs(old) {
		if !slices.Contains(ids, id) {
			g.metrics.ProviderRemoved(string(id))
		}
	}
	if err := g.push(ctx); err != nil {
		return fmt.Errorf("push it to Envoy: %w", err)
	}
	if rt != nil {
		g.use(ctx, rt)
		g.tellChanges(before, g.models)
		select {
		case g.configured <- struct{}{}:
		default: // it is going to be looked at anyway
		}
	}
	return nil
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
