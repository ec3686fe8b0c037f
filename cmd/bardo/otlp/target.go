package otlp

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"bardo.money/gateway/internal/config"
)

// grpcPort is the conventional port of OTLP over gRPC.
const grpcPort = 4317

// Retries of an export, which exportTime bounds too.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 2 * time.Second
	retryTime  = 8 * time.Second
)

// target is a receiver.
type target struct {
	url     config.URL
	grpc    bool
	headers map[string]string
}

// spans creates the exporter of spans.
func (t *target) spans(ctx context.Context) (sdk.SpanExporter, error) {
	if t.grpc {
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(t.url.String()), otlptracegrpc.WithHeaders(t.headers), otlptracegrpc.WithTimeout(exportTime),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retryTime}))
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(t.url.String()+"/v1/traces"), otlptracehttp.WithHeaders(t.headers), otlptracehttp.WithTimeout(exportTime),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retryTime}))
}

// metrics creates the exporter of metrics.
func (t *target) metrics(ctx context.Context) (metric.Exporter, error) {
	if t.grpc {
		return otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(t.url.String()), otlpmetricgrpc.WithHeaders(t.headers), otlpmetricgrpc.WithTimeout(exportTime),
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retryTime}))
	}
	return otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(t.url.String()+"/v1/metrics"), otlpmetrichttp.WithHeaders(t.headers), otlpmetrichttp.WithTimeout(exportTime),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retryTime}))
}
