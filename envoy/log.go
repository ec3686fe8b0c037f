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

// maxLine bounds what is kept of a line.
const maxLine = 16 << 10

// lineWriter turns Envoy's output into log records. Safe for concurrent use.
type lineWriter struct {
	log  *slog.Logger
	stop context.Context // done when Envoy is told to stop: that it loses the control plane is no warning then

	mu   sync.Mutex
	part []byte // a line without its end
}

// Write takes output cut anywhere.
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
	if level == slog.LevelWarn && w.stop.Err() != nil && lostStream(message) {
		level = slog.LevelInfo
	}
	w.log.LogAttrs(context.Background(), level, message, slog.String("component", component))
}

// splitLine reads a line of logFormat. Other lines, such as access logs, are information of component "envoy".
func splitLine(line string) (level slog.Level, component, message string) {
	name, rest, ok := strings.Cut(line, "\t")
	level, known := levels[name]
	if !ok || !known {
		return slog.LevelInfo, "envoy", line
	}
	component, message, _ = strings.Cut(rest, "\t")
	if level == slog.LevelWarn && strings.HasPrefix(message, "caught ENVOY_SIG") { // it is told to stop: nothing to warn of
		level = slog.LevelInfo
	}
	return level, "envoy." + component, message
}

// lostStream reports whether a message says that a stream of configuration ended.
func lostStream(message string) bool {
	return strings.Contains(message, "gRPC config stream") && strings.Contains(message, "closed")
}

var levels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warning": slog.LevelWarn,
	"error": slog.LevelError, "critical": slog.LevelError,
}
