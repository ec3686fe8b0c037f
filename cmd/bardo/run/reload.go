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

// lookTime is how often the configuration's file is looked at. Its folder is not watched for events: the store most often lies there
// too, and each page that it writes would be one.
const lookTime = 250 * time.Millisecond

// watchConfig reloads the configuration on SIGHUP, on a command and when its file changes, until ctx is done. Streams under way go on.
func (g *gateway) watchConfig(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	look := time.NewTicker(lookTime)
	defer look.Stop()
	retry := time.NewTimer(maxReloadRetry)
	retry.Stop()
	defer retry.Stop()
	defer g.endWaiting()
	for read := g.startedFrom; ; {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-g.listed:
			g.relist(ctx)
			continue
		case <-look.C:
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
		if wait, ok := g.conf.failed(err, time.Now()); ok {
			retry.Reset(wait)
		}
	}
}

// reloadRequest is a command's wish to have the file read now.
type reloadRequest struct {
	problems io.Writer    // gets the mistakes in the file, a line each
	done     chan<- error // gets the outcome; has room for it
}

// reload puts the configuration file in force, and returns what is known of the file that it has read. A file that is wrong or empty, or that
// Envoy refuses, changes nothing. A file that changes while it is read is read again when it rests: then the info is nil.
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
		defer func() { g.inEnvoy.told(ctx, g.configStatus()) }()
	}
	log := g.log.With("file", g.configPath, "version", settings.Digest(f.Data))
	switch {
	case err == nil:
		g.conf.reloaded(settings.Digest(f.Data), time.Now())
		log.Info("configuration reloaded")
		if keys := g.atStart(); len(keys) > 0 {
			log.Warn("a part of the configuration takes effect at the next start", "keys", keys)
		}
	case errors.As(err, new(refusedElsewhere)):
		g.conf.reloaded(settings.Digest(f.Data), time.Now())
		log.Error("the configuration is in force, but some Envoys refused it and keep the one before", "error", err)
	default:
		g.conf.notReloaded(settings.Digest(f.Data), err, time.Now())
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

// logLines logs what is printed to it, a line each.
type logLines struct{ log *slog.Logger }

func (l logLines) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		l.log.Warn("configuration", "problem", strings.TrimSpace(line))
	}
	return len(b), nil
}
