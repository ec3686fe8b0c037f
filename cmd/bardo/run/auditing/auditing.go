// Package auditing opens a running gateway's audit log as configured.
package auditing

import (
	"log/slog"
	"path/filepath"
	"runtime/debug"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/internal/audit"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
)

// Log is the audit log of a process. The zero value writes nothing.
type Log struct{ log *audit.Log }

// startRecord is written as the first line after each start.
type startRecord struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Process  string `json:"process"`
}

// The processes of a gateway. Each has its own log.
const (
	Data    = "data"    // requests, keys and money
	Control = "control" // providers, if the data path is in another process
)

// Open opens the configured log, and makes the sink write its audited events there.
func (l *Log) Open(c *config.Audit, home, process, version string, sink *event.Sink, log *slog.Logger) (err error) {
	if c.File == "" {
		return nil
	}
	o := audit.Options{
		Path: Path(c.File, home), Sync: c.Sync, MaxBytes: c.MaxBytes, Keep: c.Keep, Redact: sink.Redact,
		Failed: func(err error) { log.Error("the audit log was not written", "error", err) },
	}
	if process == Control {
		o.Path += ".control"
	}
	a := startRecord{Version: version, Process: process}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				a.Revision = s.Value
			}
		}
	}
	if l.log, err = audit.Open(o, a); err != nil {
		return cli.Advise(err, "make its directory, or correct audit.file")
	}
	sink.RecordIn(l.log)
	return nil
}

// Path returns the path of the configured file; relative paths are below home.
func Path(file, home string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(home, file)
}

// Close writes pending lines, closes the log, and logs its last line and hash.
func (l *Log) Close(sink *event.Sink, log *slog.Logger) {
	if l.log == nil {
		return
	}
	sink.RecordIn(nil)
	head, err := l.log.Close()
	if err != nil {
		log.Error("the audit log was not closed cleanly", "error", err)
		return
	}
	log.Info("the audit log ends", "line", head.Seq, "hash", head.Hash)
}
