package run

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/runtime"
)

// pollInterval is how often the configuration file is checked for changes. Its directory is not watched for file system events: the store is usually in the
// same directory, and each write of a page would be an event.
const pollInterval = 250 * time.Millisecond

// watchConfig reloads the configuration on SIGHUP, on a command, and when its file changes, until ctx is done. Requests in flight continue.
func (g *gateway) watchConfig(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	retry := time.NewTimer(maxReloadRetry)
	retry.Stop()
	defer retry.Stop()
	defer g.stopWaitingForClusters()
	for read := g.startInfo; ; {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-g.listsChanged:
			g.relist(ctx)
			continue
		case <-poll.C:
			if now := settings.Info(g.configPath); settings.SameFile(now, read) || !settings.Settled(now, time.Now()) {
				continue
			}
			read, err = g.reload(ctx, io.Discard)
		case <-hup:
			read, err = g.reload(ctx, io.Discard)
		case <-retry.C:
			read, err = g.reload(ctx, io.Discard)
		case r := <-g.reloads:
			read, err = g.reload(ctx, r.problems)
			r.done <- err
		}
		retry.Stop()
		if wait, ok := g.conf.retryAfter(err, time.Now()); ok {
			retry.Reset(wait)
		}
	}
}

// reloadRequest is a command's request to reload.
type reloadRequest struct {
	problems io.Writer    // receives the mistakes in the file, a line each
	done     chan<- error // receives the outcome; has capacity 1
}

// reload puts the configuration file in force, and returns the info of the file that it read. A file that is invalid, empty, or rejected by Envoy changes
// nothing. For a file that is being written the info is nil, so that it is read again once it has settled.
func (g *gateway) reload(ctx context.Context, problems io.Writer) (os.FileInfo, error) {
	f, err := settings.ReadFile(g.configPath, g.readFile)
	if errors.Is(err, settings.ErrChanging) {
		return nil, err
	}
	if err == nil {
		err = g.adopt(ctx, f.Data, io.MultiWriter(logLines{g.log}, problems))
	}
	if ctx.Err() != nil {
		return f.Info, ctx.Err()
	}
	if g.module {
		defer func() { g.inEnvoy.ReportConfigStatus(ctx, g.configStatus()) }()
	}
	log := g.log.With("file", g.configPath, "version", settings.Digest(f.Data))
	switch {
	case err == nil:
		g.conf.setReloaded(settings.Digest(f.Data), time.Now())
		log.Info("configuration reloaded")
		if keys := g.atStart(); len(keys) > 0 {
			log.Warn("a part of the configuration takes effect at the next start", "keys", keys)
		}
	case errors.As(err, new(refusedElsewhere)):
		g.conf.setReloaded(settings.Digest(f.Data), time.Now())
		log.Error("the configuration is in force, but some Envoys refused it and keep the one before", "error", err)
	default:
		g.conf.setFailed(settings.Digest(f.Data), err, time.Now())
		log.Error("the configuration was not reloaded", "error", err)
	}
	return f.Info, err
}

func modelIDs(rt *runtime.Config) []string {
	offers := rt.Resolver.Models()
	ids := make([]string, len(offers))
	for i := range offers {
		ids[i] = string(offers[i].ID)
	}
	return ids
}

// logLines logs each line that is written to it.
type logLines struct{ log *slog.Logger }

func (l logLines) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		l.log.Warn("configuration", "problem", strings.TrimSpace(line))
	}
	return len(b), nil
}
