package record

import (
	"context"
	"log/slog"
	"net/http"

	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// Log logs how a request ended: failures of the gateway or of a provider as warnings, with their cause; the rest at debug level.
func (t *Trace) Log(log *slog.Logger, id string, account policy.Account, r *telemetry.Request) {
	level := slog.LevelDebug
	if r.Status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !log.Enabled(ctx, level) {
		return
	}
	provider, model := t.LastCalled(r)
	attrs := []slog.Attr{
		slog.String("request", id), slog.String("account", string(account)), slog.Int("status", r.Status),
		slog.String("operation", r.Operation.String()), slog.String("provider", provider), slog.String("model", model), slog.Int("attempts", len(t.Attempts)),
		slog.Duration("took", r.Duration),
	}
	if t.Fault != nil {
		attrs = append(attrs, slog.Any("error", t.Fault))
	}
	log.LogAttrs(ctx, level, "request", attrs...)
}
