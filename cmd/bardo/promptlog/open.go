// Package promptlog opens a running gateway's prompt log as configured, and is the command `bardo prompts`, which reads its file.
package promptlog

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/prompts"
)

// Options configure the sinks of prompts.
type Options struct {
	Home   string                     // the state directory
	Count  func(result string, n int) // counts entries that are in the file but were not sent
	Logger *slog.Logger               // gets no content
}

// Open opens the configured sinks of prompts: a file, a receiver, both, or none. A slow receiver does not delay the file.
func Open(ctx context.Context, cfg *config.Config, o *Options) (sinks []prompts.Sink, err error) {
	p := &cfg.Telemetry.Prompts
	if p.File != "" {
		f, err := prompts.OpenFile(ctx, prompts.FileOptions{Path: pathOf(p.File, o.Home), Secret: p.Secret.Reveal(), MaxAge: p.MaxAge, MaxBytes: p.MaxBytes})
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, f)
	}
	if p.OTLP.Host == "" || len(p.Keys) == 0 {
		return sinks, nil
	}
	if len(sinks) == 0 {
		return []prompts.Sink{newReceiver(p)}, nil
	}
	return append(sinks, prompts.Async(newReceiver(p), o.Count, o.Logger)), nil
}

func pathOf(file, home string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(home, file)
}

// errNoFile means that no file is configured.
var errNoFile = errors.New("the configuration names no file of prompts (telemetry.prompts.file)")
