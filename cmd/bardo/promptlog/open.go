// Package promptlog gives a running gateway the places of its prompt log, as the configuration wants them, and is the command `bardo prompts`, which reads the file.
package promptlog

import (
	"context"
	"errors"
	"path/filepath"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/prompts"
)

// Open opens where prompts are kept: a file, a receiver, both, or nothing. home is the state directory.
func Open(ctx context.Context, cfg *config.Config, home string) (sinks []prompts.Sink, err error) {
	p := &cfg.Telemetry.Prompts
	if p.File != "" {
		f, err := prompts.OpenFile(ctx, prompts.FileOptions{Path: pathOf(p.File, home), Secret: p.Secret.Reveal(), MaxAge: p.MaxAge, MaxBytes: p.MaxBytes})
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, f)
	}
	if p.OTLP.Host != "" && len(p.Keys) > 0 {
		sinks = append(sinks, newReceiver(p))
	}
	return sinks, nil
}

func pathOf(file, home string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(home, file)
}

// errNone says that there is no file.
var errNone = errors.New("the configuration names no file of prompts (telemetry.prompts.file)")
