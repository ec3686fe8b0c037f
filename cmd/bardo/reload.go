package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
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
			if now := fileInfo(g.configPath); sameFile(now, read) || !settled(now, time.Now()) {
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

// configFile is a configuration file as it was read.
type configFile struct {
	path string
	data []byte
	info os.FileInfo // from before it was read; nil if it was not there
}

// errChanging says that a file was written to while it was read: the beginning of a file may be a configuration too.
var errChanging = errors.New("the file changed while it was read")

// readConfigFile reads a file with read. What is returned with errChanging is not to be used.
func readConfigFile(path string, read func(string) ([]byte, error)) (configFile, error) {
	f := configFile{path: path, info: fileInfo(path)}
	var err error
	f.data, err = read(path)
	if !sameFile(f.info, fileInfo(path)) {
		return f, errChanging
	}
	return f, err
}

// readRestingConfig reads a configuration file, again while it changes.
func readRestingConfig(ctx context.Context, path string) (configFile, error) {
	for {
		f, err := readConfigFile(path, readConfig)
		if !errors.Is(err, errChanging) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(settleTime):
		}
	}
}

// reload puts the configuration file in force, and returns what is known of the file that it has read. A file that is wrong or empty, or that
// Envoy refuses, changes nothing. A file that changes while it is read is read again when it rests: then the info is nil.
func (g *gateway) reload(ctx context.Context, problems io.Writer) (os.FileInfo, error) {
	f, err := readConfigFile(g.configPath, g.readFile)
	if errors.Is(err, errChanging) {
		return nil, err
	}
	if err == nil {
		err = g.adopt(ctx, f.data, io.MultiWriter(logLines{g.log}, problems))
	}
	if ctx.Err() != nil {
		return f.info, ctx.Err()
	}
	log := g.log.With("file", g.configPath, "version", digest(f.data))
	switch {
	case err == nil:
		g.conf.reloaded(digest(f.data), time.Now())
		log.Info("configuration reloaded")
	case errors.As(err, new(refusedElsewhere)):
		g.conf.reloaded(digest(f.data), time.Now())
		log.Error("the configuration is in force, but some Envoys refused it and keep the one before", "error", err)
	default:
		g.conf.notReloaded(digest(f.data), err, time.Now())
		log.Error("the configuration was not reloaded", "error", err)
	}
	return f.info, err
}

// digest tells the contents of configuration files apart: it is the beginning of what sha256sum prints.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
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
