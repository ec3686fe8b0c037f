package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// longest is the maximum length of a value in the log, in bytes: enough for a stack trace, too short for a conversation.
const longest = 4096

// NewLogger returns the program's logger: a JSON object per line, or, with text, a human-readable line with the time of day, level, message and
// name=value. Durations are milliseconds in JSON, under a name that ends in _ms, and have their unit in text. level is debug, info, warn or error and
// can be changed later by the LevelVar.
//
// It cannot log what must never be logged, whatever a caller passes: values are scalars, errors and Stringers, cut to 4 KiB; of any other value, such
// as a request or a byte slice, only the type is written. Keys and other credentials inside a text are masked. Safe for concurrent use.
func NewLogger(w io.Writer, level string, text bool) (*slog.Logger, *slog.LevelVar, error) {
	lv := new(slog.LevelVar)
	l, err := parseLevel(level)
	if err != nil {
		return nil, nil, err
	}
	lv.Set(l)
	var h slog.Handler = slog.NewJSONHandler(redactor{w}, &slog.HandlerOptions{Level: lv, ReplaceAttr: numeric})
	if text {
		h = slog.NewTextHandler(redactor{w}, &slog.HandlerOptions{Level: lv, ReplaceAttr: readable})
	}
	return slog.New(h), lv, nil
}

// numeric is plain, with durations in milliseconds: took=1.5s becomes "took_ms":1500.
func numeric(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_ms", float64(a.Value.Duration().Microseconds())/1000)
	}
	return plain(groups, a)
}

// readable is plain, with only the time of day.
func readable(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		return slog.String(slog.TimeKey, a.Value.Time().Format("15:04:05.000"))
	}
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().Round(time.Microsecond).String())
	}
	return plain(groups, a)
}

func parseLevel(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "debug":
		return slog.LevelDebug, nil
	case "info", "":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q: expected debug, info, warn or error", s)
}

// plain converts an attribute's value to a scalar.
func plain(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(cut(a.Value.String()))
	case slog.KindAny:
		a.Value = slog.StringValue(cut(text(a.Value.Any())))
	case slog.KindBool, slog.KindDuration, slog.KindFloat64, slog.KindInt64, slog.KindTime, slog.KindUint64,
		slog.KindGroup, slog.KindLogValuer:
	}
	return a
}

// text returns what may be logged of a value that is no scalar.
func text(v any) (s string) {
	defer func() {
		if recover() != nil { // a nil pointer behind an error or a Stringer
			s = fmt.Sprintf("%T", v)
		}
	}()
	switch v := v.(type) {
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	case []string:
		return strings.Join(v, ", ")
	}
	return fmt.Sprintf("%T", v)
}

func cut(s string) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}
