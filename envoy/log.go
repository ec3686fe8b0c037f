package envoy

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
)

// logFormat is level, component and message, on one line.
const logFormat = "%l\t%n\t%_"

// maxLine limits the stored part of a line, in bytes.
const maxLine = 16 << 10

// lineWriter turns Envoy's output into log records. Safe for concurrent use.
type lineWriter struct {
	log  *slog.Logger
	stop context.Context // done when Envoy is stopped: losing the control plane is then no warning

	mu   sync.Mutex
	part []byte // a line without its end
}

// Write accepts output split at any position.
func (w *lineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(b)
	for {
		line, rest, found := bytes.Cut(b, []byte{'\n'})
		w.part = append(w.part, line[:min(len(line), maxLine-len(w.part))]...)
		if !found {
			return n, nil
		}
		w.emit()
		b = rest
	}
}

func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.emit()
}

func (w *lineWriter) emit() {
	line := strings.TrimSpace(string(w.part))
	w.part = w.part[:0]
	if line == "" {
		return
	}
	level, component, message := splitLine(line)
	if level == slog.LevelWarn && w.stop.Err() != nil && isStreamEnd(message) {
		level = slog.LevelInfo
	}
	w.log.LogAttrs(context.Background(), level, message, slog.String("component", component))
}

// splitLine parses a line of logFormat. Other lines, such as access logs, have level info and component "envoy".
func splitLine(line string) (level slog.Level, component, message string) {
	name, rest, ok := strings.Cut(line, "\t")
	level, known := levels[name]
	if !ok || !known {
		return slog.LevelInfo, "envoy", line
	}
	component, message, _ = strings.Cut(rest, "\t")
	if level == slog.LevelWarn && strings.HasPrefix(message, "caught ENVOY_SIG") { // it is being stopped: no reason for a warning
		level = slog.LevelInfo
	}
	return level, "envoy." + component, message
}

// isStreamEnd reports whether a message means that a configuration stream ended.
func isStreamEnd(message string) bool {
	return strings.Contains(message, "gRPC config stream") && strings.Contains(message, "closed")
}

var levels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warning": slog.LevelWarn,
	"error": slog.LevelError, "critical": slog.LevelError,
}
